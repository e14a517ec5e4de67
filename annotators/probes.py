"""Probes: CLIP as a blind judge; it chooses what it sees from a menu, and code compares that with the caption."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from annotators.base import Seconds
from annotators.judge import Case, Judged
from annotators.layout import spread
from annotators.vocabulary import FEWEST
from ares.annotation import Cost
from ares.episode import Camera, Episode
from ares.errors import AresError, MediaError
from ares.rubric.compare import fits
from ares.rubric.rubric import Criterion, Probe
from ares.rubric.slots import Slots, parse
from ares.rubric.verdict import Ruling, Verdict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from annotators.backends.clip import ClipEncoder

_BATCH = 8
# Of a large vocabulary only the best fitting phrases are put on the menu.
_MENU = 500

_parse = lru_cache(maxsize=50_000)(parse)


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """Frames of one camera, of the whole episode and of its end: images, then vectors of the model; (N, ...) each."""

    task: NDArray[Any]
    last: NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class _Sight:
    """What a case's frames look like to the model, camera by camera; seconds are those of the first."""

    views: Sequence[_View]
    task_seconds: tuple[float, ...]
    last_seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Menu:
    """The phrases offered in a case and how far each is believed; beliefs add up to 1."""

    phrases: Sequence[str]
    beliefs: NDArray[np.float64]

    @property
    def top(self) -> str:
        return self.phrases[int(self.beliefs.argmax())]


