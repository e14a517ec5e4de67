"""The frames of one episode that a run needs, each decoded once and shared by its annotators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ares.episode import Episode
from ares.errors import MediaError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Seconds from the start of an episode, by camera name.
CameraSeconds = Mapping[str, Sequence[float]]


class Frames:
    """Decoded frames by camera and second.

    Args:
        episode: The episode whose frames these are.
        requests: The seconds that each annotator of the run needs; their union is decoded.
    """

    def __init__(self, episode: Episode, requests: Sequence[CameraSeconds]) -> None:
        self._episode = episode
        union: dict[str, set[float]] = {}
        for request in requests:
            for camera, seconds in request.items():
                union.setdefault(camera, set()).update(seconds)
        self._seconds = {camera: sorted(seconds) for camera, seconds in union.items() if seconds}
        self._decoded: dict[str, dict[float, NDArray[np.uint8]] | MediaError] = {}

    def decode(self) -> None:
        """Decode the requested frames; the error of a camera that cannot be decoded is raised later, by `at`."""
        from ares.media import frames_at

        for camera, seconds in self._seconds.items():
            try:
                images = frames_at(self._episode.camera(camera).media, seconds)
            except MediaError as error:
                self._decoded[camera] = error
            else:
                self._decoded[camera] = dict(zip(seconds, images, strict=True))

    def at(self, camera: str, seconds: Sequence[float]) -> NDArray[np.uint8]:
        """(N, H, W, 3) RGB frames shown at these seconds, each of which must have been requested.

        Raises:
            MediaError: The camera could not be decoded.
        """
        import numpy as np

        decoded = self._decoded[camera]
        if isinstance(decoded, MediaError):
            raise decoded
        return np.stack([decoded[second] for second in seconds])
