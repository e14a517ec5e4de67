"""The frames of one episode that a run needs, each decoded once and shared by its annotators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ares.episode import Camera, Episode
from ares.errors import MediaError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Seconds from the start of an episode, by camera name.
CameraSeconds = Mapping[str, Sequence[float]]


def unite_requests(requests: Iterable[CameraSeconds]) -> dict[str, list[float]]:
    """The sorted seconds of several requests, by camera."""
    union: dict[str, set[float]] = {}
    for request in requests:
        for camera, seconds in request.items():
            union.setdefault(camera, set()).update(seconds)
    return {camera: sorted(seconds) for camera, seconds in union.items() if seconds}


class Frames:
    """Decoded frames by camera and second.

    Args:
        episode: The episode whose frames these are.
        requests: The seconds that each annotator of the run needs; their union is decoded.
        stamps: (T,) stamps of the steps; needed where `ares.clock.needs_stamps` says so.
    """

    def __init__(
        self,
        episode: Episode,
        requests: Sequence[CameraSeconds],
        stamps: NDArray[np.float64] | None = None,
    ) -> None:
        self._episode, self._stamps = episode, stamps
        self._seconds = unite_requests(requests)
        self._decoded: dict[str, dict[float, NDArray[np.uint8]] | MediaError] = {}

    @property
    def requested(self) -> CameraSeconds:
        """The seconds that can be read, by camera."""
        return self._seconds

    @property
    def is_changed(self) -> bool:
        """Whether they are other frames than those of the episode, to see what a judge makes of them."""
        return False

    def missing(self, request: CameraSeconds) -> CameraSeconds:
        """The part of a request that cannot be read here."""
        missing = {
            camera: sorted(set(seconds) - set(self.requested.get(camera, ())))
            for camera, seconds in request.items()
        }
        return {camera: seconds for camera, seconds in missing.items() if seconds}

    def undecoded(self) -> Frames:
        """The same frames, not decoded."""
        return Frames(self._episode, [self._seconds], self._stamps)

    def decode(self) -> None:
        """Decode the requested frames; the error of a camera that cannot be decoded is raised later, by `at`."""
        from ares.media import frames_at

        for name, seconds in self._seconds.items():
            camera = self._episode.camera(name)
            try:
                images = frames_at(camera.media, self._shown_seconds(camera, seconds))
            except MediaError as error:
                self._decoded[name] = error
            else:
                self._decoded[name] = dict(zip(seconds, images, strict=True))

    def release(self) -> None:
        """Forget the pixels; frames that are read again are decoded again."""
        self._decoded = {}

    def _shown_seconds(self, camera: Camera, seconds: Sequence[float]) -> Sequence[float]:
        from ares.clock import camera_seconds

        stamps = self._stamps
        return seconds if stamps is None else camera_seconds(self._episode, camera, seconds, lambda: stamps)

    def at(self, camera: str, seconds: Sequence[float]) -> NDArray[np.uint8]:
        """(N, H, W, 3) RGB frames shown at these seconds, each of which must have been requested.

        Raises:
            MediaError: The camera could not be decoded.
        """
        import numpy as np

        if not self._decoded:
            self.decode()
        decoded = self._decoded[camera]
        if isinstance(decoded, MediaError):
            raise decoded
        return np.stack([decoded[second] for second in seconds])


class LayeredFrames(Frames):
    """Frames of which some were requested later than others: those of a segment that the same run has made.

    Args:
        first: The frames that were requested first.
        later: The others.
    """

    def __init__(self, first: Frames, later: Frames) -> None:
        self._first, self._later = first, later

    @property
    def requested(self) -> CameraSeconds:
        """The seconds that can be read, by camera."""
        first, later = self._first.requested, self._later.requested
        return {camera: [*first.get(camera, ()), *later.get(camera, ())] for camera in {*first, *later}}

    def undecoded(self) -> Frames:
        """The same frames, not decoded."""
        return LayeredFrames(self._first.undecoded(), self._later.undecoded())

    def decode(self) -> None:
        """Decode what was requested later; the rest has been decoded."""
        self._later.decode()

    def release(self) -> None:
        """As `Frames.release`."""
        self._first.release()
        self._later.release()

    def at(self, camera: str, seconds: Sequence[float]) -> NDArray[np.uint8]:
        """As `Frames.at`."""
        import numpy as np

        is_later = set(self._later.requested.get(camera, ()))
        images = [
            (self._later if second in is_later else self._first).at(camera, [second])[0] for second in seconds
        ]
        return np.stack(images)
