"""Attacks a judge: ten batteries of false texts, made of true captions; no grade is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, cast

from annotators.base import Subject, find_outcome_error, make_annotation_subject, read_work
from annotators.grade.annotator import CaptionResult, GradeAnnotator
from annotators.grade.battery import ControlMaker
from ares.annotation import Annotation, Cost
from ares.console import count_of
from ares.errors import RequestError
from ares.registry import suggest_column
from ares.rubric import BATTERY, CONTROL_KINDS, normalize_caption
from ares.statistics import share_lower_bound, share_upper_bound
from ares.store import batched

if TYPE_CHECKING:
    from annotators.base import Options
    from ares.store import Stores


_INSTRUCTION = "instruction"
# Batteries of an attack.
_SCALE = 10
# No annotation has this producer: the texts are nobody's captions.
_NO_PRODUCER = "attack"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackRequest:
    """What an attack is to do.

    Attributes:
        truth: Text column with true captions, or "" for the instruction with the outcome of `success`.
        where: SQL filter over the episode columns.
        episodes: Most episodes.
        seed: Of the sample and of the texts.
        budget_usd: Hard stop, or None.
    """

    truth: str = ""
    where: str = ""
    episodes: int
    seed: int
    budget_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackQuote:
    """What an attack would do and cost, as expected: replies that were kept cost nothing.

    Attributes:
        judge: Name of the judge.
        episodes: Number of episodes.
        controls: Expected number of controls.
        cost: Expected cost.
        warnings: What a person should know.
    """

    judge: str
    episodes: int
    controls: int
    cost: Cost
    warnings: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedCount:
    """How many of some texts a judge accepts.

    Attributes:
        accepted: Accepted ones.
        total: All.
        bounds: Exact two-sided 90 % interval of their share (Clopper and Pearson).
    """

    accepted: int
    total: int
    bounds: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackedDataset:
    """What an attack has shown of a judge on one dataset.

    Attributes:
        kinds: False texts by kind.
        true_captions: True captions.
        passed: Kind, episode and text of each false text that was accepted.
    """

    kinds: Mapping[str, AcceptedCount]
    true_captions: AcceptedCount
    passed: Sequence[Mapping[str, str]]

    @property
    def is_broken(self) -> bool:
        """Whether half of a kind is accepted, or no true caption: then the refusal of false ones says nothing."""
        is_fooled = any(2 * counts.accepted >= counts.total for counts in self.kinds.values())
        return is_fooled or not self.true_captions.accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackRun:
    """What an attack has shown.

    Attributes:
        judge: Name of the judge.
        grader: Id of the producer whose grades these texts would have got.
        seed: Seed of the sample and of the texts.
        datasets: What it shows, by dataset.
        broken: Datasets on which the judge accepts half of a kind, or nothing.
        failed: Episodes whose caption could not be graded.
        cost: What was paid.
        warnings: What a person should know.
    """

    judge: str
    grader: str
    seed: int
    datasets: Mapping[str, AttackedDataset]
    broken: Sequence[str]
    failed: int
    cost: Cost
    warnings: Sequence[str]


def sample_true_captions(stores: Stores, request: AttackRequest) -> tuple[list[Subject], list[str]]:
    """True captions of a random sample of episodes, and what a person should know of them.

    Raises:
        RequestError: The column does not exist or is no text, the filter is wrong, or no episode has a caption.
    """
    column = request.truth or _INSTRUCTION
    columns = stores.tables.episodes.columns()
    if columns.get(column) != "string":
        raise RequestError(
            f"no text column {column!r}",
            f"{suggest_column(column, columns)}give a text column with true captions",
        )
    rows = sorted(_read_texts(stores, request), key=lambda row: row[0])
    Random(request.seed).shuffle(rows)
    # Texts are read as captions until enough have one: of a million that would take half a minute.
    captions = ((key, _true_caption(text, success, request)) for key, text, success in rows)
    drawn = list(islice(((key, caption) for key, caption in captions if caption), request.episodes))
    if not drawn:
        raise RequestError(
            "no episode has a true caption", f"column {column!r} is empty where {request.where or 'true'}"
        )
    subjects = [_make_subject(stores, key, text) for key, text in drawn]
    return subjects, [] if request.truth else [_warn_of_truth(subjects)]


def _read_texts(stores: Stores, request: AttackRequest) -> Iterator[tuple[str, str, bool | None]]:
    """Id, text and outcome of each episode that has a text."""
    column = request.truth or _INSTRUCTION
    for batch in stores.tables.episodes.scan(["episode_id", column, "success"], request.where):
        for row in batch.to_pylist():
            if text := (row[column] or "").strip():
                yield row["episode_id"], text, row["success"]


def _true_caption(text: str, success: bool | None, request: AttackRequest) -> str:
    """The text, or as a caption what an instruction says: that of a failure has failed."""
    if request.truth:
        return text
    phrase = normalize_caption(text).phrase
    return f"fail to {phrase}" if phrase and success is False else phrase


def _warn_of_truth(subjects: Sequence[Subject]) -> str:
    unknown = sum(subject.episode.success is None for subject in subjects)
    of_unknown = f", and the outcome of {count_of(unknown, 'episode')} is not recorded" if unknown else ""
    return (
        "the truth is the instruction and the outcome of each episode: a demonstration may deviate from it"
        f"{of_unknown}; give --truth COLUMN where people have checked captions"
    )


def _make_subject(stores: Stores, episode_id: str, text: str) -> Subject:
    """A caption of a whole episode that nobody has stored."""
    episode = stores.tables.episodes.get_episode(episode_id)
    annotation = Annotation(
        episode_id=episode_id,
        name="caption",
        value={"text": text, "caption": text},
        maker_id=_NO_PRODUCER,
        subject=episode_id,
        start_seconds=0.0,
        stop_seconds=episode.duration_seconds,
        created="1970-01-01T00:00:00+00:00",
    )
    return make_annotation_subject(episode, annotation)


def quote_attack(stores: Stores, options: Options, request: AttackRequest) -> AttackQuote:
    """What an attack would do and cost; no model is loaded and no server asked. Raises as `run_attack`."""
    options = replace(options.with_budget(request.budget_usd), load_models=False)
    subjects, warnings = sample_true_captions(stores, request)
    annotator = GradeAnnotator(options, stores)
    datasets = len({subject.episode.dataset for subject in subjects})
    controls = datasets * _SCALE * sum(BATTERY.values())
    # A control shares the observation of its caption, and takes a call about a value and one about the frames.
    own = annotator.estimate(subjects[0]).scaled(len(subjects))
    cost = own.scaled((own.calls + 2 * controls) / max(1, own.calls))
    return AttackQuote(
        judge=annotator.producer.model,
        episodes=len(subjects),
        controls=controls,
        cost=cost,
        warnings=warnings,
    )


def run_attack(
    stores: Stores, options: Options, request: AttackRequest, advance: Callable[[int, int], None]
) -> AttackRun:
    """Grade true captions and ten batteries. Replies are kept and money is booked as in a run; no grade is stored.

    Args:
        stores: Stores of the workspace.
        options: The judge, and values of the options of `grade`.
        request: What to do.
        advance: Called after each batch of texts with the number that is done and that of all.

    Raises:
        RequestError: No episode has a true caption, or an option is wrong.
        ModelError: The judge cannot be loaded or does not answer.
    """
    options = options.with_budget(request.budget_usd)
    subjects, warnings = sample_true_captions(stores, request)
    annotator = GradeAnnotator(options, stores)
    checked = annotator.preflight([])
    works = [read_work(stores, subject, [annotator.select_frames(subject)]) for subject in subjects]
    graded: list[CaptionResult] = []
    for chunk in batched(works, annotator.batch_size):
        graded += annotator.grade_captions([replace(work, is_last_reader=True) for work in chunk])
        advance(len(graded), len(works))
    errors = [error for item in graded if (error := find_outcome_error(item.result))]
    if len(errors) == len(graded):
        raise errors[0]
    cost, datasets = sum((item.paid for item in graded), checked.cost), dict[str, AttackedDataset]()
    for name in sorted({subject.episode.dataset for subject in subjects}):
        members = [item for item in graded if item.dataset == name]
        datasets[name], paid = _attack_dataset(annotator, members, request.seed)
        cost += paid
    return AttackRun(
        judge=annotator.producer.model,
        grader=annotator.producer.maker_id,
        seed=request.seed,
        datasets=datasets,
        broken=[name for name, shown in datasets.items() if shown.is_broken],
        failed=len(errors),
        cost=cost,
        warnings=[*warnings, *annotator.warnings, *checked.warnings],
    )


def _attack_dataset(
    annotator: GradeAnnotator, graded: Sequence[CaptionResult], seed: int
) -> tuple[AttackedDataset, Cost]:
    """Put ten batteries to a judge; what they show, and what they have cost."""
    seen = [item.seen for item in graded if item.seen]
    maker = ControlMaker(seen, annotator.verbs, Random(f"attack {seed}"))
    annotations, cost = annotator.try_controls(maker.draw_battery(_SCALE) if seen else [])
    rows = [
        {**row, "episode_id": item.episode_id}
        for item in annotations
        for row in cast("list[dict[str, str]]", item.value["gradings"])
        if row["grade"] != "error"
    ]
    grades = {kind: [row["grade"] for row in rows if row["kind"] == kind] for kind in CONTROL_KINDS}
    attacked = AttackedDataset(
        kinds={
            kind: _count_accepted(own.count("acceptable"), len(own)) for kind, own in grades.items() if own
        },
        true_captions=_count_accepted(sum(caption.is_accepted for caption in seen), len(seen)),
        passed=[
            {name: row[name] for name in ("kind", "text", "episode_id")}
            for row in rows
            if row["grade"] == "acceptable"
        ],
    )
    return attacked, cost


def _count_accepted(accepted: int, total: int) -> AcceptedCount:
    bounds = share_lower_bound(accepted, total), share_upper_bound(accepted, total)
    return AcceptedCount(accepted=accepted, total=total, bounds=(round(bounds[0], 4), round(bounds[1], 4)))
