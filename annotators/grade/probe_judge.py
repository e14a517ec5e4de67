"""CLIP as a blind judge: it picks phrases that fit the frames from a menu, and code compares them with the caption."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from annotators.base import PaidFailure, Preflight, Subject
from annotators.caption import evenly_spaced_seconds
from annotators.frames import CameraSeconds
from annotators.grade.entailment import EntailmentModel, TextModeEntailment
from annotators.grade.judge import Case, Judgement, scrambled
from annotators.grade.menu import Menu
from annotators.grade.menu_comparison import MenuComparison, cached_parse, compare_with_menus
from annotators.grade.observation import OBSERVATION, observation_annotation
from annotators.grade.probe_frames import CameraFrames, CaseFrames, PhraseMenu, next_vectors
from ares.annotation import Annotation, Cost, Maker, short_hash
from ares.episode import Camera, Json
from ares.errors import AresError, MediaError
from ares.rubric import (
    CaptionSlots,
    Criterion,
    Probe,
    Ruling,
    Verdict,
    unsupported_claims,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from annotators.models import NamedEncoder

_BATCH_SIZE = 8
_OBSERVATION_VERSION = "1"
# Of a large vocabulary only the best fitting phrases are put on the menu.
_MENU_SIZE = 500
_NO_ARRANGEMENT = "seen as well where the parts of the frames are shuffled"


class ProbeJudge:
    """Blind forced choice with CLIP; fills the protocol `annotators.grade.judge.Judge`.

    What it observes is chosen before any caption is read, and the same for all captions of a segment.

    Args:
        encoder: The model.
        probe: Templates and thresholds.
        menu: The phrases to choose from.
        camera: Camera name, or "" for every good one.
        entailment: Compares captions with phrases in other words; None where they count as different.
    """

    batch_size = _BATCH_SIZE
    workers = 1
    call_limit = None
    prompt_hash = ""

    def __init__(
        self,
        encoder: NamedEncoder,
        probe: Probe,
        menu: Menu,
        camera: str,
        entailment: EntailmentModel | None = None,
    ) -> None:
        self._entailment = entailment
        self.is_free = not isinstance(entailment, TextModeEntailment)
        self._encoder, self._probe, self._camera = encoder, probe, camera
        self._phrases = menu.all_phrases()
        # A phrase that was not on offer could not be chosen.
        own: dict[str, Json] = {"menu": f"{menu.id}@{menu.version}", "menu_hash": menu.hash}
        self.settings = own | dict(entailment.settings if entailment else {"entailment": "tables"})
        self.name = f"clip:{encoder.name}"
        self.family = self.name
        self._outcome_vectors: dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]] = {}
        self._observation_maker = Maker(
            annotator=OBSERVATION,
            version=_OBSERVATION_VERSION,
            model=self.name,
            prompt_hash=short_hash(probe.model_dump(mode="json")),
            settings={**own, "camera": camera},
            kind="model",
            subject_kind="segment",
        )
        self.observation_makers: Sequence[Maker] = [self._observation_maker]

    def estimate_observation(self, subject: Subject) -> Cost:
        """A cost of nothing but time."""
        return Cost()

    estimate_changed_frames = estimate_observation

    def estimate(self, subject: Subject, criteria: Sequence[Criterion]) -> Cost:
        """A cost of nothing but time, or of the calls that compare a caption in other words with what was seen."""
        if not isinstance(self._entailment, TextModeEntailment):
            return Cost()
        return self._entailment.estimate(sum(criterion.slot is not None for criterion in criteria))

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """Frames over the span, and its last frames, of every good camera or of the configured one."""
        return {camera.name: sorted({*task, *last}) for camera, task, last in self._camera_seconds(subject)}

    def preflight(self) -> Preflight:
        """Of its own nothing: its encoder was loaded, and costs nothing. Raises ModelError for its model of texts."""
        return (
            self._entailment.preflight() if isinstance(self._entailment, TextModeEntailment) else Preflight()
        )

    def judge(self, cases: Sequence[Case]) -> Sequence[Judgement | PaidFailure | AresError]:
        """Rulings by one pass of the model over the frames of all cases, each frame once."""
        first_cases = {_frames_key(case): case for case in reversed(cases)}
        encoded = dict(zip(first_cases, self._encode_cases(list(first_cases.values())), strict=True))
        menus = {
            key: self._rank_phrases(*self._vocabulary, frames)
            for key, frames in encoded.items()
            if isinstance(frames, CaseFrames)
        }
        readable = [case for case in cases if _frames_key(case) in menus]
        items = [menus[_frames_key(case)].items for case in readable]
        compared = iter(compare_with_menus(readable, items, self._entailment))
        judgements: list[Judgement | PaidFailure | AresError] = []
        for case in cases:
            frames = encoded[_frames_key(case)]
            if isinstance(frames, AresError):
                judgements.append(frames)
            else:
                menu = menus[_frames_key(case)]
                judgements.append(self._judge_case(case, frames, menu, next(compared)))
        return judgements

    def _judge_case(
        self, case: Case, frames: CaseFrames, menu: PhraseMenu, compared: MenuComparison | PaidFailure
    ) -> Judgement | PaidFailure:
        if isinstance(compared, PaidFailure):
            return compared
        rulings = [
            self._rule_outcome(criterion, case.slots, menu, frames, compared)
            if criterion.slot == "outcome"
            else self._rule_slot(criterion, case.slots, menu, frames, compared)
            for criterion in case.criteria
        ]
        observations = [] if case.work.frames.is_changed else [self._observation(case, menu, frames)]
        return Judgement(
            rulings=rulings,
            cost=compared.cost,
            paid=compared.paid,
            observations=observations,
            seen=menu.top,
        )

    def _observation(self, case: Case, menu: PhraseMenu, frames: CaseFrames) -> Annotation:
        """What was chosen from the menu, as a fact of the segment."""
        selected = self.select_frames(case.work.subject)
        return observation_annotation(
            case.work,
            self._observation_maker,
            self._observe(menu, frames),
            camera=next(iter(selected)) if len(selected) == 1 else "",
            seconds=sorted({second for seconds in selected.values() for second in seconds}),
        )

    @cached_property
    def _vocabulary(self) -> tuple[list[str], NDArray[np.float32]]:
        return self._phrases, self._encode_phrases(self._probe.task, self._phrases)

    def _encode_cases(self, cases: Sequence[Case]) -> list[CaseFrames | AresError]:
        """The frames of cases as vectors, by one call of the encoder."""
        case_frames = [self._read_frames(case) for case in cases]
        cameras = [
            camera for frames in case_frames if isinstance(frames, CaseFrames) for camera in frames.cameras
        ]
        images = [image for camera in cameras for image in (*camera.task, *camera.last, *camera.shuffled)]
        vectors = iter(self._encoder.encode_images(images))

        def encode(camera: CameraFrames) -> CameraFrames:
            parts = (camera.task, camera.last, camera.shuffled)
            return CameraFrames(*(next_vectors(vectors, len(part)) for part in parts))

        return [
            replace(frames, cameras=[encode(camera) for camera in frames.cameras])
            if isinstance(frames, CaseFrames)
            else frames
            for frames in case_frames
        ]

    def _read_frames(self, case: Case) -> CaseFrames | AresError:
        camera_seconds = self._camera_seconds(case.work.subject)
        if not camera_seconds:
            return MediaError("episode has no such camera", f"{self._camera or 'any'!r}")
        frames = case.work.frames
        try:
            cameras = [
                self._camera_frames(frames.at(camera.name, task), frames.at(camera.name, last))
                for camera, task, last in camera_seconds
            ]
        except MediaError as error:
            return error
        _, task_seconds, last_seconds = camera_seconds[0]
        return CaseFrames(cameras, tuple(task_seconds), tuple(last_seconds))

    def _camera_frames(self, task: NDArray[Any], last: NDArray[Any]) -> CameraFrames:
        shuffled = scrambled(task) if self._probe.least_arrangement is not None else task[:0]
        return CameraFrames(task, last, shuffled)

    def _camera_seconds(self, subject: Subject) -> list[tuple[Camera, list[float], list[float]]]:
        """Cameras with seconds over the span of a subject and at its end.

        All good cameras: another view may show what the captioner's camera does not.
        """
        task_count, last_count = self._probe.task_frames, self._probe.last_frames
        return [
            (
                camera,
                evenly_spaced_seconds(camera, task_count, subject=subject),
                evenly_spaced_seconds(camera, last_count, last_frames=last_count, subject=subject),
            )
            for camera in subject.episode.good_cameras
            if not self._camera or camera.name == self._camera
        ]

    def _observe(self, menu: PhraseMenu, frames: CaseFrames) -> dict[str, Json]:
        """The action and the outcome that the frames show, chosen from the menu without the caption."""
        return {
            "action": menu.top,
            "belief": round(float(menu.beliefs.max()), 4),
            "success_belief": round(self._success_belief(menu.top, frames), 4),
            "phrases": len(menu.phrases),
            **({} if menu.arrangement is None else {"arrangement": round(menu.arrangement, 4)}),
        }

    def _rank_phrases(
        self, phrases: Sequence[str], texts: NDArray[np.float32], frames: CaseFrames
    ) -> PhraseMenu:
        """The best fitting of N phrases, with vectors (N, D), and the belief in each."""
        import numpy as np

        cosines = np.mean([(camera.task @ texts.T).mean(axis=0) for camera in frames.cameras], axis=0)
        scores = cosines.astype(np.float64) * self._probe.task_sharpness
        best = np.sort(np.argsort(-scores, kind="stable")[:_MENU_SIZE])
        weights = np.exp(scores[best] - scores.max())
        top = int(scores.argmax())
        shuffled = [
            float((camera.shuffled @ texts[top]).mean()) for camera in frames.cameras if len(camera.shuffled)
        ]
        arrangement = float(cosines[top] - np.mean(shuffled)) if shuffled else None
        return PhraseMenu([phrases[index] for index in best], weights / weights.sum(), arrangement)

    def _rule_slot(
        self,
        criterion: Criterion,
        slots: CaptionSlots,
        menu: PhraseMenu,
        frames: CaseFrames,
        compared: MenuComparison,
    ) -> Ruling:
        if criterion.slot is None:
            return self._ruling(criterion, Verdict.UNSURE, menu.top, (), "no probe for this criterion", None)
        if self._shows_nothing(menu):
            seconds = frames.task_seconds
            return self._ruling(criterion, Verdict.UNSURE, menu.top, seconds, _NO_ARRANGEMENT, None)
        belief = compared.slots[criterion.slot].entailed
        against = compared.slots[criterion.slot].contradicted
        verdict = _verdict(belief, self._probe.met, self._probe.unmet, against)
        reason = _reason(verdict)
        if criterion.slot == "additions" and verdict is Verdict.MET:
            unsupported = unsupported_claims(slots, cached_parse(menu.top))
            if unsupported:
                verdict, reason = Verdict.UNSURE, f"no phrase to choose from says: {', '.join(unsupported)}"
        return self._ruling(criterion, verdict, menu.top, frames.task_seconds, reason, belief)

    def _shows_nothing(self, menu: PhraseMenu) -> bool:
        """Whether what was seen does not depend on where in the frames anything is: then the frames do not show it."""
        least = self._probe.least_arrangement
        return least is not None and menu.arrangement is not None and menu.arrangement < least

    def _rule_outcome(
        self,
        criterion: Criterion,
        slots: CaptionSlots,
        menu: PhraseMenu,
        frames: CaseFrames,
        compared: MenuComparison,
    ) -> Ruling:
        success = self._success_belief(menu.top, frames)
        observed = f"{'managed' if success >= 0.5 else 'failed'} to {menu.top}"
        if slots.outcome == "attempt":
            reason = "caption states no outcome"
            return self._ruling(criterion, Verdict.UNSURE, observed, frames.last_seconds, reason, None)
        if compared.outcome.get(slots.outcome, 1.0) < 0.5:
            reason = "caption may state another outcome"
            return self._ruling(criterion, Verdict.UNSURE, observed, frames.last_seconds, reason, None)
        belief = success if slots.outcome == "success" else 1.0 - success
        verdict = _verdict(belief, self._probe.outcome_met, self._probe.outcome_unmet)
        reason = _reason(verdict)
        if verdict is Verdict.MET and slots.outcome == "success" and not self._advances(menu.top, frames):
            verdict, reason = Verdict.UNSURE, "the end is no nearer to it than the start"
        return self._ruling(criterion, verdict, observed, frames.last_seconds, reason, belief)

    def _advances(self, phrase: str, frames: CaseFrames) -> bool:
        """Whether an action looks more completed in the last frame of its course than in the first."""
        import numpy as np

        done, undone = self._encode_outcomes(phrase)
        changes = [(camera.task[-1] - camera.task[0]) @ (done - undone) for camera in frames.cameras]
        return self._probe.task_frames == 1 or float(np.mean(changes)) > 0.0

    def _success_belief(self, phrase: str, frames: CaseFrames) -> float:
        """Belief that the observed action, not the one that the caption claims, is completed at the end."""
        import numpy as np

        done, undone = self._encode_outcomes(phrase)
        difference = float(np.mean([(camera.last @ (done - undone)).mean() for camera in frames.cameras]))
        return 1.0 / (
            1.0 + math.exp(-self._probe.outcome_sharpness * (difference - self._probe.outcome_bias))
        )

    def _encode_outcomes(self, phrase: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        if phrase not in self._outcome_vectors:
            done, undone = (
                self._encode_phrases(templates, [phrase])[0]
                for templates in (self._probe.success, self._probe.failure)
            )
            self._outcome_vectors[phrase] = done, undone
        return self._outcome_vectors[phrase]

    def _encode_phrases(self, templates: Sequence[str], phrases: Sequence[str]) -> NDArray[np.float32]:
        """(N, D) unit vectors of N phrases, each the mean over the templates."""
        import numpy as np

        filled = [template.replace("{}", phrase) for template in templates for phrase in phrases]
        vectors = self._encoder.encode_texts(filled).reshape(len(templates), len(phrases), -1).mean(axis=0)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: NDArray[np.float32] = vectors / np.maximum(lengths, 1e-12)
        return unit

    def _ruling(
        self,
        criterion: Criterion,
        verdict: Verdict,
        observed: str,
        evidence: tuple[float, ...],
        reason: str,
        confidence: float | None,
    ) -> Ruling:
        return Ruling(
            criterion=criterion.id,
            verdict=verdict,
            source="probe",
            observed=observed,
            evidence=evidence,
            judge=self.name,
            reason=reason,
            confidence=None if confidence is None else round(confidence, 4),
        )


def _frames_key(case: Case) -> tuple[int, str]:
    """The same for cases about the same frames: several texts about one subject."""
    return id(case.work.frames), case.work.subject.id


def _verdict(belief: float, met: float, unmet: float, against: float | None = None) -> Verdict:
    """The verdict of a belief; `against` is the belief in the opposite, where that is not all of the rest."""
    if belief >= met:
        return Verdict.MET
    is_refused = (1.0 - belief if against is None else against) > 1.0 - unmet
    return Verdict.UNMET if is_refused else Verdict.UNSURE


def _reason(verdict: Verdict) -> str:
    return {
        Verdict.MET: "what was seen fits the caption",
        Verdict.UNMET: "something else was seen",
        Verdict.UNSURE: "too close to call",
    }[verdict]
