"""What an annotation run would do and cost, estimated without running it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from annotators.base import Options
from annotators.runner.loading import load_tasks
from annotators.runner.task import AnnotatorTask
from ares.annotation import Cost
from ares.episode import Episode, Json
from ares.jobs import LocalEngine

if TYPE_CHECKING:
    from ares.store import Stores

_SAMPLE_SIZE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """What a run would do and cost; frames and cost are those of a sample, scaled up.

    Attributes:
        annotator: Plug-in name.
        planned: Episodes that match the filter; for `grade` the captions that they have now.
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


def estimate_cost(stores: Stores, names: Sequence[str], options: Options, where: str = "") -> list[Quote]:
    """What `annotators.runner.run.annotate` would do with these arguments. Raises as it does."""
    stores.sync()
    tasks = load_tasks(stores, names, options, None, False, LocalEngine())
    counts = _count_subjects(stores, tasks, where)
    sample = list(islice(stores.tables.episodes.read(where), _SAMPLE_SIZE))
    return [_quote(task, *task_counts, sample) for task, task_counts in zip(tasks, counts, strict=True)]


def _count_subjects(stores: Stores, tasks: Sequence[AnnotatorTask], where: str) -> list[tuple[int, int]]:
    """Subjects of the episodes that match a filter, and those of them that are done, for each annotator."""
    counts = [(0, 0)] * len(tasks)
    needs_captions = any(task.annotator.subject_kind == "caption" for task in tasks)
    for ids in stores.tables.episodes.id_batches(where):
        caption_ids = stores.annotations.find_annotation_ids(ids, "caption") if needs_captions else []
        subjects_by_kind = {"episode": ids, "caption": caption_ids}
        for index, task in enumerate(tasks):
            subjects = subjects_by_kind[task.annotator.subject_kind]
            done = stores.annotations.find_done_subjects(task.annotator.maker.maker_id, subjects)
            planned, already = counts[index]
            counts[index] = planned + len(subjects), already + len(done)
    return counts


def _quote(task: AnnotatorTask, planned: int, already: int, sample: Sequence[Episode]) -> Quote:
    annotator = task.annotator
    scale = (planned - already) / max(len(sample), 1)
    frames = sum(len(seconds) for episode in sample for seconds in annotator.select_frames(episode).values())
    cost = sum((annotator.estimate(episode) for episode in sample), Cost())
    return Quote(
        annotator=task.name,
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
