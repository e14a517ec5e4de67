"""Run: plan, quote and run annotators over the episodes that lack them, each frame decoded once."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from annotators.base import Annotator, Bundle, Factory, Options, no_frames
from annotators.frames import Frames
from annotators.remote import hire_decoders, lost_frames, staffed
from annotators.stage import Budget, Running
from annotators.write import Writer
from ares.annotation import Annotation, Cost
from ares.checks.unfinished import mend_spaces
from ares.episode import Episode, Json
from ares.errors import AresError, ModelError, RequestError
from ares.jobs.engine import Engine, Hired, Local, at_work
from ares.jobs.flow import Stage, flow
from ares.jobs.ledger import enter_job
from ares.jobs.progress import Progress
from ares.registry import annotators as registry
from ares.search.meaning import embed_texts
from ares.search.spaces import spaces
from ares.store.refresh import refresh_all

if TYPE_CHECKING:
    from ares.workspace import Workspace

_READ_BATCH = 8
_PLAN_BATCH = 500
_QUOTE_SAMPLE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """What a run would do and cost; frames and cost are those of a sample, scaled up.

    Attributes:
        annotator: Plug-in name.
        planned: Episodes that the filter leaves; for `grade` the captions that they have now.
        already: Those that this maker has done.
        frames: Frames to decode for the rest.
        cost: Calls, tokens and money for the rest; `usd` is None when the price is not known.
    """

    annotator: str
    planned: int
    already: int
    frames: int
    cost: Cost

    def to_json(self) -> dict[str, Json]:
        """The document of `ares annotate --dry-run --json`."""
        counts: dict[str, Json] = {"planned": self.planned, "already": self.already, "frames": self.frames}
        cost = self.cost
        tokens: dict[str, Json] = {
            "tokens_in": cost.tokens_in,
            "tokens_out": cost.tokens_out,
            "usd": cost.usd,
        }
        return {"annotator": self.annotator, **counts, "calls": cost.calls, **tokens}


def annotate(
    ws: Workspace,
    names: Sequence[str],
    options: Options,
    *,
    where: str = "",
    limit: int | None = None,
    budget_usd: float | None = None,
    strict: bool = False,
    readers: int = 4,
    quiet: bool = False,
    engine: Engine | None = None,
) -> list[dict[str, Json]]:
    """Run annotators, in the order given, over the episodes that lack their annotation.

    Args:
        ws: Where the episodes are and the annotations go.
        names: Annotators; a later one sees what an earlier one made in the same run.
        options: Models, layout, rubric.
        where: SQL filter over the episode columns.
        limit: Most episodes to work on; those that lack nothing do not count.
        budget_usd: Hard stop, in US dollars over all annotators.
        strict: Stop at the first failure.
        readers: Threads that decode on this machine.
        quiet: Show no progress.
        engine: Where frames are decoded and annotators work; here by default.

    Returns:
        One document per annotator: annotator, maker, model, planned, kept, already, failed, failures, calls, tokens_in,
        tokens_out, usd, seconds.

    Raises:
        RequestError: An annotator is unknown, the filter cannot be read, or a budget was given without a price.
        ModelError: A model cannot be loaded or its server not reached; nothing was started.
    """
    started = time.monotonic()
    with ws.writing(f"ares annotate {' '.join(names)}"), at_work(engine) as engine:
        ws.sync()
        running = start(ws, names, options, budget_usd, strict, engine)
        decoders = hire_decoders(engine, readers)
        mend_spaces(ws)
        total = limit if limit is not None else ws.tables.episodes.count(where)
        progress = Progress(f"annotate {' '.join(names)}", total, None if quiet else sys.stderr)
        _run(ws, running, islice(_lacking(ws, running, where, progress), limit), decoders, progress)
        told = _silent if quiet else _told
        if _embed_texts(ws, running, told) or any(one.report.kept for one in running):
            ws.tables.optimize()
            refresh_all(ws.tables, told)
        documents = [one.to_json(time.monotonic() - started) for one in running]
        for document in documents:
            enter_job(ws.annotations, f"annotate {document['annotator']}", document)
    return documents


def quote(ws: Workspace, names: Sequence[str], options: Options, where: str = "") -> list[Quote]:
    """What `annotate` would do, without doing it. Raises as `annotate` does."""
    ws.sync()
    running = start(ws, names, options, None, False, Local())
    counts = _counts(ws, running, where)
    sample = list(islice(ws.episodes(where), _QUOTE_SAMPLE))
    return [_quote(one, *count, sample) for one, count in zip(running, counts, strict=True)]


def start(
    ws: Workspace,
    names: Sequence[str],
    options: Options,
    budget_usd: float | None,
    strict: bool,
    engine: Engine,
) -> list[Running]:
    """Load the annotators. Raises RequestError or ModelError when one cannot work here."""
    factories: list[Factory] = [registry.get(name) for name in names]
    if budget_usd is not None and options.settings.price is None:
        raise RequestError("a budget needs a price", "set ARES_PRICE=IN,OUT in US dollars per million tokens")
    budget = Budget(budget_usd)
    share = 1 / max(len(names), 1)
    staff = [staffed(engine, factory, options, ws, share) for factory in factories]
    return [Running(ws, annotator, budget, strict) for annotator in staff]


def _embed_texts(ws: Workspace, running: Sequence[Running], tell: Callable[[str], None]) -> int:
    """Let what was said be searched by its meaning too; returns how many texts got a vector.

    In the spaces whose model was at work, and, as a job may have written captions, in those that have texts already.
    """
    at_work, having = {one.annotator.space for one in running}, set(ws.tables.text_spaces())
    wrote, made = any(one.report.kept for one in running), 0
    for name, space in spaces(ws).items():
        if name in at_work or (wrote and name in having):
            try:
                made += embed_texts(ws, space)
            except ModelError as error:
                tell(f"new captions cannot be found by meaning in {name}: {error}")
    return made


def _told(line: str) -> None:
    print(line, file=sys.stderr)


def _silent(line: str) -> None:
    pass


def _run(
    ws: Workspace,
    running: Sequence[Running],
    bundles: Iterator[Bundle],
    decoders: Hired[Frames, Frames],
    progress: Progress,
) -> None:
    writer = Writer(ws, running)
    signals = any(one.annotator.signals for one in running)
    pixels = any(one.annotator.wants is not no_frames for one in running)
    reading: Stage[Bundle] = Stage(
        "read",
        lambda batch: _read(ws, batch, signals, decoders if pixels else None),
        batch=_READ_BATCH,
        workers=decoders.workers,
    )

    def sink(batch: list[Bundle]) -> None:
        progress.advance(len(batch))
        writer.take(batch)

    try:
        flow(bundles, [reading, *(one.stage() for one in running)], sink)
    finally:
        writer.flush()
        progress.close()
        ws.sync()
    writer.close()


def _read(ws: Workspace, batch: list[Bundle], signals: bool, decoders: Hired[Frames, Frames] | None) -> None:
    if signals:
        trajectories = dict(ws.tables.trajectories.read([bundle.episode.episode_id for bundle in batch]))
        for bundle in batch:
            bundle.trajectory = trajectories.get(bundle.episode.episode_id)
    if decoders:
        decoded = decoders.run([bundle.frames for bundle in batch])
        for bundle, frames in zip(batch, decoded, strict=True):
            bundle.frames = lost_frames(bundle.frames, frames) if isinstance(frames, AresError) else frames


def _lacking(ws: Workspace, running: Sequence[Running], where: str, progress: Progress) -> Iterator[Bundle]:
    """Episodes that at least one annotator has to work on; the others are counted and passed over."""
    captions = any(one.annotator.about == "caption" for one in running)
    episodes = ws.episodes(where)
    while batch := list(islice(episodes, _PLAN_BATCH)):
        known = _captions(ws, batch) if captions else {}
        bundles = [
            Bundle(episode, Frames(episode, ()), captions=known.get(episode.episode_id, ()))
            for episode in batch
        ]
        for one in running:
            one.look(bundles)
        for bundle in bundles:
            bundle.frames = _wanted(bundle, running)
            if any(one.lacks(bundle) for one in running):
                yield bundle
                continue
            for one in running:
                one.skip(bundle)
            progress.advance()


def _wanted(bundle: Bundle, running: Sequence[Running]) -> Frames:
    wanted = [
        one.annotator.wants(bundle.episode)
        for one in running
        if one.lacks(bundle) or one.annotator.about == "caption"
    ]
    return Frames(bundle.episode, wanted)


def _captions(ws: Workspace, episodes: Sequence[Episode]) -> dict[str, list[Annotation]]:
    found: dict[str, list[Annotation]] = {}
    for fact in ws.annotations.about([episode.episode_id for episode in episodes], ["caption"]):
        found.setdefault(fact.episode_id, []).append(fact)
    return found


def _counts(ws: Workspace, running: Sequence[Running], where: str) -> list[tuple[int, int]]:
    """Subjects of the episodes that a filter leaves, and those of them that are done, for each annotator."""
    counts = [(0, 0)] * len(running)
    captions = any(one.annotator.about == "caption" for one in running)
    for ids in ws.tables.episodes.stretches(where):
        subjects = {"episode": ids, "caption": ws.annotations.made(ids, "caption") if captions else []}
        for at, one in enumerate(running):
            mine = subjects[one.annotator.about]
            planned, already = counts[at]
            done = ws.annotations.done(one.annotator.maker.maker_id, mine)
            counts[at] = planned + len(mine), already + len(done)
    return counts


def _quote(running: Running, planned: int, already: int, sample: Sequence[Episode]) -> Quote:
    annotator: Annotator = running.annotator
    scale = (planned - already) / max(len(sample), 1)
    frames = sum(len(seconds) for episode in sample for seconds in annotator.wants(episode).values())
    cost = sum((annotator.estimate(episode) for episode in sample), Cost())
    return Quote(
        annotator=running.name,
        planned=planned,
        already=already,
        frames=round(frames * scale),
        cost=Cost(
            calls=round(cost.calls * scale),
            tokens_in=round(cost.tokens_in * scale),
            tokens_out=round(cost.tokens_out * scale),
            usd=None if cost.usd is None else cost.usd * scale,
        ),
    )
