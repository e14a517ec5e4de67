"""One annotator in a run: its open subjects and their signals, its batches, counts and busy time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ares.annotation import Annotation, Cost, Producer
from ares.clock import needs_timestamps
from ares.episode import Episode, Trajectory
from ares.errors import (
    AresError,
    ModelError,
    NotTried,
    PluginError,
    RequestError,
    ServerError,
    StoreError,
)
from ares.jobs import FAILURES, AnnotateReport, FailureLog, PipelineStage, Report
from ares.store import (
    ProducerCatalog,
    find_outdated_subjects,
    keep_newest_annotations,
    read_pins,
    segment_id,
    select_shown,
)
from ares_annotators.base import (
    MAX_REPEATED_FAILURES,
    Budget,
    CameraSeconds,
    Frames,
    Outcome,
    PaidFailure,
    Result,
    Subject,
    Work,
    find_outcome_cost,
    make_annotation_subject,
    make_budget_spent_error,
    make_episode_subject,
)
from ares_annotators.runner.fault_isolation import GuardedAnnotator

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores


@dataclass(slots=True)
class EpisodeBundle:
    """An episode on its way through the annotators of a run, with what was read and made for it.

    Attributes:
        episode: The episode.
        frames: Its decoded frames.
        annotations: Its annotations before the run that others of the run describe, in the order of the log.
        trajectory: Its signals, or None when no annotator needs them.
        stamps: (T,) stamps of its steps, where only they tell which frame belongs to a second; else None.
        results: Results so far, by annotator name; `AnnotationWriter` in writer.py stores them.
        done_subjects: Subjects of it that were done before the run, by annotator name.
        outdated_subjects: Those of which something was said that holds no more, by annotator name.
        selection_errors: Why frames could not be selected, by annotator name and id of the subject.
    """

    episode: Episode
    frames: Frames
    annotations: Sequence[Annotation] = ()
    trajectory: Trajectory | None = None
    stamps: NDArray[np.float64] | None = None
    results: dict[str, list[Result]] = field(default_factory=dict)
    done_subjects: dict[str, set[str]] = field(default_factory=dict)
    outdated_subjects: dict[str, set[str]] = field(default_factory=dict)
    selection_errors: dict[tuple[str, str], AresError] = field(default_factory=dict)


class SubjectFinder:
    """Finds the subjects of one annotator.

    Args:
        stores: Stores of the workspace.
        producer: Producer of the annotator.

    Raises:
        RequestError: The annotator describes something that no run can give it.
    """

    def __init__(self, stores: Stores, producer: Producer) -> None:
        if producer.subject_kind == "set" or (producer.subject_kind != "episode" and not producer.after):
            raise RequestError(
                f"{producer.annotator!r} cannot be run over episodes",
                f"it describes {producer.subject_kind}s after {list(producer.after)}; "
                "what describes segments or annotations needs `after`",
            )
        self._stores, self._producer = stores, producer

    @property
    def after(self) -> Sequence[str]:
        """Names of the annotators whose annotations it needs."""
        return self._producer.after if self._producer.subject_kind != "episode" else ()

    @cached_property
    def read_names(self) -> Sequence[str]:
        """Names of the annotators whose annotations say which subjects there are.

        Beside those that it describes they are the segmenters of those that describe segments: what was said of a
        segment that is shown no more is no subject.
        """
        before = {
            name
            for producer in self._stores.annotations.producers().values()
            if producer.annotator in self.after and producer.subject_kind == "segment"
            for name in producer.after
        }
        return sorted({*self.after, *before})

    def of_bundle(self, bundle: EpisodeBundle) -> list[Subject]:
        """The subjects in an episode, those that the run has made so far included."""
        if not self.after:
            return [make_episode_subject(bundle.episode)]
        new = [
            annotation
            for name in self.read_names
            for result in bundle.results.get(name, ())
            for annotation in result.annotations
        ]
        return self.in_episode(bundle.episode, [*bundle.annotations, *new])

    def in_episode(self, episode: Episode, annotations: Sequence[Annotation]) -> list[Subject]:
        """The subjects among the annotations of an episode, in the order of the log."""
        if not self.after:
            return [make_episode_subject(episode)]
        if self._producer.subject_kind == "segment":
            segments = {segment_id(annotation): annotation for annotation in self._shown(annotations)}
            return [
                replace(make_annotation_subject(episode, segment), kind="segment", id=key)
                for key, segment in segments.items()
            ]
        described = [
            annotation for annotation in keep_newest_annotations(annotations) if annotation.name in self.after
        ]
        siblings = _group_about_segments(described)
        if siblings:
            described = self._without_old_segments(described, annotations)
            siblings = _group_about_segments(described)
        return [
            make_annotation_subject(episode, annotation, siblings.get(_producer_of_segments(annotation), ()))
            for annotation in described
        ]

    def _without_old_segments(
        self, described: Sequence[Annotation], annotations: Sequence[Annotation]
    ) -> list[Annotation]:
        """Annotations without those about segments of an older segmenter."""
        shown = select_shown(annotations, self._catalog, [*self.read_names])
        segments = {
            segment_id(annotation)
            for name in self.read_names
            if name not in self.after
            for annotation in shown[name]
        }
        return [
            annotation
            for annotation in described
            if annotation.subject_kind != "segment" or annotation.subject in segments
        ]

    def _shown(self, annotations: Sequence[Annotation]) -> list[Annotation]:
        """The segments that are shown: those of an older segmenter are no subjects any more."""
        shown = select_shown(annotations, self._catalog, self.after)
        return [annotation for name in self.after for annotation in shown[name]]

    @cached_property
    def _catalog(self) -> ProducerCatalog:
        # Read again at the first episode: by then every annotator of the run has stored its producer.
        annotations = self._stores.annotations
        return ProducerCatalog(annotations.producers(), read_pins(annotations))


def _group_about_segments(annotations: Iterable[Annotation]) -> dict[str, tuple[Annotation, ...]]:
    """The annotations about segments of an episode, by producer."""
    groups: dict[str, tuple[Annotation, ...]] = {}
    for annotation in annotations:
        if key := _producer_of_segments(annotation):
            groups[key] = (*groups.get(key, ()), annotation)
    return groups


def _producer_of_segments(annotation: Annotation) -> str:
    return annotation.maker_id if annotation.subject_kind == "segment" else ""


def list_subject_ids(
    task: AnnotatorRun,
    ids: Sequence[str],
    episodes: Sequence[Episode],
    annotations: Mapping[str, Sequence[Annotation]],
) -> dict[str, list[str]]:
    """Ids of the subjects of an annotator by episode."""
    if not task.after:
        return {id: [id] for id in task.requested(ids)}
    return {
        episode.episode_id: [
            subject.id for subject in task.subjects_in(episode, annotations.get(episode.episode_id, ()))
        ]
        for episode in episodes
    }


def read_annotations(
    stores: Stores, episodes: Sequence[Episode], names: Sequence[str]
) -> dict[str, list[Annotation]]:
    """Annotations of some names by episode, in the order of the log; none without a name."""
    annotations: dict[str, list[Annotation]] = {}
    episode_ids = [episode.episode_id for episode in episodes]
    for annotation in stores.annotations.find_annotations(episode_ids, names) if names else ():
        annotations.setdefault(annotation.episode_id, []).append(annotation)
    return annotations


def read_signals(stores: Stores, episode_ids: Collection[str]) -> dict[str, Trajectory]:
    """The signals of episodes that have any, by episode id; they cannot be changed. Raises StoreError."""
    trajectories = dict(stores.tables.trajectories.read(episode_ids))
    for trajectory in trajectories.values():
        _make_read_only(trajectory)
    return trajectories


def read_stamps(stores: Stores, episodes: Sequence[Episode]) -> dict[str, NDArray[np.float64]]:
    """The stamps of the episodes whose frames can only be selected by them."""
    ids = [episode.episode_id for episode in episodes if needs_timestamps(episode)]
    read = stores.tables.trajectories.read(ids) if ids else ()
    return {id: trajectory.timestamps for id, trajectory in read}


def _make_read_only(trajectory: Trajectory) -> None:
    """The annotators of a run share the signals: one that writes into them fails, and the others are right."""
    signals = (trajectory.state, trajectory.action, *trajectory.extra.values())
    arrays = (trajectory.timestamps, trajectory.reward, *(signal.values for signal in signals if signal))
    for array in arrays:
        if array is not None:
            array.setflags(write=False)


class BusyTimeClock:
    """Wall-clock seconds during which at least one call runs; calls at the same time count once.

    Safe to use from threads.
    """

    def __init__(self) -> None:
        self._seconds = 0.0
        self._running = 0
        self._started_at = 0.0
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        """Seconds so far, of calls that have ended."""
        with self._lock:
            return self._seconds

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure one call."""
        self._start()
        try:
            yield
        finally:
            self._stop()

    def _start(self) -> None:
        with self._lock:
            if not self._running:
                self._started_at = time.monotonic()
            self._running += 1

    def _stop(self) -> None:
        with self._lock:
            self._running -= 1
            if not self._running:
                self._seconds += time.monotonic() - self._started_at


