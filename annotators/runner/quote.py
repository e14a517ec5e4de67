"""What an annotation run would do and cost, estimated without running it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from annotators.base import Options, Subject
from annotators.runner.loading import load_tasks
from annotators.runner.run import read_annotations
from annotators.runner.task import AnnotatorTask
from ares.annotation import Annotation, Cost
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
        planned: Subjects in the episodes that match the filter, as they are now.
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
    described = sorted({name for task in tasks for name in task.after})
    counts = _count_subjects(stores, tasks, where, described)
    sample = list(islice(stores.tables.episodes.read(where), _SAMPLE_SIZE))
    annotations = read_annotations(stores, sample, described)
    subjects = [
        [
            subject
            for episode in sample
            for subject in task.subjects_in(episode, annotations.get(episode.episode_id, ()))
        ]
        for task in tasks
    ]
    return [
        _quote(task, *task_counts, task_subjects)
        for task, task_counts, task_subjects in zip(tasks, counts, subjects, strict=True)
    ]


def _count_subjects(
    stores: Stores, tasks: Sequence[AnnotatorTask], where: str, described: Sequence[str]
) -> list[tuple[int, int]]:
    """Subjects of the episodes that match a filter, and those of them that are done, for each annotator."""
    counts = [(0, 0)] * len(tasks)
    for ids in stores.tables.episodes.id_batches(where):
        # Only what is described by others has to be read: an episode is its own subject.
        episodes = stores.tables.episodes.get(sorted(ids)) if described else []
        annotations = read_annotations(stores, episodes, described)
        for index, task in enumerate(tasks):
            subjects = _subject_ids(task, episodes, annotations) if task.after else list(ids)
            done = stores.annotations.find_done_subjects(task.annotator.maker.maker_id, subjects)
            planned, already = counts[index]
            counts[index] = planned + len(subjects), already + len(done)
    return counts


def _subject_ids(
    task: AnnotatorTask, episodes: Sequence[Episode], annotations: Mapping[str, Sequence[Annotation]]
) -> list[str]:
    return [
        subject.id
        for episode in episodes
        for subject in task.subjects_in(episode, annotations.get(episode.episode_id, ()))
    ]


def _quote(task: AnnotatorTask, planned: int, already: int, sample: Sequence[Subject]) -> Quote:
    annotator = task.annotator
    scale = (planned - already) / max(len(sample), 1)
    frames = sum(len(seconds) for subject in sample for seconds in annotator.select_frames(subject).values())
    cost = sum((annotator.estimate(subject) for subject in sample), Cost())
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
