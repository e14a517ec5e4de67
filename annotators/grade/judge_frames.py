"""The frames that a vision-language judge gets of a work: one camera, in one layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from annotators.base import Subject, Work
from annotators.caption import FrameLayout, select_frame_seconds
from annotators.frames import CameraSeconds
from annotators.models import ReadableImages
from ares.errors import AresError, MediaError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeImages:
    """Images of a work.

    Attributes:
        camera: The camera.
        seconds: Seconds of the frames.
        images: The images that the layout makes of them.
    """

    camera: str
    seconds: Sequence[float]
    images: Sequence[NDArray[np.uint8]]


@dataclass(frozen=True, slots=True)
class JudgeFrames:
    """Which frames a judge gets, and how they are arranged.

    Attributes:
        layout: How frames are arranged.
        camera: Camera name, or "" for the best one.
    """

    layout: FrameLayout
    camera: str

    def select(self, subject: Subject) -> CameraSeconds:
        """The frames that the layout takes; none without such a camera."""
        return select_frame_seconds(subject, self.camera, self.layout.count)

    def read(self, work: Work) -> JudgeImages | AresError:
        """The images of a work, which can be released and read again."""
        selected = self.select(work.subject)
        if not selected:
            return MediaError("episode has no such camera", f"{self.camera or 'any'!r}")
        (camera, seconds), *_ = selected.items()
        try:
            images = ReadableImages(
                lambda: self.layout.arrange(work.frames.at(camera, seconds)), work.release_frames
            )
        except MediaError as error:
            return error
        return JudgeImages(camera=camera, seconds=seconds, images=images)

    def read_pixels(self, work: Work) -> NDArray[np.uint8] | AresError:
        """(N, H, W, 3) frames of a work as they are, before they are arranged."""
        (camera, seconds), *_ = self.select(work.subject).items()
        try:
            return work.frames.at(camera, seconds)
        except MediaError as error:
            return error