# Of a model, in a row and for one reason; whatever a server fails with (500, 502, no answer) is one reason.
_MAX_REPEATED_FAILURES = MAX_REPEATED_FAILURES
_OTHER_RUN_FAILED = "nothing was tried again: what failed had another model or other options"
_UNKNOWN_USAGE = "the usage of a call is not known: it may have cost more than is counted"


def make_failure_scope(producer: Producer) -> str:
    """What the failures of a producer belong to in the log of failures."""
    return f"{producer.annotator}/{producer.maker_id}"


class AnnotatorRun:
    """The part of a run that one annotator does.

    Args:
        stores: Stores of the workspace.
        annotator: The annotator.
        budget: Money of the whole run.
        clock: Measures its calls; it has measured the loading.
        plugin: Name under which the annotator is registered; its producer may have another.

    Attributes:
        is_last_reader: Whether no later annotator of the run reads frames; set by the run.
    """

    def __init__(
        self,
        stores: Stores,
        annotator: GuardedAnnotator,
        budget: Budget,
        clock: BusyTimeClock,
        plugin: str,
    ) -> None:
        self.annotator = annotator
        self.name, self.plugin = annotator.producer.annotator, plugin
        self.report = Report()
        self.failures: dict[str, AresError] = {}
        self._stores, self._annotations = stores, stores.annotations
        self._budget = budget
        self._clock = clock
        self._repeated_failure: tuple[str, int] = ("", 0)
        self._ended_by = self._end_reason = ""
        self.subject_finder = SubjectFinder(stores, annotator.producer)
        # The only subjects to work on, or None for all.
        self._retried: frozenset[str] | None = None
        self.is_last_reader = False

    def retry_failed(self, reason: str) -> None:
        """Work only on subjects in the log of failures whose reason contains a text, whatever its case."""
        failures = list(self._failure_log.read())
        self._retried = frozenset(subject for subject, logged in failures if reason.lower() in logged.lower())
        if not failures and next(self._annotations.find_documents(FAILURES, f"{self.name}/"), None):
            self.report.add_warning(_OTHER_RUN_FAILED, self.annotator.producer.model)

    def reset_subjects(self) -> None:
        """Find again which subjects are shown: the producers of the run have been stored."""
        self.subject_finder = SubjectFinder(self._stores, self.annotator.producer)

    @cached_property
    def _failure_log(self) -> FailureLog:
        return FailureLog(self._annotations, make_failure_scope(self.annotator.producer))

    def requested(self, subjects: Iterable[str]) -> list[str]:
        """Those of some subjects, by their ids, that this run is to work on."""
        return [subject for subject in subjects if self._retried is None or subject in self._retried]

    def load_done_subjects(self, bundles: Sequence[EpisodeBundle]) -> None:
        """Note in each bundle which of its subjects this producer had done before the run; one query for all."""
        subjects = {id(bundle): [subject.id for subject in self.subjects(bundle)] for bundle in bundles}
        all_subjects = [subject for bundle_subjects in subjects.values() for subject in bundle_subjects]
        maker_id = self.annotator.producer.maker_id
        done = self._annotations.find_done_subjects(maker_id, all_subjects)
        outdated = find_outdated_subjects(self._annotations, maker_id, all_subjects)
        for bundle in bundles:
            bundle.done_subjects[self.name] = done.intersection(subjects[id(bundle)])
            bundle.outdated_subjects[self.name] = outdated.intersection(subjects[id(bundle)])

    def has_missing_subjects(self, bundle: EpisodeBundle) -> bool:
        """Whether an episode has a subject that this annotator has not done."""
        return bool(self.missing_subjects(bundle))

    def subjects(self, bundle: EpisodeBundle) -> list[Subject]:
        """The subjects of an episode, those that this run has made so far included."""
        return self._only_requested(self.subject_finder.of_bundle(bundle))

    def missing_subjects(self, bundle: EpisodeBundle) -> list[Subject]:
        """Those of them that this annotator has not done."""
        done = bundle.done_subjects[self.name]
        return [subject for subject in self.subjects(bundle) if subject.id not in done]

    def add_existing(self, bundle: EpisodeBundle) -> None:
        """Count an episode for which no annotator has work."""
        subjects = len(self.subjects(bundle))
        self.report.add_planned(subjects, already=subjects)

    @property
    def after(self) -> Sequence[str]:
        """Names of the annotators whose annotations or segments it describes."""
        return self.subject_finder.after

    def subjects_in(self, episode: Episode, annotations: Sequence[Annotation]) -> list[Subject]:
        """The subjects of an episode with these annotations."""
        return self._only_requested(self.subject_finder.in_episode(episode, annotations))

    def _only_requested(self, subjects: Sequence[Subject]) -> list[Subject]:
        requested = set(self.requested(subject.id for subject in subjects))
        return [subject for subject in subjects if subject.id in requested]

    def select_frames(self, bundle: EpisodeBundle, subject: Subject) -> CameraSeconds:
        """The frames that a subject needs; none where the annotator fails to say, which then fails the subject."""
        try:
            return self.annotator.select_frames(subject)
        except StoreError:
            raise
        except AresError as error:
            bundle.selection_errors[self.name, subject.id] = error
            return {}

    def pipeline_stage(self) -> PipelineStage[EpisodeBundle]:
        """This annotator as a stage of the pipeline."""
        return PipelineStage(
            self.name,
            self.run,
            batch_size=self.annotator.batch_size,
            workers=self.annotator.workers,
            active_limit=self.annotator.call_limit,
        )

    def run(self, bundles: list[EpisodeBundle]) -> None:
        """Annotate the missing subjects in calls of `batch_size` works."""
        missing = [(bundle, work) for bundle in bundles for work in self._works(bundle)]
        pairs = []
        for bundle, work in missing:
            error = bundle.selection_errors.get((self.name, work.subject.id))
            if error is None:
                pairs.append((bundle, work))
            else:
                self._record_outcome(bundle, work, error)
        for start in range(0, len(pairs), self.annotator.batch_size):
            chunk = pairs[start : start + self.annotator.batch_size]
            for (bundle, work), result in zip(chunk, self._process([work for _, work in chunk]), strict=True):
                self._record_outcome(bundle, work, result)
        if self.is_last_reader:
            for bundle in bundles:
                bundle.frames.release()

    def add_failure(self, error: AresError, result: Result) -> None:
        """Count a result that could not be stored, though it was paid."""
        self.report.add_cost(result.cost)
        annotation = result.annotations[0]
        self._add_failure(error, annotation.subject, annotation.episode_id)

    def add_kept(self, result: Result) -> None:
        """Count a result that was stored, and why it leaves columns empty."""
        self.report.add_kept(result.cost)
        for annotation in result.annotations[:1]:
            self._warn_of_unknown_usage(result.cost, f"episode {annotation.episode_id}")
            for warning in result.warnings:
                self.report.add_warning(warning, f"episode {annotation.episode_id}")
        for reason in result.lost:
            self.report.add_lost(reason, self.name)
        for annotation in result.annotations:
            for reason in _gap_reasons(self.annotator.producer, annotation):
                self.report.add_warning(f"left empty: {reason}", f"episode {annotation.episode_id}")

    def _warn_of_unknown_usage(self, cost: Cost, where: str) -> None:
        if cost.unknown_calls:
            self.report.add_warning(_UNKNOWN_USAGE, where, cost.unknown_calls)

    def to_report(self) -> AnnotateReport:
        """What this annotator did."""
        self.report.seconds = self._clock.seconds
        ended_by, end_reason = self._ended_by, self._end_reason
        if self.report.open and not ended_by:
            ended_by, end_reason = "budget", "the budget is spent; a larger --budget goes on"
        return AnnotateReport(
            open=self.report.open,
            ended_by=ended_by,
            end_reason=end_reason,
            annotator=self.name,
            producer=self.annotator.producer.maker_id,
            model=self.annotator.producer.model,
            **self.report.fields(),
            lost=self.report.lost_counts(),
            cost=self.report.cost,
        )

    def _works(self, bundle: EpisodeBundle) -> list[Work]:
        missing, count = self.missing_subjects(bundle), len(self.subjects(bundle))
        self.report.add_planned(count, already=count - len(missing))
        return [
            Work(
                subject=_private_copy(subject),
                frames=bundle.frames,
                trajectory=bundle.trajectory,
                # Another subject of the episode reads the frames after this one.
                is_last_reader=self.is_last_reader and len(missing) == 1,
            )
            for subject in missing
        ]

    def preflight(self, producers: Sequence[Producer], report: Callable[[str], None]) -> None:
        """Check before the first call that the run can go well. Raises the AresError that says why it cannot."""
        with self._clock.measured():
            learnt = self.annotator.preflight(producers)
        self.report.add_cost(learnt.cost)
        self._warn_of_unknown_usage(learnt.cost, "test call")
        for warning in dict.fromkeys([*self.annotator.warnings, *learnt.warnings]):
            self.report.add_warning(warning, self.annotator.producer.model)
            report(f"annotate {self.name}: {warning}")
        for loss in learnt.lost:
            self.report.add_lost(loss.reason, loss.example, loss.count)
            report(f"annotate {self.name}: {loss.count} lost: {loss.reason}: {loss.example}")

    @property
    def is_working(self) -> bool:
        """Whether it may still call its model: the server is not down, and the budget not spent."""
        return not (self._ended_by or self._budget.is_spent or self._budget.is_stopped)

    def finish(self) -> None:
        """All work is done: let the annotator do what it does once, if its model may still be called."""
        if self.is_working:
            with self._clock.measured():
                self.report.add_cost(self.annotator.finish())

    def stop(self) -> None:
        """The run is ending: make no call any more, and count no work that was not done as failed."""
        self._budget.stop()

    def _process(self, works: Sequence[Work]) -> Sequence[Outcome]:
        if self._ended_by:
            return [NotTried("not tried after many failures in a row", self._end_reason)] * len(works)
        if self._budget.is_spent:
            return [make_budget_spent_error()] * len(works)
        if self.annotator.charges_budget:
            return self._call(works)
        try:
            expected = sum((self.annotator.estimate(work.subject) for work in works), Cost())
        except PluginError as error:
            return [error] * len(works) if len(works) == 1 else [self._process([work])[0] for work in works]
        if not self._budget.reserve(expected.usd or 0.0):
            return [make_budget_spent_error()] * len(works)
        results = self._call(works)
        self._budget.settle(expected.usd or 0.0, sum(map(find_outcome_cost, results), Cost()).usd)
        return results

    def _call(self, works: Sequence[Work]) -> Sequence[Outcome]:
        """Annotate works here or on workers, as `GuardedAnnotator` says."""
        with self._clock.measured():
            return self.annotator.process(works)

    def _record_outcome(self, bundle: EpisodeBundle, work: Work, result: Outcome) -> None:
        if isinstance(result, Result):
            self._repeated_failure = ("", 0)
            if bundle.outdated_subjects[self.name].intersection(item.subject for item in result.annotations):
                now = time.time_ns()
                revised = [replace(annotation, revision=now) for annotation in result.annotations]
                result = replace(result, annotations=tuple(revised))
            bundle.results.setdefault(self.name, []).append(result)
            return
        if isinstance(result, PaidFailure):
            self.report.add_cost(result.cost)
            self._warn_of_unknown_usage(result.cost, f"episode {work.episode.episode_id}")
            result = result.error
        if isinstance(result, NotTried):
            self.report.add_open()
            return
        if self._budget.is_stopped:
            return
        self._give_up_after_many(result)
        self._add_failure(result, work.subject.id, work.episode.episode_id)

    def _give_up_after_many(self, error: AresError) -> None:
        """Try no further work once a model has failed so often in a row for one reason."""
        kind = "server" if isinstance(error, ServerError) else "failures"
        reason, count = self._repeated_failure
        current = kind if kind == "server" else error.reason
        self._repeated_failure = (current, count + 1 if reason == current else 1)
        is_too_often = self._repeated_failure[1] >= _MAX_REPEATED_FAILURES
        if isinstance(error, ModelError) and is_too_often and not self._ended_by:
            self._ended_by = kind
            self._end_reason = f"given up after {_MAX_REPEATED_FAILURES} failures in a row, the last: {error}"

    def _add_failure(self, error: AresError, subject: str, episode_id: str) -> None:
        is_accepted = self._failure_log.is_accepted(subject, error)
        self.report.add_failure(error, f"episode {episode_id}", is_accepted)
        self.failures[subject] = error


def _private_copy(subject: Subject) -> Subject:
    """The subject with a copy of its annotation, which may not be stored yet: no annotator can change another's."""
    return replace(subject, annotation=deepcopy(subject.annotation)) if subject.annotation else subject


def _gap_reasons(producer: Producer, annotation: Annotation) -> list[str]:
    """Why an annotation leaves columns of its producer empty."""
    columns = [column.name for column in producer.columns if column.is_gap_reason]
    lists = [annotation.value.get(name) for name in columns]
    return [str(reason) for reasons in lists if isinstance(reasons, list) for reason in reasons]
