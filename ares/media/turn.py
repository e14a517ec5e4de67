"""Turn: how the stored pictures of a video are turned to stand as a person sees them."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from ares import files
from ares.media.container import open_container

if TYPE_CHECKING:
    import numpy as np
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream
    from numpy.typing import NDArray

# Where the matrix and the number of the track stand in a tkhd box, by its version.
_TRACK = {0: (12, 40), 1: (20, 52)}


class Turn(NamedTuple):
    """Rows and columns swapped first, then mirrored left to right, then top to bottom."""

    swapped: bool = False
    mirrored: bool = False
    upside_down: bool = False

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Width and height as a person sees them."""
        return (height, width) if self.swapped else (width, height)

    def upright(self, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The picture, (H, W, 3) or (W, H, 3) as stored, as a person sees it."""
        import numpy as np

        if self == UPRIGHT:
            return picture
        turned = picture.swapaxes(0, 1) if self.swapped else picture
        turned = turned[:, ::-1] if self.mirrored else turned
        turned = turned[::-1] if self.upside_down else turned
        return np.ascontiguousarray(turned)


UPRIGHT = Turn()


def of_matrix(matrix: Sequence[int]) -> Turn:
    """The turn of a display matrix, nine numbers by rows; to the nearest quarter."""
    across, down, leftwards, upright = (int(matrix[place]) for place in (0, 1, 3, 4))
    if abs(down) > abs(across):
        return Turn(True, leftwards < 0, down < 0)
    return Turn(False, across < 0, upright < 0)


def of_frame(frame: VideoFrame) -> Turn:
    """The turn that comes with a decoded frame."""
    data: Any = frame.side_data.get("DISPLAYMATRIX") if len(frame.side_data) else None
    return UPRIGHT if data is None else of_matrix(struct.unpack("=9i", bytes(data)))


def of_stream(path: str | Path, container: InputContainer, stream: VideoStream) -> Turn:
    """The turn of a video, from the box of its track in an mp4 or mov, from the first frame of a Matroska file."""
    if "mp4" in container.format.name:
        return _of_track(str(path), stream.id)
    return _of_first_frame(path, stream.index) if "matroska" in container.format.name else UPRIGHT


def _of_first_frame(path: str | Path, index: int) -> Turn:
    import av

    try:
        with open_container(str(path)) as container:
            frame = next(container.decode(container.streams[index]), None)
            return of_frame(frame) if isinstance(frame, av.VideoFrame) else UPRIGHT
    except (av.FFmpegError, OSError):
        return UPRIGHT


def _of_track(path: str, number: int) -> Turn:
    with files.opened(path) as file:
        size = file.seek(0, 2)
        for moov in _boxes(file, b"moov", 0, size):
            for track in _boxes(file, b"trak", *moov):
                for start, stop in _boxes(file, b"tkhd", *track):
                    file.seek(start)
                    found = _header(file.read(stop - start))
                    if found and found[0] == number:
                        return of_matrix(found[1])
    return UPRIGHT


def _header(body: bytes) -> tuple[int, tuple[int, ...]] | None:
    """Number and display matrix of a track."""
    number, matrix = _TRACK.get(body[0] if body else -1, (0, 0))
    if not number or len(body) < matrix + 36:
        return None
    return struct.unpack_from(">I", body, number)[0], struct.unpack_from(">9i", body, matrix)


def _boxes(file: BinaryIO, kind: bytes, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Where the boxes of a kind that lie between two bytes begin and end, without their headers."""
    while start + 8 <= stop:
        file.seek(start)
        size, name = struct.unpack(">I4s", file.read(8).ljust(8, b"\0"))
        header = 8
        if size == 1:
            size, header = struct.unpack(">Q", file.read(8).ljust(8, b"\0"))[0], 16
        size = stop - start if size == 0 else size
        if size < header:
            return
        if name == kind:
            yield start + header, min(start + size, stop)
        start += size
