"""The demo's judge of a simulation: whether the caption is the phrase of a given list that fits the frames best.

It distinguishes only what is on its list, and by similarity alone. On recordings of real robots it was not measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ares.annotation import Cost, Producer, short_hash
from ares.episode import Json
from ares.errors import AresError, MediaError, RequestError
from ares.rubric import Criterion, Rubric, Ruling, Verdict, normalize_caption
from ares_annotators.base import CameraSeconds, Preflight, Subject, Work
from ares_annotators.caption import compute_even_seconds
from ares_annotators.grade.judge import GradeCase, Judgement

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares_annotators.models import NamedEncoder


LABEL = "demo judge of a simulation"
CONTENT, OUTCOME = "CONTENT", "OUTCOME"
# Cosine by which the caption must lead the next phrase, or lag behind the first; chosen by benchmarks/grading.py.
MARGIN = 0.03
_FRAMES = 8
_TEMPLATE = "a robot arm trying to {}"
_BATCH_SIZE = 8
_LEAST_CANDIDATES = 2


class ClipJudge:
    """Similarity of CLIP to phrases; fills the protocol `ares_annotators.grade.judge.Judge`.

    A caption that is no candidate phrase is UNSURE. Compared as a further one, it would lose to the phrase that says
    the same in other words, or win over it by the choice of words; no measurement covers either.

    Args:
        encoder: The model.
        candidates: The phrases, see `read_candidate_phrases`.
        camera: Camera name, or "" for the mean over every good one.
    """

    batch_size = _BATCH_SIZE
    workers = 1
    call_limit = None
    vlm = None
    prompt_hash = short_hash([_TEMPLATE])
    observation_producers: Sequence[Producer] = ()

    def __init__(self, encoder: NamedEncoder, candidates: Sequence[str], camera: str) -> None:
        self._encoder, self._camera = encoder, camera
        self._candidates = list(dict.fromkeys(normalize_caption(phrase).phrase for phrase in candidates))
        self.family = f"clip:{encoder.name}"
        self.name = f"{LABEL} ({self.family})"
        self.settings: dict[str, Json] = {
            "label": LABEL,
            "candidates": short_hash(list[Json](self._candidates)),
            "frames": _FRAMES,
            "margin": MARGIN,
        }

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """Frames over the span of a subject, of every good camera or of the configured one."""
        return {
            camera.name: compute_even_seconds(camera, _FRAMES, subject=subject)
            for camera in subject.episode.good_cameras
            if not self._camera or camera.name == self._camera
        }

    def preflight(self) -> Preflight:
        """Nothing: its encoder was loaded, and costs nothing."""
        return Preflight(warnings=[f"{self.name}: its grades say nothing about real robots"])

    def expect_cost(self, subject: Subject) -> Cost:
        """Nothing but time."""
        return Cost()

    def judge(self, cases: Sequence[GradeCase]) -> Sequence[Judgement | AresError]:
        """Rulings; frames that several cases share are encoded once."""
        works = {(id(case.work.frames), case.work.subject.id): case.work for case in cases}
        fits = {key: self.fit_phrases(work) for key, work in works.items()}
        return [self._judge_case(case, fits[id(case.work.frames), case.work.subject.id]) for case in cases]

    def _judge_case(self, case: GradeCase, fit: NDArray[np.float32] | MediaError) -> Judgement | MediaError:
        if isinstance(fit, MediaError):
            return fit
        return Judgement(rulings=[self._rule_criterion(item, case, fit) for item in case.criteria])

    def fit_phrases(self, work: Work) -> NDArray[np.float32] | MediaError:
        """(N,) mean cosine of the candidate phrases with the frames, each camera counting as much as another."""
        import numpy as np

        selected = self.select_frames(work.subject)
        if not selected:
            return MediaError("episode has no such camera", f"{self._camera or 'any'!r}")
        try:
            views = [
                self._encoder.encode_images(list(work.frames.at(name, seconds))).mean(axis=0)
                for name, seconds in selected.items()
            ]
        except MediaError as error:
            return error
        similarities: NDArray[np.float32] = self._texts @ np.mean(views, axis=0)
        return similarities

    @cached_property
    def _texts(self) -> NDArray[np.float32]:
        """(N, D) unit vectors of the candidate phrases."""
        return self._encoder.encode_texts([_TEMPLATE.format(phrase) for phrase in self._candidates])

    def _rule_criterion(
        self, criterion: Criterion, case: GradeCase, similarities: NDArray[np.float32]
    ) -> Ruling:
        """CONTENT by the frames; an outcome that the stored success leaves open stays open."""
        open_ruling = Ruling(
            criterion=criterion.id,
            verdict=Verdict.UNSURE,
            source="probe",
            judge=self.name,
            reason="no stored success says how this action ended",
        )
        if criterion.id != CONTENT:
            return open_ruling
        verdict, reason = self._compare_phrase(case.phrase, similarities)
        seconds = chain.from_iterable(self.select_frames(case.work.subject).values())
        observed = self._candidates[int(similarities.argmax())]
        evidence = tuple(sorted({*seconds}))
        return replace(open_ruling, verdict=verdict, reason=reason, observed=observed, evidence=evidence)

    def lead(self, phrase: str, similarities: NDArray[np.float32]) -> float | None:
        """Cosine by which a phrase fits better than the best of the others; None where it is no candidate phrase."""
        if phrase not in self._candidates:
            return None
        claimed = self._candidates.index(phrase)
        values: list[float] = similarities.tolist()
        return values[claimed] - max(value for index, value in enumerate(values) if index != claimed)

    def _compare_phrase(self, phrase: str, similarities: NDArray[np.float32]) -> tuple[Verdict, str]:
        lead = self.lead(phrase, similarities)
        if lead is None:
            return Verdict.UNSURE, "caption is no candidate phrase"
        if lead >= MARGIN:
            return Verdict.MET, "no other candidate phrase fits the frames as well"
        if lead <= -MARGIN:
            return Verdict.UNMET, "another candidate phrase fits the frames better"
        return Verdict.UNSURE, "too close to another candidate phrase"


def read_candidate_phrases(file: str) -> list[str]:
    """The phrases of a text file, one a line.

    Raises:
        RequestError: No file is given, it cannot be read, or it has fewer than two phrases.
    """
    if not file:
        raise RequestError(
            f"a clip judge is the {LABEL} and needs candidate phrases",
            "give --candidates FILE with one phrase a line; for real recordings give a judge hf:... or openai:...",
        )
    try:
        lines = Path(file).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError("candidate phrases cannot be read", f"{file}: {error}") from None
    phrases = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if len(phrases) < _LEAST_CANDIDATES:
        raise RequestError("too few candidate phrases", f"{file} has {len(phrases)}; give two or more")
    return phrases


def check_clip_judge_rubric(rubric: Rubric) -> None:
    """Raises RequestError where a rubric asks a clip judge for more than CONTENT and OUTCOME."""
    judged = {criterion.id for criterion in rubric.criteria if criterion.slot or criterion.claim}
    strange = sorted(judged - {CONTENT, OUTCOME})
    if strange:
        raise RequestError(
            f"a clip judge rules on {CONTENT} and {OUTCOME} alone",
            f"rubric {rubric.id!r} has {strange[0]}; give --rubric simulation, or a judge hf:... or openai:...",
        )
