"""Decodes the frames of a run in the workers of an engine, where the pixels may stay until an annotator reads them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ares.errors import AresError, MediaError
from ares.jobs import BatchFunction, Engine, PoolRequest, WorkerPool
from ares_annotators.base import CameraSeconds, Frames

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


PutFrames = Callable[[Frames], Callable[[], Frames | None]]


def open_decoder_pool(engine: Engine, readers: int, num_annotators: int) -> WorkerPool[Frames, Frames]:
    """A pool of workers that decode frames for so many annotators."""
    return engine.pool(
        PoolRequest(
            _decode_batch,
            max_workers=readers,
            on_worker_death=MediaError,
            build=partial(_build_decoder, engine.put),
            share=1 / (num_annotators + 1),
        )
    )


def make_failing_frames(frames: Frames, error: AresError) -> Frames:
    """Frames that raise the error of their decoding when they are read."""
    return RemoteFrames(frames, partial(_raise_error, error))


def _decode_batch(batch: Sequence[Frames]) -> Sequence[Frames | AresError]:
    for frames in batch:
        frames.decode()
    return batch


def _build_decoder(put: PutFrames) -> BatchFunction[Frames, Frames]:
    """A function that decodes on a worker and leaves the pixels there: only a reference goes back to the driver."""

    def decode(batch: Sequence[Frames]) -> Sequence[Frames | AresError]:
        references: list[Frames | AresError] = []
        for frames in batch:
            undecoded = copy.deepcopy(frames)
            frames.decode()
            references.append(RemoteFrames(undecoded, put(frames)))
        return references

    return decode


def _raise_error(error: AresError) -> Frames | None:
    raise error


class RemoteFrames(Frames):
    """Frames whose pixels stay on a worker until an annotator reads them.

    Args:
        frames: The same frames, not decoded.
        fetch: Returns them decoded, or None when they are lost; then they are decoded again.
    """

    def __init__(self, frames: Frames, fetch: Callable[[], Frames | None]) -> None:
        self._frames, self._fetch = frames, fetch
        self._local: Frames | None = None

    @property
    def requested(self) -> CameraSeconds:
        """The seconds that can be read, by camera."""
        return self._frames.requested

    def __reduce__(self) -> tuple[type[RemoteFrames], tuple[Frames, Callable[[], Frames | None]]]:
        """Without the pixels that were fetched here: another worker fetches them itself."""
        return RemoteFrames, (self._frames, self._fetch)

    def elsewhere(self, request: CameraSeconds) -> Frames:
        """As `Frames.elsewhere`."""
        return self._frames.elsewhere(request)

    def decode(self) -> None:
        """Fetch the pixels. Raises MediaError."""
        self._local = self._fetch()
        if self._local is None:
            self._frames.decode()
            self._local = self._frames

    def release(self) -> None:
        """Forget the pixels; frames that are read again are fetched again."""
        self._local = None
        self._frames.release()

    def at(self, camera: str, seconds: Sequence[float]) -> NDArray[np.uint8]:
        """As `Frames.at`."""
        if self._local is None:
            self.decode()
        assert self._local is not None
        return self._local.at(camera, seconds)
