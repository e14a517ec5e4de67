"""A vision-language model as judge that looks first: what it saw is compared with the caption, and only what is
contested is asked about with the frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from annotators.base import PaidFailure, Preflight, Subject
from annotators.frames import CameraSeconds
from annotators.grade.claim_judge import CheckedRuling, ClaimJudge
from annotators.grade.entailment import EntailmentModel, TextModeEntailment
from annotators.grade.judge import Case, Judgement
from annotators.grade.observation.comparison import (
    LEAST_ENTAILED,
    Agreement,
    ObservationComparison,
    compare_with_observations,
)
from annotators.grade.observation.form import LEAST_CONFIDENCE
from annotators.grade.observation.observer import ObservedWork, Observer
from ares.annotation import Cost, Maker, short_hash
from ares.episode import Json
from ares.errors import AresError
from ares.rubric import Criterion, Ruling, Verdict

# For estimates only: shares of the criteria that a text states in other words than the observation, and that are
# contested. A text states about half of them, and half of these differ.
_WORDED_SHARE, _CONTESTED_SHARE = 0.25, 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class _ComparedCase:
    """A case with its observation, and what that bears out."""

    case: Case
    seen: ObservedWork
    comparison: ObservationComparison

    @property
    def contested(self) -> Case:
        """The case with the criteria that the frames have to decide."""
        criteria = [item for item in self.case.criteria if item.id in self.comparison.contested]
        return replace(self.case, criteria=criteria)


class ObservingJudge:
    """Observation first, claims where it is contested; fills the protocol `annotators.grade.judge.Judge`.

    Args:
        observer: Observes before any caption is known.
        claims: The same model, asked about single claims with the frames.
        entailment: Compares captions in other words with what was observed; None contests them all.
    """

    is_free = False

    def __init__(self, observer: Observer, claims: ClaimJudge, entailment: EntailmentModel | None) -> None:
        self._observer, self._claims, self._entailment = observer, claims, entailment
        self.name, self.family = claims.name, claims.family
        self.batch_size, self.workers = claims.batch_size, claims.workers
        self.prompt_hash = short_hash([claims.prompt_hash, observer.prompt_hash])
        self.observation_makers: Sequence[Maker] = [observer.maker]
        bounds: dict[str, Json] = {
            "observation": observer.maker.maker_id,
            "least_confidence": LEAST_CONFIDENCE,
            "least_entailed": LEAST_ENTAILED,
        }
        self.settings: Mapping[str, Json] = {
            **claims.settings,
            **bounds,
            **(entailment.settings if entailment else {"entailment": "tables"}),
        }

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """The frames of the observation, which are those of the claims."""
        return self._claims.select_frames(subject)

    def estimate(self, subject: Subject, criteria: Sequence[Criterion]) -> Cost:
        """Comparisons of texts, and claims where the observation is contested."""
        claims = [criterion for criterion in criteria if criterion.claim]
        contested = self._claims.estimate(subject, claims[: round(len(claims) * _CONTESTED_SHARE)])
        if not isinstance(self._entailment, TextModeEntailment):
            return contested
        return contested + self._entailment.estimate(round(len(claims) * _WORDED_SHARE), pairs=1)

    def estimate_observation(self, subject: Subject) -> Cost:
        """One call, or nothing where the segment was observed before."""
        return self._observer.estimate(subject)

    def estimate_changed_frames(self, subject: Subject) -> Cost:
        """One call."""
        return self._observer.estimate_call(subject)

    @property
    def call_limit(self) -> Callable[[], int] | None:
        """Enough cases that the server is busy while most of them wait for their one observation."""
        return self._observer.call_limit

    def preflight(self) -> Preflight:
        """One observation of frames without content, and a question to the model of texts where that is another one."""
        checked = self._observer.preflight()
        is_other = isinstance(self._entailment, TextModeEntailment) and not self._is_own_text_mode
        if not is_other or not isinstance(self._entailment, TextModeEntailment):
            return checked
        compared = self._entailment.preflight()
        return Preflight(cost=checked.cost + compared.cost, warnings=[*checked.warnings, *compared.warnings])

    @property
    def _is_own_text_mode(self) -> bool:
        return self.settings.get("entailment") == f"text:{self.name}"

    def judge(self, cases: Sequence[Case]) -> Sequence[Judgement | PaidFailure | AresError]:
        """Rulings: by the observations of all cases first, then all contested claims at once."""
        observed = self._observer.observe([case.work for case in cases])
        seen = [outcome for outcome in observed if isinstance(outcome, ObservedWork)]
        readable = [
            case for case, outcome in zip(cases, observed, strict=True) if isinstance(outcome, ObservedWork)
        ]
        compared = compare_with_observations(
            readable, [outcome.observation for outcome in seen], self._entailment
        )
        prepared = [
            _ComparedCase(case=case, seen=outcome, comparison=comparison)
            if isinstance(comparison, ObservationComparison)
            else PaidFailure(comparison.error, comparison.cost + outcome.paid)
            for case, outcome, comparison in zip(readable, seen, compared, strict=True)
        ]
        judgements = iter(self._judge_compared(prepared))
        return [next(judgements) if isinstance(outcome, ObservedWork) else outcome for outcome in observed]

    def _judge_compared(
        self, prepared: Sequence[_ComparedCase | PaidFailure]
    ) -> list[Judgement | PaidFailure | AresError]:
        cases = [item for item in prepared if isinstance(item, _ComparedCase)]
        contested = [item.contested for item in cases if item.contested.criteria]
        ruled = iter(self._claims.judge(contested) if contested else ())
        return [
            self._join(item, next(ruled) if item.contested.criteria else _no_claims())
            if isinstance(item, _ComparedCase)
            else item
            for item in prepared
        ]

    def _join(
        self, compared: _ComparedCase, ruled: Judgement | PaidFailure | AresError
    ) -> Judgement | PaidFailure | AresError:
        """The rulings by the observation and those by the frames, in the order of the criteria."""
        paid = compared.seen.paid + compared.comparison.paid
        if isinstance(ruled, PaidFailure):
            return PaidFailure(ruled.error, paid + ruled.cost)
        if isinstance(ruled, AresError):
            return PaidFailure(ruled, paid) if paid.calls else ruled
        contested = {
            ruling.criterion: replace(ruling, contested=compared.comparison.contested[ruling.criterion])
            for ruling in ruled.rulings
        }
        agreed = compared.comparison.agreed
        annotation = compared.seen.annotation
        return Judgement(
            rulings=[
                self._agreed_ruling(criterion, agreed[criterion.id])
                if criterion.id in agreed
                else contested[criterion.id]
                for criterion in compared.case.criteria
            ],
            cost=compared.seen.cost + compared.comparison.cost + ruled.cost,
            paid=paid + ruled.paid,
            observations=[annotation] if annotation else [],
            observation_ids=[compared.seen.annotation_id] if compared.seen.annotation_id else [],
        )

    def _agreed_ruling(self, criterion: Criterion, agreement: Agreement) -> Ruling:
        return Ruling(
            criterion=criterion.id,
            verdict=Verdict.MET,
            source="observation",
            observed=agreement.part.text,
            evidence=agreement.part.seconds,
            judge=self.name,
            reason=agreement.reason,
            confidence=agreement.confidence,
        )

    def check_evidence(
        self, claims: Sequence[tuple[Case, Ruling]]
    ) -> list[CheckedRuling | PaidFailure | AresError]:
        """As `ClaimJudge.check_evidence`; where the ruling rests on the observation, the frames are asked first.

        Args:
            claims: Rulings of this judge, each with its case.
        """
        ruled = [self._ask_frames(case, ruling) for case, ruling in claims]
        kept = [
            (case, check.ruling)
            for (case, _), check in zip(claims, ruled, strict=True)
            if isinstance(check, CheckedRuling) and check.ruling.verdict is Verdict.MET
        ]
        checks = iter(self._claims.check_evidence(kept))
        return [
            _add_costs(check, next(checks))
            if isinstance(check, CheckedRuling) and check.ruling.verdict is Verdict.MET
            else check
            for check in ruled
        ]

    def _ask_frames(self, case: Case, ruling: Ruling) -> CheckedRuling | PaidFailure | AresError:
        """The ruling of the frames on a claim that the observation bears out; any other ruling as it is."""
        if ruling.source != "observation":
            return CheckedRuling(ruling=ruling, cost=Cost(), paid=Cost())
        criteria = [criterion for criterion in case.criteria if criterion.id == ruling.criterion]
        (judgement,) = self._claims.judge([replace(case, criteria=criteria)])
        if not isinstance(judgement, Judgement):
            return judgement
        (ruled,) = judgement.rulings
        ruled = replace(ruled, contested="another judge of the panel says otherwise")
        return CheckedRuling(ruling=ruled, cost=judgement.cost, paid=judgement.paid)


def _no_claims() -> Judgement:
    return Judgement(rulings=(), cost=Cost(), paid=Cost())


def _add_costs(
    ruled: CheckedRuling, checked: CheckedRuling | PaidFailure | AresError
) -> CheckedRuling | PaidFailure | AresError:
    """A check with the cost of the question before it."""
    if isinstance(checked, CheckedRuling):
        return replace(checked, cost=ruled.cost + checked.cost, paid=ruled.paid + checked.paid)
    if isinstance(checked, PaidFailure):
        return PaidFailure(checked.error, ruled.paid + checked.cost)
    return PaidFailure(checked, ruled.paid) if ruled.paid.calls else checked
