"""Running: one annotator in a run; which subjects it still lacks, its calls in batches, its counts."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from annotators.base import Annotator, Bundle, Result, Work
from ares.annotation import Annotation, Cost
from ares.episode import Json
from ares.errors import AresError, ModelError
from ares.jobs.flow import Stage
from ares.jobs.report import Report

if TYPE_CHECKING:
    from ares.workspace import Workspace

# After so many failures in a row for one reason the rest is not tried: the server is down, not the episode bad.
_GIVE_UP_AFTER = 50


class Budget:
    """Money that a run may spend, shared by its annotators.

    Args:
        usd: Hard limit, or None for none.
    """

    def __init__(self, usd: float | None) -> None:
        self._left = usd
        self._lock = threading.Lock()

    def take(self, expected: Cost) -> bool:
        """Set the expected cost aside; False, and nothing taken, when it is not there."""
        with self._lock:
            if self._left is None:
                return True
            if (expected.usd or 0.0) > self._left:
                return False
            self._left -= expected.usd or 0.0
            return True

    def settle(self, expected: Cost, spent: Cost) -> None:
        """Replace an expected cost by the real one."""
        with self._lock:
            if self._left is not None:
                self._left += (expected.usd or 0.0) - (spent.usd or 0.0)


class Running:
    """An annotator at work.

    Args:
        ws: The workspace.
        annotator: What it runs.
        budget: The run's money.
        strict: Raise the first failure instead of counting it.
    """

    def __init__(self, ws: Workspace, annotator: Annotator, budget: Budget, strict: bool) -> None:
        self.annotator = annotator
        self.name = annotator.maker.annotator
        self.report = Report()
        self.failed: dict[str, AresError] = {}
        self._annotations = ws.annotations
        self._budget = budget
        self._strict = strict
        self._in_a_row: tuple[str, int] = ("", 0)
        self._given_up = ""
        ws.annotations.add_maker(annotator.maker)

    def look(self, bundles: Sequence[Bundle]) -> None:
        """Note in each bundle what of it this maker had done before the run; some hundreds are asked for at once."""
        subjects = {id(bundle): [subject for subject, _ in self._subjects(bundle)] for bundle in bundles}
        every = [subject for of_one in subjects.values() for subject in of_one]
        done = self._annotations.done(self.annotator.maker.maker_id, every)
        for bundle in bundles:
            bundle.done[self.name] = done.intersection(subjects[id(bundle)])

    def lacks(self, bundle: Bundle) -> bool:
        """Whether an episode has a subject that this annotator has not done."""
        return any(subject not in bundle.done[self.name] for subject, _ in self._subjects(bundle))

    def skip(self, bundle: Bundle) -> None:
        """Count an episode that nobody has to work on."""
        subjects = len(self._subjects(bundle))
        self.report.plan(subjects, already=subjects)

    def stage(self) -> Stage[Bundle]:
        """This annotator as a station of the flow."""
        return Stage(self.name, self.run, batch=self.annotator.batch, workers=self.annotator.workers)

    def run(self, bundles: list[Bundle]) -> None:
        """Annotate what the bundles lack, in calls of at most `batch` works. Raises the first failure when strict."""
        pairs = [(bundle, work) for bundle in bundles for work in self._works(bundle)]
        for start in range(0, len(pairs), self.annotator.batch):
            chunk = pairs[start : start + self.annotator.batch]
            for (bundle, work), result in zip(chunk, self._call([work for _, work in chunk]), strict=True):
                self._settle(bundle, work, result)

    def fail(self, error: AresError, fact: Annotation) -> None:
        """Count a fact that could not be stored. Raises the error when strict."""
        self._fail(error, fact.subject, fact.episode_id)

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

    def _subjects(self, bundle: Bundle) -> list[tuple[str, Annotation | None]]:
        if self.annotator.about == "episode":
            return [(bundle.episode.episode_id, None)]
        made = [fact for result in bundle.made.get("caption", ()) for fact in result.annotations]
        captions = {fact.annotation_id: fact for fact in [*bundle.captions, *made]}
        return list(captions.items())

    def _works(self, bundle: Bundle) -> list[Work]:
        subjects = self._subjects(bundle)
        done = bundle.done[self.name]
        lacking = [(subject, about) for subject, about in subjects if subject not in done]
        self.report.plan(len(subjects), already=len(subjects) - len(lacking))
        return [
            Work(
                episode=bundle.episode,
                subject=subject,
                about=about,
                frames=bundle.frames,
                trajectory=bundle.trajectory,
            )
            for subject, about in lacking
        ]

    def _call(self, works: Sequence[Work]) -> Sequence[Result | AresError]:
        if self._given_up:
            return [ModelError("not tried after many failures in a row", self._given_up)] * len(works)
        expected = sum((self.annotator.estimate(work.episode) for work in works), Cost())
        if not self._budget.take(expected):
            return [ModelError("the budget is spent", "give a larger --budget to go on")] * len(works)
        results = self.annotator.process(works)
        self._budget.settle(expected, sum((_cost(result) for result in results), Cost()))
        return results

    def _settle(self, bundle: Bundle, work: Work, result: Result | AresError) -> None:
        if isinstance(result, Result):
            self._in_a_row = ("", 0)
            bundle.made.setdefault(self.name, []).append(result)
            return
        reason, times = self._in_a_row
        self._in_a_row = (result.reason, times + 1 if reason == result.reason else 1)
        if self._in_a_row[1] >= _GIVE_UP_AFTER:
            self._given_up = self._given_up or f"{_GIVE_UP_AFTER} times: {result}"
        self._fail(result, work.subject, work.episode.episode_id)

    def _fail(self, error: AresError, subject: str, episode_id: str) -> None:
        self.report.fail(error, f"episode {episode_id}")
        self.failed[subject] = error
        if self._strict:
            raise error


def _cost(result: Result | AresError) -> Cost:
    if isinstance(result, AresError):
        return Cost()
    return sum((fact.cost for fact in result.annotations), Cost())
