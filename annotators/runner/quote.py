"""What an annotation run would do and cost, estimated without running it, and again once some of it was paid."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ares.annotation import Cost
from ares.console import count_of
from ares.episode import Episode
from ares.errors import PluginError
from ares.jobs import AnnotateEstimate, EpisodeSelection
from ares_annotators.base import Subject
from ares_annotators.models import UNKNOWN_UNTIL_LOADED, price_usd
from ares_annotators.runner.annotator_run import AnnotatorRun, list_subject_ids, read_annotations

if TYPE_CHECKING:
    from ares.settings import Price
    from ares.store import Stores


_SAMPLE_SIZE = 200
# Fewer are not representative.
_FEWEST_MEASURED = 5
# A run says what is left once so many of its episodes are done.
_FIRST_EPISODES = 16


def estimate_tasks(
    stores: Stores, tasks: Sequence[AnnotatorRun], selection: EpisodeSelection, price: Price | None
) -> list[AnnotateEstimate]:
    """What annotators would do with a selection of episodes, and what it would cost.

    What an annotator has done is not known where the fingerprint of its model is not: then the estimate is for all
    subjects.
    """
    described = sorted({name for task in tasks for name in task.subject_finder.read_names})
    counts = _count_subjects(stores, tasks, selection, described)
    sample = list(islice(stores.tables.episodes.read(selection.condition), _SAMPLE_SIZE))
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
        _estimate_task(stores, task, task_counts, task_subjects, sample, price)
        for task, task_counts, task_subjects in zip(tasks, counts, subjects, strict=True)
    ]


class _SubjectCounts(NamedTuple):
    """Subjects of an annotator.

    Attributes:
        planned: All of them.
        already: Those that its producer has done.
    """

    planned: int = 0
    already: int = 0


def _count_subjects(
    stores: Stores, tasks: Sequence[AnnotatorRun], selection: EpisodeSelection, described: Sequence[str]
) -> list[_SubjectCounts]:
    """Subjects of the episodes that a run goes through, for each annotator.

    As in a run complete episodes do not count for the limit.
    """
    counts = [_SubjectCounts()] * len(tasks)
    incomplete = 0
    for episode_counts in _counts_by_episode(stores, tasks, selection.condition, described):
        if incomplete == selection.limit:
            break
        incomplete += any(counted.already < counted.planned for counted in episode_counts)
        counts = [
            _SubjectCounts(*map(sum, zip(total, counted, strict=True)))
            for total, counted in zip(counts, episode_counts, strict=True)
        ]
    return counts


def _counts_by_episode(
    stores: Stores, tasks: Sequence[AnnotatorRun], where: str, described: Sequence[str]
) -> Iterator[list[_SubjectCounts]]:
    """For each episode the numbers of its subjects by annotator, in the order of a run."""
    for ids in stores.tables.episodes.id_batches(where):
        # Only what is described by others has to be read: an episode is the subject itself.
        episodes = stores.tables.episodes.get(ids) if described else []
        annotations = read_annotations(stores, episodes, described)
        by_annotator = [list_subject_ids(task, ids, episodes, annotations) for task in tasks]
        all_subjects = [
            [subject for members in subjects.values() for subject in members] for subjects in by_annotator
        ]
        done = [
            stores.annotations.find_done_subjects(task.annotator.producer.maker_id, subjects)
            for task, subjects in zip(tasks, all_subjects, strict=True)
        ]
        for id in ids:
            episode_subjects = [subjects.get(id, ()) for subjects in by_annotator]
            yield [
                _SubjectCounts(len(subjects), len(known.intersection(subjects)))
                for subjects, known in zip(episode_subjects, done, strict=True)
            ]


def _is_unknown(task: AnnotatorRun, stores: Stores) -> bool:
    """Whether a model that was not loaded may have done some of the subjects: another one certainly has not."""
    if UNKNOWN_UNTIL_LOADED not in task.annotator.producer.model:
        return False
    return any(producer.annotator == task.name for producer in stores.annotations.producers().values())


def _estimate_task(
    stores: Stores,
    task: AnnotatorRun,
    counts: _SubjectCounts,
    subjects: Sequence[Subject],
    sample: Sequence[Episode],
    price: Price | None,
) -> AnnotateEstimate:
    """The estimate of one annotator by the subjects of a sample of episodes."""
    measured = _measured_costs(stores, task, sample)
    already = None if _is_unknown(task, stores) else counts.already
    rest = counts.planned - (already or 0)
    frames = sum(_count_frames(task, subject) for subject in subjects) * rest / max(len(subjects), 1)
    known = measured or [task.annotator.estimate(subject) for subject in subjects]
    cost = sum(known, Cost()).scaled(rest / max(len(known), 1))
    if cost.usd is None:
        cost = replace(cost, usd=price_usd(price, cost.tokens_in, cost.tokens_out))
    return AnnotateEstimate(
        annotator=task.name,
        planned=counts.planned,
        already=already,
        frames=round(frames),
        cost=cost,
        measured=len(measured),
    )


def _measured_costs(stores: Stores, task: AnnotatorRun, sample: Sequence[Episode]) -> list[Cost]:
    """What this producer's calls for subjects of the sample have cost; none where it has done too few of them.

    What it has made beside (observations, for some subjects) is a separate cost, spread over all.
    """
    ids, producer = [episode.episode_id for episode in sample], task.annotator.producer
    names = [producer.annotator, *task.annotator.side_names]
    producers = {producer.maker_id, *(side.maker_id for side in task.annotator.side_producers)}
    costs: dict[str, list[Cost]] = {name: [] for name in names}
    for annotation in stores.annotations.find_annotations(ids, names):
        if annotation.maker_id in producers and annotation.cost.calls:
            costs[annotation.name].append(annotation.cost)
    annotator_costs = costs.pop(producer.annotator)
    if len(annotator_costs) < _FEWEST_MEASURED:
        return []
    return [sum((cost for side in costs.values() for cost in side), annotator_costs[0]), *annotator_costs[1:]]


def _count_frames(task: AnnotatorRun, subject: Subject) -> int:
    """Frames that a subject needs; none where the annotator fails to say, as the subject would fail in a run."""
    try:
        return sum(len(seconds) for seconds in task.annotator.select_frames(subject).values())
    except PluginError:
        return 0


class RenewedQuote:
    """Says in a run what is left of it, by what its first episodes have cost.

    Args:
        stores: Stores of the workspace.
        tasks: The annotators; of those that make no calls nothing is said.
        selection: The episodes of the run.
        total: Most episodes that it goes through.
        report: Gets each line.
    """

    def __init__(
        self,
        stores: Stores,
        tasks: Sequence[AnnotatorRun],
        selection: EpisodeSelection,
        total: int,
        report: Callable[[str], None],
    ) -> None:
        self._stores, self._tasks, self._selection = stores, tasks, selection
        self._total, self._report, self._done = total, report, 0

    def advance(self, episodes: int) -> bool:
        """Count episodes that were worked on; whether there is something to say, once they are stored."""
        before, self._done = self._done, self._done + episodes
        return before < _FIRST_EPISODES <= self._done <= self._total / 2

    def say(self) -> None:
        """Report what each annotator has paid, and between what and what is left for it."""
        for task in self._tasks:
            paid = task.report.cost
            if not paid.calls:
                continue
            limit = self._selection.limit
            rest = replace(self._selection, limit=None if limit is None else max(0, limit - self._done))
            try:
                (estimate,) = estimate_tasks(self._stores, [task], rest, self._stores.settings.price)
            except PluginError:  # a quote is no reason to end a run
                continue
            left = estimate.cost
            # Two standard deviations of as many calls.
            spread = min(0.9, 2 / math.sqrt(paid.calls))
            low, high = (_describe_cost(left.scaled(1 + sign * spread)) for sign in (-1, 1))
            self._report(
                f"annotate {task.name}: after {count_of(self._done, 'episode')}, {_describe_cost(paid)} are paid; "
                f"between {low} and {high} are left"
            )


def _describe_cost(cost: Cost) -> str:
    usd = "" if cost.usd is None else f" ({cost.usd:.2f} USD)"
    tokens = count_of(cost.tokens_in + cost.tokens_out, "token", comma=True)
    return f"{count_of(cost.calls, 'call', comma=True)} and {tokens}{usd}"