class ProbeJudge:
    """Blind forced choice with CLIP; keeps the contract of `annotators.judge.Judge`.

    The caption under judgement is one phrase of the menu like any other. Nothing tells the model which.

    Args:
        encoder: The model.
        probe: Templates and thresholds.
        gather: Makes the menu; called once, when the first case comes.
        camera: Camera name, or "" for every good one.
    """

    batch = _BATCH
    workers = 1
    prompt_hash = ""

    def __init__(
        self, encoder: ClipEncoder, probe: Probe, gather: Callable[[], list[str]], camera: str
    ) -> None:
        self._encoder, self._probe, self._gather, self._camera = encoder, probe, gather, camera
        self.name = f"clip:{encoder.name}"
        self.family = self.name
        self._outcomes: dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]] = {}

    def estimate(self, criteria: Sequence[Criterion]) -> Cost:
        """Costs nothing but time."""
        return Cost()

    def wants(self, episode: Episode) -> Seconds:
        """Frames over the episode, and the last ones, of every good camera or the one asked for."""
        return {camera.name: sorted({*task, *last}) for camera, task, last in self._shots(episode)}

    def judge(self, cases: Sequence[Case]) -> Sequence[Judged | AresError]:
        """Rulings by one pass of the model over the frames of all cases."""
        seen = self._look(cases)
        return [
            sight if isinstance(sight, AresError) else Judged(rulings=self._rule(case, sight), cost=Cost())
            for case, sight in zip(cases, seen, strict=True)
        ]

    @cached_property
    def _vocabulary(self) -> tuple[list[str], NDArray[np.float32]]:
        phrases = self._gather()
        return phrases, self._texts(self._probe.task, phrases)

    def _look(self, cases: Sequence[Case]) -> list[_Sight | AresError]:
        shown = [self._frames(case) for case in cases]
        stills = [view for sight in shown if isinstance(sight, _Sight) for view in sight.views]
        images = [image for view in stills for image in (*view.task, *view.last)]
        vectors = iter(self._encoder.encode_images(images))

        def embedded(view: _View) -> _View:
            return _View(_take(vectors, len(view.task)), _take(vectors, len(view.last)))

        return [
            replace(sight, views=[embedded(view) for view in sight.views])
            if isinstance(sight, _Sight)
            else sight
            for sight in shown
        ]

    def _frames(self, case: Case) -> _Sight | AresError:
        shots = self._shots(case.work.episode)
        if not shots:
            return MediaError("episode has no such camera", f"{self._camera or 'any'!r}")
        frames = case.work.frames
        try:
            views = [_View(frames.at(one.name, task), frames.at(one.name, last)) for one, task, last in shots]
        except MediaError as error:
            return error
        return _Sight(views, tuple(shots[0][1]), tuple(shots[0][2]))

    def _shots(self, episode: Episode) -> list[tuple[Camera, list[float], list[float]]]:
        """Cameras with the seconds of the whole episode and of its end.

        A judge that looks from every side sees what the captioner's one view may hide.
        """
        cameras = [one for one in episode.good_cameras if not self._camera or one.name == self._camera]
        last = self._probe.last_frames
        return [(one, spread(one, self._probe.task_frames), spread(one, last, last=last)) for one in cameras]

    def _rule(self, case: Case, sight: _Sight) -> list[Ruling]:
        menu = self._choose(case.slots, sight)
        return [
            self._outcome(criterion, case.slots, menu, sight)
            if criterion.slot == "outcome"
            else self._slot(criterion, case.slots, menu, sight)
            for criterion in case.criteria
        ]

    def _choose(self, slots: Slots, sight: _Sight) -> _Menu:
        import numpy as np

        phrases, texts = self._vocabulary
        if slots.phrase not in phrases:
            phrases = [*phrases, slots.phrase]
            texts = np.concatenate([texts, self._texts(self._probe.task, [slots.phrase])])
        cosines = np.mean([(view.task @ texts.T).mean(axis=0) for view in sight.views], axis=0)
        scores = cosines.astype(np.float64) * self._probe.task_sharpness
        best = np.sort(np.argsort(-scores, kind="stable")[:_MENU])
        weights = np.exp(scores[best] - scores.max())
        return _Menu([phrases[index] for index in best], weights / weights.sum())

    def _slot(self, criterion: Criterion, slots: Slots, menu: _Menu, sight: _Sight) -> Ruling:
        if criterion.slot is None:
            return self._ruling(criterion, Verdict.UNSURE, menu.top, (), "no probe for this criterion", None)
        if len(menu.phrases) < FEWEST:
            reason = "too few phrases to choose from"
            return self._ruling(criterion, Verdict.UNSURE, menu.top, sight.task_seconds, reason, None)
        fitting = [fits(criterion.slot, slots, _parse(phrase)) for phrase in menu.phrases]
        belief = float(menu.beliefs[fitting].sum())
        verdict = _verdict(belief, self._probe.met, self._probe.unmet)
        return self._ruling(criterion, verdict, menu.top, sight.task_seconds, _why(verdict), belief)

    def _outcome(self, criterion: Criterion, slots: Slots, menu: _Menu, sight: _Sight) -> Ruling:
        success = self._success(menu.top, sight)
        observed = f"{'managed' if success >= 0.5 else 'failed'} to {menu.top}"
        if slots.outcome == "attempt":
            reason = "caption states no outcome"
            return self._ruling(criterion, Verdict.UNSURE, observed, sight.last_seconds, reason, None)
        belief = success if slots.outcome == "success" else 1.0 - success
        verdict = _verdict(belief, self._probe.outcome_met, self._probe.outcome_unmet)
        return self._ruling(criterion, verdict, observed, sight.last_seconds, _why(verdict), belief)

    def _success(self, phrase: str, sight: _Sight) -> float:
        """Belief that the action that was seen, not the one that the caption claims, is completed at the end."""
        import numpy as np

        done, undone = self._outcome_texts(phrase)
        difference = float(np.mean([(view.last @ (done - undone)).mean() for view in sight.views]))
        return 1.0 / (
            1.0 + math.exp(-self._probe.outcome_sharpness * (difference - self._probe.outcome_bias))
        )

    def _outcome_texts(self, phrase: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        if phrase not in self._outcomes:
            done, undone = (
                self._texts(side, [phrase])[0] for side in (self._probe.success, self._probe.failure)
            )
            self._outcomes[phrase] = done, undone
        return self._outcomes[phrase]

    def _texts(self, templates: Sequence[str], phrases: Sequence[str]) -> NDArray[np.float32]:
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


def _take(vectors: Iterator[NDArray[np.float32]], count: int) -> NDArray[np.float32]:
    import numpy as np

    return np.stack(list(islice(vectors, count)))


def _verdict(belief: float, met: float, unmet: float) -> Verdict:
    if belief >= met:
        return Verdict.MET
    return Verdict.UNMET if belief < unmet else Verdict.UNSURE


def _why(verdict: Verdict) -> str:
    return {
        Verdict.MET: "what was seen fits the caption",
        Verdict.UNMET: "something else was seen",
        Verdict.UNSURE: "too close to call",
    }[verdict]
