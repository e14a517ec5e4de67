"""Which frames of an episode are embedded: so many a second, every K-th, or those that differ from the one before."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator

from annotators.frames import CameraSeconds
from ares.clock import shown_rate_hz
from ares.episode import Camera, Episode, Json
from ares.errors import RequestError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT = "auto"
_RATE_HZ, _MIN_FRAMES, _MAX_FRAMES = 1.0, 4, 240
# Frames of one camera are in memory together: 1,000 of 1080p take 6 GB.
_MOST_FRAMES = 1_000
_CHANGE_RATE_HZ = 4.0
_NUMBER = r"\d{1,6}(?:\.\d{1,6})?"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSampling:
    """How frames are sampled.

    Attributes:
        name: "auto", "rate:HZ", "every:K" or "change:D".
        rate_hz: Frames per second, or None for every K-th.
        step: K, the distance of the frames in frames.
        min_change: Smallest cosine distance between vectors that are kept, or 0 to keep all.
        min_frames: Fewest frames of a camera.
        max_frames: Most frames of a camera.
    """

    name: str
    rate_hz: float | None = None
    step: int = 1
    min_change: float = 0.0
    min_frames: int = 1
    max_frames: int = _MOST_FRAMES

    def maker_settings(self) -> dict[str, Json]:
        """What makes another maker; the default has the settings that it has always had."""
        if self.name == DEFAULT:
            return {"rate_hz": self.rate_hz, "fewest": self.min_frames, "most": self.max_frames}
        return {"sample": self.name, "most": self.max_frames}

    def seconds(self, episode: Episode, camera: str = "") -> CameraSeconds:
        """Seconds per good camera, or of one, spread over [0, duration)."""
        cameras = [candidate for candidate in episode.good_cameras if not camera or candidate.name == camera]
        return {selected.name: self._camera_seconds(episode, selected) for selected in cameras}

    def kept_rows(self, vectors: NDArray[np.float32]) -> NDArray[np.int64]:
        """Rows of the unit vectors (N, D) of one camera that are kept: the first, and each that differs enough."""
        import numpy as np

        if self.min_change <= 0:
            return np.arange(len(vectors))
        kept: list[int] = []
        for row in range(len(vectors)):
            if not kept or 1.0 - float(vectors[row] @ vectors[kept[-1]]) >= self.min_change:
                kept.append(row)
        return np.asarray(kept, np.int64)

    def _camera_seconds(self, episode: Episode, camera: Camera) -> list[float]:
        frame_rate_hz, frames = shown_rate_hz(episode, camera), camera.media.num_frames
        if self.rate_hz is None and math.ceil(frames / self.step) <= self.max_frames:
            # The middle of each frame: its edges belong to its neighbours up to rounding.
            return [round((number + 0.5) / frame_rate_hz, 6) for number in range(0, frames, self.step)]
        duration = frames / frame_rate_hz
        rate_hz = frame_rate_hz / self.step if self.rate_hz is None else self.rate_hz
        count = min(max(math.ceil(duration * rate_hz), self.min_frames), self.max_frames)
        # The middles of equal parts: the still scene before and after the action gets no extra vector.
        return [round(duration * (part + 0.5) / count, 6) for part in range(count)]


def parse_sampling(text: str) -> FrameSampling:
    """Read "auto", "rate:HZ", "every:K" or "change:D". Raises RequestError for anything else."""
    kind, _, value = text.partition(":")
    number = float(value) if re.fullmatch(_NUMBER, value) else 0.0
    if text == DEFAULT:
        return FrameSampling(name=text, rate_hz=_RATE_HZ, min_frames=_MIN_FRAMES, max_frames=_MAX_FRAMES)
    if kind == "rate" and number > 0:
        return FrameSampling(name=text, rate_hz=number)
    if kind == "every" and number >= 1 and number.is_integer():
        return FrameSampling(name=text, step=int(number))
    if kind == "change" and 0 < number < 2:
        return FrameSampling(name=text, rate_hz=_CHANGE_RATE_HZ, min_change=number)
    raise RequestError(
        f"no sampling {text!r}",
        "there are: auto, rate:HZ, every:K with a whole number K, change:D with a cosine distance D below 2",
    )


def _check_sampling(text: str) -> str:
    return parse_sampling(text).name


# A sampling in the options of an annotator, checked by `parse_sampling`.
SamplingName = Annotated[str, AfterValidator(_check_sampling)]
