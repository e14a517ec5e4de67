"""CLIP answers enums: each choice is a text, and the frames say which is the nearest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ares.annotation import Cost, short_hash
from ares.errors import AresError, MediaError
from ares_annotators.attributes.answers import AnsweredFields, AttributeAnswer
from ares_annotators.attributes.fields import AttributeField
from ares_annotators.base import Preflight, Subject, Work
from ares_annotators.caption import compute_even_seconds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json
    from ares_annotators.base import CameraSeconds
    from ares_annotators.models import NamedEncoder


_FRAMES, _CITED = 8, 4
# The scale of similarities with which models of the CLIP family are trained.
_LOGIT_SCALE = 100.0


class ClipAnswers:
    """Answers by CLIP, which costs nothing but time.

    An answer is the choice that most frames are nearest to; without such a one it cannot be told.

    Args:
        encoder: The model.
        fields: Enums about frames.
        camera: Camera name, or "" for all good ones.
    """

    batch_size = workers = 1
    call_limit = None

    def __init__(self, encoder: NamedEncoder, fields: Sequence[AttributeField], camera: str) -> None:
        self._encoder, self._fields, self._camera = encoder, fields, camera
        self.name = self.family = f"clip:{encoder.name}"
        self.prompt_hash = short_hash([text for item in fields for text in _choice_texts(item)])
        self.settings: dict[str, Json] = {"frames": _FRAMES}
        self._texts: dict[str, NDArray[np.float32]] = {}

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """Frames over the episode of every camera."""
        return {
            camera.name: compute_even_seconds(camera, _FRAMES, subject=subject)
            for camera in subject.episode.good_cameras
            if self._camera in ("", camera.name)
        }

    def preflight(self) -> Preflight:
        """Nothing: its encoder was loaded."""
        return Preflight()

    def estimate(self, subject: Subject) -> Cost:
        """A cost of nothing but time."""
        return Cost()

    def answer(self, works: Sequence[Work]) -> list[AnsweredFields | AresError]:
        """The answers of each work."""
        return [self._answer(work) for work in works]

    def _answer(self, work: Work) -> AnsweredFields | AresError:
        by_camera = self.select_frames(work.subject)
        if not by_camera:
            return MediaError("episode has no such camera", f"{self._camera or 'any'!r}")
        try:
            images = [image for name, seconds in by_camera.items() for image in work.frames.at(name, seconds)]
        except MediaError as error:
            return error
        shown = [second for seconds in by_camera.values() for second in seconds]
        return self._compare(self._encoder.encode_images(images), shown)

    def _compare(self, vectors: NDArray[np.float32], seconds: Sequence[float]) -> AnsweredFields:
        import numpy as np

        is_first = np.asarray(seconds) == min(seconds)
        answers = {}
        for item in self._fields:
            rows = np.flatnonzero(is_first) if item.about == "first_frame" else np.arange(len(seconds))
            logits = _LOGIT_SCALE * vectors[rows] @ self._text_vectors(item).T
            shares = np.exp(logits - logits.max(axis=1, keepdims=True))
            shares /= shares.sum(axis=1, keepdims=True)
            votes = np.bincount(shares.argmax(axis=1), minlength=len(item.choices))
            best = int(votes.argmax())
            is_clear = 2 * votes[best] > len(rows)
            nearest = rows[np.argsort(-shares[:, best], kind="stable")[:_CITED]]
            answers[item.name] = AttributeAnswer(
                value=list(item.choices)[best] if is_clear else None,
                seconds=tuple(sorted({seconds[row] for row in nearest})),
                confidence=float(shares[:, best].mean()),
            )
        return AnsweredFields(answers=answers)

    def _text_vectors(self, item: AttributeField) -> NDArray[np.float32]:
        """(N, D) unit vectors of the N choices of a field."""
        if item.name not in self._texts:
            self._texts[item.name] = self._encoder.encode_texts(_choice_texts(item))
        return self._texts[item.name]


def _choice_texts(item: AttributeField) -> list[str]:
    """What each choice of a field looks like, in words."""
    words = item.name.replace("_", " ")
    return [
        f"a photo of {meaning}" if meaning != choice else f"a photo of a robot, {words}: {choice}"
        for choice, meaning in item.choices.items()
    ]
