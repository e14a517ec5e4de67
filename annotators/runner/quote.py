"""What an annotation run would do and cost, estimated without running it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from annotators.base import Budget, Subject
from annotators.models import UNKNOWN_UNTIL_LOADED, price_usd
from annotators.runner.annotator_run import AnnotatorRun
from annotators.runner.run import (
    count_planned_episodes,
    list_subject_ids,
    load_run_annotators,
    make_factory_options,
    read_annotations,
)
from ares.annotation import Cost
from ares.episode import Episode
from ares.errors import PluginError
from ares.jobs import AnnotateEstimate, AnnotateRequest, EpisodeSelection, LocalEngine

if TYPE_CHECKING:
    from ares.settings import Price
    from ares.store import Stores


_SAMPLE_SIZE = 200
# Fewer are not representative.
_FEWEST_MEASURED = 5


def estimate(stores: Stores, request: AnnotateRequest) -> list[AnnotateEstimate]:
    """What `annotators.runner.run.annotate` would do with this request. Raises as a strict run does.

    No model is loaded and no server is asked. What an annotator has done is not known where the fingerprint of its
    model is not: then the estimate is for all subjects.
    """
    stores.sync()
    options = make_factory_options(
        stores, request, count_planned_episodes(stores, request), load_models=False
    )
    tasks = load_run_annotators(stores, request, options, Budget(None), LocalEngine()).tasks
    described = sorted({name for task in tasks for name in task.subject_finder.read_names})
    counts = _count_subjects(stores, tasks, request.selection, described)
    sample = list(islice(stores.tables.episodes.read(request.selection.condition), _SAMPLE_SIZE))
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
        _estimate_task(stores, task, task_counts, task_subjects, sample, options.settings.price)
        for task, task_counts, task_subjects in zip(tasks, counts, subjects, strict=True)
    ]


class _SubjectCounts(NamedTuple):
    """Subjects of an annotator.

    Attributes:
        planned: All of them.
        already: Those that its maker has done.
        again: Those of the rest that another maker, but no person, has done.
    """

    planned: int = 0
    already: int = 0
    again: int = 0


def _count_subjects(
    stores: Stores, tasks: Sequence[AnnotatorRun], selection: EpisodeSelection, described: Sequence[str]
) -> list[_SubjectCounts]:
    """Subjects of the episodes that a run goes through, for each annotator.

    As in a run complete episodes do not count for the limit.
    """
    counts = [_SubjectCounts()] * len(tasks)
    incomplete = 0
    for own_counts in _counts_by_episode(stores, tasks, selection.condition, described):
        if incomplete == selection.limit:
            break
        incomplete += any(own.already < own.planned for own in own_counts)
        counts = [
            _SubjectCounts(*map(sum, zip(total, own, strict=True)))
            for total, own in zip(counts, own_counts, strict=True)
        ]
    return counts


def _counts_by_episode(
    stores: Stores, tasks: Sequence[AnnotatorRun], where: str, described: Sequence[str]
) -> Iterator[list[_SubjectCounts]]:
    """For each episode the numbers of its subjects by annotator, in the order of a run."""
    others = _find_other_makers(stores, tasks)
    for ids in stores.tables.episodes.id_batches(where):
        # Only what is described by others has to be read: an episode is its own subject.
        episodes = stores.tables.episodes.get(ids) if described else []
        annotations = read_annotations(stores, episodes, described)
        by_annotator = [list_subject_ids(task, ids, episodes, annotations) for task in tasks]
        all_subjects = [
            [subject for own in subjects.values() for subject in own] for subjects in by_annotator
        ]
        done = [
            stores.annotations.find_done_subjects(task.annotator.maker.maker_id, subjects)
            for task, subjects in zip(tasks, all_subjects, strict=True)
        ]
        again = [
            set().union(*(stores.annotations.find_done_subjects(maker_id, subjects) for maker_id in makers))
            - known
            for makers, subjects, known in zip(others, all_subjects, done, strict=True)
        ]
        for id in ids:
            own = [subjects.get(id, ()) for subjects in by_annotator]
            yield [
                _SubjectCounts(
                    len(subjects), len(known.intersection(subjects)), len(old.intersection(subjects))
                )
                for subjects, known, old in zip(own, done, again, strict=True)
            ]


def _find_other_makers(stores: Stores, tasks: Sequence[AnnotatorRun]) -> list[list[str]]:
    """For each annotator its other makers, people left out: what they say is not said again by a run."""
    makers = stores.annotations.makers()
    return [
        [
            maker_id
            for maker_id, maker in makers.items()
            if maker.annotator == task.name
            and maker.kind != "person"
            and maker_id != task.annotator.maker.maker_id
        ]
        for task in tasks
    ]


def _is_unknown(task: AnnotatorRun, stores: Stores) -> bool:
    """Whether a model that was not loaded may have done some of the subjects: another one certainly has not."""
    if UNKNOWN_UNTIL_LOADED not in task.annotator.maker.model:
        return False
    return any(maker.annotator == task.name for maker in stores.annotations.makers().values())


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
    cost = _expected_cost(task, subjects, measured, rest)
    if cost.usd is None:
        cost = replace(cost, usd=price_usd(price, cost.tokens_in, cost.tokens_out))
    return AnnotateEstimate(
        annotator=task.name,
        planned=counts.planned,
        already=already,
        frames=round(frames),
        cost=cost,
        measured=len(measured),
        again=0 if already is None else counts.again,
    )


def _expected_cost(
    task: AnnotatorRun, sample: Sequence[Subject], measured: Sequence[Cost], rest: int
) -> Cost:
    """The cost of `rest` subjects like those of a sample; an annotator that measures its calls itself knows best."""
    if task.annotator.estimate_run:
        done = task.find_done(sample)
        open_subjects = [subject for subject in sample if subject.id not in done]
        return task.annotator.estimate_run(open_subjects or sample, rest)
    cost = sum(measured or (task.annotator.estimate(subject) for subject in sample), Cost())
    return cost.scaled(rest / max(len(measured or sample), 1))


def _measured_costs(stores: Stores, task: AnnotatorRun, sample: Sequence[Episode]) -> list[Cost]:
    """What this maker's calls for subjects of the sample have cost; none where it has done too few of them.

    What it has made beside (controls, for some subjects) is a cost of its own, spread over all.
    """
    if task.annotator.estimate_run:
        return []
    ids, maker = [episode.episode_id for episode in sample], task.annotator.maker
    names = [maker.annotator, *task.annotator.side_names]
    makers = {maker.maker_id, *(side.maker_id for side in task.annotator.side_makers)}
    costs: dict[str, list[Cost]] = {name: [] for name in names}
    for annotation in stores.annotations.find_annotations(ids, names):
        if annotation.maker_id in makers and annotation.cost.calls:
            costs[annotation.name].append(annotation.cost)
    own = costs.pop(maker.annotator)
    if len(own) < _FEWEST_MEASURED:
        return []
    return [sum((cost for side in costs.values() for cost in side), own[0]), *own[1:]]


def _count_frames(task: AnnotatorRun, subject: Subject) -> int:
    """Frames that a subject needs; none where the annotator fails to say, as the subject would fail in a run."""
    try:
        return sum(len(seconds) for seconds in task.annotator.select_frames(subject).values())
    except PluginError:
        return 0
