"""One annotator in a run: which subjects it has not annotated yet, its calls in batches, its counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from annotators.base import Annotator, Result, Subject, Work
from annotators.runner.budget import Budget
from annotators.runner.subjects import EpisodeBundle, SubjectFinder
from ares.annotation import Annotation, Cost
from ares.episode import Episode, Json
from ares.errors import AresError, ModelError
from ares.jobs import PipelineStage, Report

if TYPE_CHECKING:
    from ares.store import Stores

# After so many failures in a row for one reason the rest is not tried: the server is down, not the episode bad.
_MAX_REPEATED_FAILURES = 50


class AnnotatorTask:
    """The part of a run that one annotator does.

    Args:
        stores: Stores of the workspace.
        annotator: The annotator.
        budget: Money of the whole run.
        strict: Raise the first failure instead of counting it.
    """

    def __init__(self, stores: Stores, annotator: Annotator, budget: Budget, strict: bool) -> None:
        self.annotator = annotator
        self.name = annotator.maker.annotator
        self.report = Report()
        self.failures: dict[str, AresError] = {}
        self._annotations = stores.annotations
        self._budget = budget
        self._strict = strict
        self._repeated_failure: tuple[str, int] = ("", 0)
        self._stop_reason = ""
        self._subjects = SubjectFinder(stores, annotator.maker)

    def load_done_subjects(self, bundles: Sequence[EpisodeBundle]) -> None:
        """Note in each bundle which of its subjects this maker had done before the run; one query for all bundles."""
        subjects = {id(bundle): [subject.id for subject in self.subjects(bundle)] for bundle in bundles}
        all_subjects = [subject for bundle_subjects in subjects.values() for subject in bundle_subjects]
        done = self._annotations.find_done_subjects(self.annotator.maker.maker_id, all_subjects)
        for bundle in bundles:
            bundle.done_subjects[self.name] = done.intersection(subjects[id(bundle)])

    def has_missing_subjects(self, bundle: EpisodeBundle) -> bool:
        """Whether an episode has a subject that this annotator has not done."""
        return bool(self.missing_subjects(bundle))

    def subjects(self, bundle: EpisodeBundle) -> list[Subject]:
        """The subjects of an episode, those that this run has made so far included."""
        return self._subjects.of_bundle(bundle)

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
        return self._subjects.after

    def subjects_in(self, episode: Episode, annotations: Sequence[Annotation]) -> list[Subject]:
        """The subjects of an episode with these annotations."""
        return self._subjects.in_episode(episode, annotations)

    def pipeline_stage(self) -> PipelineStage[EpisodeBundle]:
        """This annotator as a stage of the pipeline."""
        return PipelineStage(
            self.name, self.run, batch_size=self.annotator.batch_size, workers=self.annotator.workers
        )

    def run(self, bundles: list[EpisodeBundle]) -> None:
        """Annotate the missing subjects in calls of `batch_size` works. Raises the first failure when strict."""
        pairs = [(bundle, work) for bundle in bundles for work in self._works(bundle)]
        for start in range(0, len(pairs), self.annotator.batch_size):
            chunk = pairs[start : start + self.annotator.batch_size]
            for (bundle, work), result in zip(chunk, self._process([work for _, work in chunk]), strict=True):
                self._record_outcome(bundle, work, result)

    def add_failure(self, error: AresError, annotation: Annotation) -> None:
        """Count an annotation that could not be stored. Raises the error when strict."""
        self._add_failure(error, annotation.subject, annotation.episode_id)

    def to_json(self, seconds: float) -> dict[str, Json]:
        """The document of `ares annotate --json` for this annotator."""
        counts = {**self.report.to_json(), "seconds": round(seconds, 3)}
        cost = self.report.cost
        return {
            "annotator": self.name,
            "maker": self.annotator.maker.maker_id,
            "model": self.annotator.maker.model,
            **counts,
            "calls": cost.calls,
            "tokens_in": cost.tokens_in,
            "tokens_out": cost.tokens_out,
            "usd": cost.usd,
        }

    def _works(self, bundle: EpisodeBundle) -> list[Work]:
        missing, count = self.missing_subjects(bundle), len(self.subjects(bundle))
        self.report.add_planned(count, already=count - len(missing))
        return [
            Work(subject=subject, frames=bundle.frames, trajectory=bundle.trajectory) for subject in missing
        ]

    def _process(self, works: Sequence[Work]) -> Sequence[Result | AresError]:
        if self._stop_reason:
            return [ModelError("not tried after many failures in a row", self._stop_reason)] * len(works)
        expected = sum((self.annotator.estimate(work.subject) for work in works), Cost())
        if not self._budget.reserve(expected):
            return [ModelError("the budget is spent", "give a larger --budget to go on")] * len(works)
        results = self.annotator.process(works)
        self._budget.settle(expected, sum((_cost(result) for result in results), Cost()))
        return results

    def _record_outcome(self, bundle: EpisodeBundle, work: Work, result: Result | AresError) -> None:
        if isinstance(result, Result):
            self._repeated_failure = ("", 0)
            bundle.results.setdefault(self.name, []).append(result)
            return
        reason, count = self._repeated_failure
        self._repeated_failure = (result.reason, count + 1 if reason == result.reason else 1)
        if self._repeated_failure[1] >= _MAX_REPEATED_FAILURES:
            self._stop_reason = self._stop_reason or f"{_MAX_REPEATED_FAILURES} times: {result}"
        self._add_failure(result, work.subject.id, work.episode.episode_id)

    def _add_failure(self, error: AresError, subject: str, episode_id: str) -> None:
        self.report.add_failure(error, f"episode {episode_id}")
        self.failures[subject] = error
        if self._strict:
            raise error


def _cost(result: Result | AresError) -> Cost:
    if isinstance(result, AresError):
        return Cost()
    return sum((annotation.cost for annotation in result.annotations), Cost())
