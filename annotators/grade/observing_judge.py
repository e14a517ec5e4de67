"""A judge that looks first: a model says what it sees, then rules only on what is contested."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from annotators.base import CameraSeconds, PaidFailure, Preflight, Subject, Work, new_annotation
from annotators.grade.criterion_judge import CheckedRuling, ClaimJudge
from annotators.grade.entailment import EntailmentModel, TextModelEntailment
from annotators.grade.judge import GradeCase, ImagesForJudge, JudgeFrames, Judgement
from annotators.grade.observation import (
    LEAST_CONFIDENCE,
    LEAST_ENTAILED,
    Observation,
    ObservationComparison,
    ObservationReply,
    ObservedAgreement,
    compare_captions_with_observations,
    observation_schema,
    parse_observation,
    read_observation,
)
from annotators.models import (
    Vlm,
    VlmFailure,
    VlmReply,
    VlmRequest,
    call_limit,
    estimate_image_tokens,
    grey_frames,
    make_test_call,
    price_usd,
)
from annotators.prompting import read_prompt
from ares.annotation import Annotation, Cost, Maker, make_segment_id, short_hash
from ares.episode import Json
from ares.errors import AresError, ModelError
from ares.rubric import Criterion, Ruling, Verdict
from ares.settings import Price

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores


OBSERVATION = "observation"
MAX_NEW_TOKENS = 800
_VERSION = "1"
_PACKAGE = "annotators.grade"
# For estimates only.
_PROMPT_TOKENS, _REPLY_TOKENS = 450, 260


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkObservation:
    """What was observed in a work.

    Attributes:
        observation: What was seen.
        annotation: The fact that it is, where it was made now of the frames of the episode; else None.
        annotation_id: Id of the fact, also where the log has it; "" for changed frames.
        cost: What it costs the grade of this work: nothing where it is a fact of the segment, which all captions share.
        paid: What was paid for it now.
    """

    observation: Observation
    annotation: Annotation | None = None
    annotation_id: str = ""
    cost: Cost = field(default_factory=Cost)
    paid: Cost = field(default_factory=Cost)


# A failure means that there is no observation, and that a retry may help.
ObservationOutcome = WorkObservation | PaidFailure | AresError


class SegmentObserver:
    """Observes segments by one request each; neither a caption nor the instruction is part of it.

    Args:
        vlm: The model; it holds JSON schemas, keeps its replies and books their cost.
        frames: Which frames it gets.
        stores: Stores of the workspace, whose log has earlier observations.
        price: Its price, for estimates.
        remote: Whether its calls cost money.

    Attributes:
        maker: Maker of the observations; the rubric and the captions are no part of it.
    """

    def __init__(
        self, vlm: Vlm, frames: JudgeFrames, stores: Stores, price: Price | None, remote: bool
    ) -> None:
        self._vlm, self._frames, self._log = vlm, frames, stores.annotations
        self._price, self._remote = price, remote
        self.prompt_hash = short_hash(
            [
                read_prompt(_PACKAGE, "observe"),
                read_prompt(_PACKAGE, "observe_system"),
                ObservationReply.model_json_schema(),
            ]
        )
        self.maker = Maker(
            annotator=OBSERVATION,
            version=_VERSION,
            model=vlm.name,
            prompt_hash=self.prompt_hash,
            settings={
                **vlm.settings,
                "layout": frames.layout.name,
                "camera": frames.camera,
                "family": vlm.family,
                "max_new_tokens": MAX_NEW_TOKENS,
            },
            kind="model",
            subject_kind="segment",
        )

    @property
    def call_limit(self) -> Callable[[], int] | None:
        """Works to have in hand now so that the server gets as many calls as it takes; None for other models."""
        return call_limit(self._vlm)

    def estimate(self, subject: Subject) -> Cost:
        """Expected cost of the observation of a subject: nothing where there is one."""
        is_known = bool(self._log.find_done_subjects(self.maker.maker_id, [_segment_id(subject)]))
        return Cost() if is_known else self.estimate_call(subject)

    def estimate_call(self, subject: Subject) -> Cost:
        """Expected cost of one observation that is made."""
        name = str(self._vlm.settings.get("served_from") or self._vlm.name)
        sizes = self._frames.layout.image_sizes(subject, self._frames.camera)
        tokens_in = estimate_image_tokens(name, sizes) + _PROMPT_TOKENS
        usd = price_usd(self._price, tokens_in, _REPLY_TOKENS) if self._remote else 0.0
        return Cost(calls=1, tokens_in=tokens_in, tokens_out=_REPLY_TOKENS, usd=usd)

    def preflight(self) -> Preflight:
        """Observe frames without content; the reply has to be of the form asked for. Raises ModelError."""
        layout = self._frames.layout
        seconds = [float(second) for second in range(layout.count)]
        request = self._request(layout.arrange(grey_frames(layout.count)), seconds)
        return make_test_call(self._vlm, request, lambda reply: _reply_problem(reply, seconds))

    def observe(self, works: Sequence[Work]) -> list[ObservationOutcome]:
        """The observation of each work; works about the same frames share it, and the first of them has paid for it."""
        first = {_shared_frames_key(work): work for work in reversed(works)}
        known = self._read_stored([work for work in first.values() if not work.frames.is_changed])
        missing = {key: work for key, work in first.items() if key not in known}
        answers = self._ask(missing)
        outcomes: list[ObservationOutcome] = []
        paid_for: set[tuple[int, str]] = set()
        for key in map(_shared_frames_key, works):
            outcome = known[key] if key in known else answers[key]
            outcomes.append(_as_already_paid(outcome) if key in paid_for else outcome)
            paid_for.add(key)
        return outcomes

    def _read_stored(self, works: Sequence[Work]) -> dict[tuple[int, str], WorkObservation]:
        """The observations of segments that the log has."""
        if not works:
            return {}
        ids = sorted({work.episode.episode_id for work in works})
        stored = self._log.find_annotations(ids, [OBSERVATION], maker_ids=[self.maker.maker_id])
        by_segment = {
            annotation.subject: WorkObservation(
                observation=observation, annotation_id=annotation.annotation_id
            )
            for annotation in stored
            if (observation := read_observation(annotation.value))
        }
        segments = {_shared_frames_key(work): _segment_id(work.subject) for work in works}
        return {key: by_segment[segment] for key, segment in segments.items() if segment in by_segment}

    def _ask(self, works: Mapping[tuple[int, str], Work]) -> dict[tuple[int, str], ObservationOutcome]:
        images = {key: self._frames.read(work) for key, work in works.items()}
        readable = {key: read for key, read in images.items() if isinstance(read, ImagesForJudge)}
        requests = [self._request(read.images, read.seconds) for read in readable.values()]
        replies = dict(zip(readable, self._vlm.ask(requests) if requests else (), strict=True))
        return {
            key: self._outcome(works[key], read, replies[key]) if isinstance(read, ImagesForJudge) else read
            for key, read in images.items()
        }

    def _request(self, images: Sequence[NDArray[np.uint8]], seconds: Sequence[float]) -> VlmRequest:
        legend, frames = self._frames.layout.legend(seconds), len(seconds)
        return VlmRequest(
            images=images,
            prompt=read_prompt(_PACKAGE, "observe").replace("{legend}", legend),
            system=read_prompt(_PACKAGE, "observe_system"),
            schema=observation_schema(frames),
            max_tokens=MAX_NEW_TOKENS,
        )

    def _outcome(self, work: Work, read: ImagesForJudge, reply: VlmReply | VlmFailure) -> ObservationOutcome:
        if isinstance(reply, VlmFailure):
            return PaidFailure(reply.error, reply.cost)
        observation = parse_observation(reply.text, read.seconds)
        if isinstance(observation, str):
            detail = f"{self._vlm.name}: {observation}; it replied {reply.text[:200]!r}"
            return PaidFailure(ModelError("observation cannot be used", detail), reply.paid)
        if work.frames.is_changed:
            return WorkObservation(observation=observation, cost=reply.cost, paid=reply.paid)
        annotation = observation_annotation(
            work, self.maker, observation.to_json(), camera=read.camera, seconds=read.seconds, cost=reply.cost
        )
        return WorkObservation(
            observation=observation,
            annotation=annotation,
            annotation_id=annotation.annotation_id,
            paid=reply.paid,
        )


def observation_annotation(
    work: Work,
    maker: Maker,
    value: Mapping[str, Json],
    *,
    camera: str,
    seconds: Sequence[float],
    cost: Cost | None = None,
) -> Annotation:
    """What was seen in the span of a work, as a fact about its segment that all captions of it share."""
    annotation = new_annotation(work, maker, value, camera=camera, frames=seconds, cost=cost)
    return replace(annotation, subject=_segment_id(work.subject), subject_kind="segment")


def _as_already_paid(outcome: ObservationOutcome) -> ObservationOutcome:
    """The outcome for another work about the same frames: it has been paid for."""
    if isinstance(outcome, PaidFailure):
        return outcome.error
    if isinstance(outcome, WorkObservation):
        return replace(outcome, annotation=None, paid=Cost())
    return outcome


def _reply_problem(reply: VlmReply, seconds: Sequence[float]) -> str:
    parsed = parse_observation(reply.text, seconds)
    return parsed if isinstance(parsed, str) else ""


def _shared_frames_key(work: Work) -> tuple[int, str]:
    """The same for works about the same frames: several texts about one segment."""
    return id(work.frames), _segment_id(work.subject)


def _segment_id(subject: Subject) -> str:
    return make_segment_id(subject.episode.episode_id, subject.start_seconds, subject.stop_seconds)


# For estimates only: shares of the criteria that a text states in other words than the observation, and that are
# contested. A text states about half of them, and half of these differ.
_WORDED_SHARE, _CONTESTED_SHARE = 0.25, 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class _ComparedCase:
    """A case with its observation, and what that bears out."""

    case: GradeCase
    seen: WorkObservation
    comparison: ObservationComparison

    @property
    def contested(self) -> GradeCase:
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

    def __init__(
        self, observer: SegmentObserver, claims: ClaimJudge, entailment: EntailmentModel | None
    ) -> None:
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
        if not isinstance(self._entailment, TextModelEntailment):
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
        is_other = isinstance(self._entailment, TextModelEntailment) and not self._is_own_text_mode
        if not is_other or not isinstance(self._entailment, TextModelEntailment):
            return checked
        compared = self._entailment.preflight()
        return Preflight(cost=checked.cost + compared.cost, warnings=[*checked.warnings, *compared.warnings])

    @property
    def _is_own_text_mode(self) -> bool:
        return self.settings.get("entailment") == f"text:{self.name}"

    def judge(self, cases: Sequence[GradeCase]) -> Sequence[Judgement | PaidFailure | AresError]:
        """Rulings: by the observations of all cases first, then all contested claims at once."""
        observed = self._observer.observe([case.work for case in cases])
        seen = [outcome for outcome in observed if isinstance(outcome, WorkObservation)]
        readable = [
            case
            for case, outcome in zip(cases, observed, strict=True)
            if isinstance(outcome, WorkObservation)
        ]
        compared = compare_captions_with_observations(
            readable, [outcome.observation for outcome in seen], self._entailment
        )
        prepared = [
            _ComparedCase(case=case, seen=outcome, comparison=comparison)
            if isinstance(comparison, ObservationComparison)
            else PaidFailure(comparison.error, comparison.cost + outcome.paid)
            for case, outcome, comparison in zip(readable, seen, compared, strict=True)
        ]
        judgements = iter(self._judge_compared(prepared))
        return [next(judgements) if isinstance(outcome, WorkObservation) else outcome for outcome in observed]

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

    def _agreed_ruling(self, criterion: Criterion, agreement: ObservedAgreement) -> Ruling:
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
        self, claims: Sequence[tuple[GradeCase, Ruling]]
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

    def _ask_frames(self, case: GradeCase, ruling: Ruling) -> CheckedRuling | PaidFailure | AresError:
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
