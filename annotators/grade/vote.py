"""How several judges come to one ruling: a criterion is met only where every judge says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from annotators.base import (
    CameraSeconds,
    PaidFailure,
    Preflight,
    Subject,
    find_outcome_cost,
    merge_frame_requests,
)
from annotators.grade.judge import GradeCase, Judge, Judgement
from ares.annotation import Cost, Producer, short_hash
from ares.errors import AresError
from ares.rubric import Ruling, Verdict

if TYPE_CHECKING:
    from ares.episode import Json


class PanelJudge:
    """Several judges as one; fills the protocol `annotators.grade.judge.Judge`.

    Args:
        members: The judges, in any order.
    """

    def __init__(self, members: Sequence[Judge]) -> None:
        self.members = sorted(members, key=lambda judge: judge.name)
        self.name = " + ".join(judge.name for judge in self.members)
        self.family = " + ".join(judge.family for judge in self.members)
        self.reads_slots = any(judge.reads_slots for judge in self.members)
        self.text_vlm = next((judge.text_vlm for judge in self.members if judge.text_vlm), None)
        self.prompt_hash = short_hash([judge.prompt_hash for judge in self.members])
        self.batch_size = min(judge.batch_size for judge in self.members)
        self.workers = min(judge.workers for judge in self.members)
        self.observation_producers: Sequence[Producer] = [
            producer for judge in self.members for producer in judge.observation_producers
        ]
        # Under another name than the settings of earlier versions: those grades are of a majority.
        judges: list[Json] = [
            {"judge": judge.name, "family": judge.family, **judge.settings} for judge in self.members
        ]
        self.settings: Mapping[str, Json] = {"judges": judges}

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """What any of the judges needs."""
        return merge_frame_requests([judge.select_frames(subject) for judge in self.members])

    def expect_cost(self, subject: Subject, questions: int) -> Cost:
        """The calls of all judges."""
        return sum((judge.expect_cost(subject, questions) for judge in self.members), Cost())

    def preflight(self) -> Preflight:
        """Check that every judge answers."""
        checked = [judge.preflight() for judge in self.members]
        warnings = [warning for preflight in checked for warning in preflight.warnings]
        return Preflight(cost=sum((preflight.cost for preflight in checked), Cost()), warnings=warnings)

    @property
    def call_limit(self) -> Callable[[], int] | None:
        """As many cases as every judge takes."""
        limits = [judge.call_limit for judge in self.members if judge.call_limit]
        return (lambda: min(limit() for limit in limits)) if limits else None

    def judge(self, cases: Sequence[GradeCase]) -> Sequence[Judgement | PaidFailure | AresError]:
        """The votes of all judges on each case; a judge that cannot be called fails the case, which is retried."""
        by_judge = [judge.judge(cases) for judge in self.members]
        return [self._vote(outcomes) for outcomes in zip(*by_judge, strict=True)]

    def _vote(
        self, outcomes: Sequence[Judgement | PaidFailure | AresError]
    ) -> Judgement | PaidFailure | AresError:
        judgements = [outcome for outcome in outcomes if isinstance(outcome, Judgement)]
        if len(judgements) < len(outcomes):
            return _first_failure(outcomes)
        votes = zip(*(judgement.rulings for judgement in judgements), strict=True)
        return Judgement(
            rulings=[combine_votes(rulings, self.name) for rulings in votes],
            cost=sum((item.cost for item in judgements), Cost()),
            paid=sum((item.paid for item in judgements), Cost()),
            observations=[annotation for item in judgements for annotation in item.observations],
            observation_ids=[key for item in judgements for key in item.observation_ids],
        )


def _first_failure(outcomes: Sequence[Judgement | PaidFailure | AresError]) -> PaidFailure | AresError:
    """The first failure, with what everything has cost."""
    paid = sum(
        (item.paid if isinstance(item, Judgement) else find_outcome_cost(item) for item in outcomes), Cost()
    )
    first = next(item for item in outcomes if not isinstance(item, Judgement))
    error = first.error if isinstance(first, PaidFailure) else first
    return PaidFailure(error, paid) if paid.calls else error


def combine_votes(votes: Sequence[Ruling], panel: str) -> Ruling:
    """The ruling of several judges on one criterion, with the votes that it follows from.

    What all say counts. Else it is UNMET where any says so, ERROR where any failed, and UNSURE otherwise.

    Args:
        votes: One ruling per judge.
        panel: Name of the judges together.
    """
    counts = Counter(vote.verdict for vote in votes)
    verdict = _strictest_verdict(counts)
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
        reason="votes: " + ", ".join(f"{counts[name]} {name.value}" for name in Verdict if counts[name]),
        margin=min((vote.margin for vote in agreeing), default=0.0),
        votes=tuple(votes),
    )


def _strictest_verdict(verdicts: Collection[Verdict]) -> Verdict:
    """What all say, else the strictest; of MET and NA together nothing follows."""
    if len(set(verdicts)) == 1:
        return next(iter(verdicts))
    return next((word for word in (Verdict.UNMET, Verdict.ERROR) if word in verdicts), Verdict.UNSURE)


def split_criteria(rulings: Sequence[Ruling]) -> list[str]:
    """The criteria on which several judges do not say the same."""
    return [ruling.criterion for ruling in rulings if len({vote.verdict for vote in ruling.votes}) > 1]
