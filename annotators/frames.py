"""Frames: the pixels of one episode that a run wants, each decoded once and shared by its annotators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ares.episode import Episode
from ares.errors import MediaError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from annotators.base import Seconds


class Frames:
    """Decoded frames by camera and second.

    Args:
        episode: Whose frames.
        wanted: What each annotator of the run wants of it; the union is decoded.
    """

    def __init__(self, episode: Episode, wanted: Sequence[Seconds]) -> None:
        self._episode = episode
        union: dict[str, set[float]] = {}
        for seconds in wanted:
            for camera, instants in seconds.items():
                union.setdefault(camera, set()).update(instants)
        self._wanted = {camera: sorted(instants) for camera, instants in union.items() if instants}
        self._decoded: dict[str, dict[float, NDArray[np.uint8]] | MediaError] = {}

    def decode(self) -> None:
        """Decode what is wanted; what cannot be is raised later, by `at`, to those who ask for that camera."""
        from ares.media.frames import frames_at

        for camera, seconds in self._wanted.items():
            try:
                images = frames_at(self._episode.camera(camera).media, seconds)
            except MediaError as error:
                self._decoded[camera] = error
            else:
                self._decoded[camera] = dict(zip(seconds, images, strict=True))

    def at(self, camera: str, seconds: Sequence[float]) -> NDArray[np.uint8]:
        """(N, H, W, 3) RGB frames shown at these seconds, all of which some annotator must have wanted.

        Raises:
            MediaError: The camera could not be decoded.
        """
        import numpy as np

        decoded = self._decoded[camera]
        if isinstance(decoded, MediaError):
            raise decoded
        return np.stack([decoded[second] for second in seconds])
