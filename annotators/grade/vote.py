"""Several judges as one: a criterion is met only where every judge says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ares.annotation import Cost, Producer, short_hash
from ares.errors import AresError
from ares.rubric import Ruling, Verdict
from ares_annotators.base import (
    CameraSeconds,
    PaidFailure,
    Preflight,
    Subject,
    find_outcome_cost,
    merge_frame_requests,
)
from ares_annotators.grade.judge import GradeCase, Judge, Judgement

if TYPE_CHECKING:
    from ares.episode import Json


class PanelJudge:
    """Several judges as one; fills the protocol `ares_annotators.grade.judge.Judge`.

    Args:
        members: The judges, in any order.
    """

    def __init__(self, members: Sequence[Judge]) -> None:
        self._members = sorted(members, key=lambda judge: judge.name)
        self.name = " + ".join(judge.name for judge in self._members)
        self.family = " + ".join(judge.family for judge in self._members)
        self.vlm = next((judge.vlm for judge in self._members if judge.vlm), None)
        self.prompt_hash = short_hash([judge.prompt_hash for judge in self._members])
        self.batch_size = min(judge.batch_size for judge in self._members)
        self.workers = min(judge.workers for judge in self._members)
        self.observation_producers: Sequence[Producer] = [
            producer for judge in self._members for producer in judge.observation_producers
        ]
        judges: list[Json] = [
            {"judge": judge.name, "family": judge.family, **judge.settings} for judge in self._members
        ]
        self.settings: Mapping[str, Json] = {"judges": judges}

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """What any of the judges needs."""
        return merge_frame_requests([judge.select_frames(subject) for judge in self._members])

    def expect_cost(self, subject: Subject) -> Cost:
        """The calls of all judges."""
        return sum((judge.expect_cost(subject) for judge in self._members), Cost())

    def preflight(self) -> Preflight:
        """Check that every judge answers."""
        checked = [judge.preflight() for judge in self._members]
        warnings = [warning for preflight in checked for warning in preflight.warnings]
        return Preflight(cost=sum((preflight.cost for preflight in checked), Cost()), warnings=warnings)

    @property
    def call_limit(self) -> Callable[[], int] | None:
        """As many cases as every judge takes."""
        limits = [judge.call_limit for judge in self._members if judge.call_limit]
        return (lambda: min(limit() for limit in limits)) if limits else None

    def judge(self, cases: Sequence[GradeCase]) -> Sequence[Judgement | PaidFailure | AresError]:
        """The votes of all judges on each case; a judge that cannot be called fails the case, which is retried."""
        by_judge = [judge.judge(cases) for judge in self._members]
        return [_combine_judgements(outcomes, self.name) for outcomes in zip(*by_judge, strict=True)]


def _combine_judgements(
    outcomes: Sequence[Judgement | PaidFailure | AresError], panel: str
) -> Judgement | PaidFailure | AresError:
    judgements = [outcome for outcome in outcomes if isinstance(outcome, Judgement)]
    paid = sum((item.paid for item in judgements), Cost())
    for failure in outcomes:
        if not isinstance(failure, Judgement):
            error = failure.error if isinstance(failure, PaidFailure) else failure
            failed = (find_outcome_cost(item) for item in outcomes if not isinstance(item, Judgement))
            return PaidFailure(error, sum(failed, paid))
    votes = zip(*(judgement.rulings for judgement in judgements), strict=True)
    return Judgement(
        rulings=[combine_votes(rulings, panel) for rulings in votes],
        cost=sum((item.cost for item in judgements), Cost()),
        paid=paid,
        observations=[annotation for item in judgements for annotation in item.observations],
        seen=[observation for item in judgements for observation in item.seen],
    )


def combine_votes(votes: Sequence[Ruling], panel: str) -> Ruling:
    """The ruling of several judges on one criterion: what all say; else UNMET where any says so, ERROR, or UNSURE.

    Args:
        votes: One ruling per judge.
        panel: Name of the judges together.
    """
    counts = Counter(vote.verdict for vote in votes)
    strictest = (word for word in (Verdict.UNMET, Verdict.ERROR) if counts[word])
    verdict = votes[0].verdict if len(counts) == 1 else next(strictest, Verdict.UNSURE)
    agreeing = [vote for vote in votes if vote.verdict is verdict]
    return Ruling(
        criterion=votes[0].criterion,
        verdict=verdict,
        source="panel",
        slot=votes[0].slot,
        claimed=votes[0].claimed,
        observed=next((vote.observed for vote in agreeing if vote.observed), ""),
        evidence=tuple(sorted({second for vote in agreeing for second in vote.evidence})),
        judge=panel,
        reason="votes: " + ", ".join(f"{vote.verdict.value} by {vote.judge}" for vote in votes),
        margin=min((vote.margin for vote in agreeing), default=0.0),
    )
