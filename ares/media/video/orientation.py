"""How the frames of a video stand: turned and mirrored by its container or its frames."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from ares.input import open_input, open_video

if TYPE_CHECKING:
    import numpy as np
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream
    from numpy.typing import NDArray


# Offsets of the track number and of the matrix in a tkhd box, by its version.
_TKHD_OFFSETS = {0: (12, 40), 1: (20, 52)}


class Orientation(NamedTuple):
    """How stored pictures are displayed: transposed first, then flipped left to right, then top to bottom."""

    transposed: bool = False
    flipped_horizontally: bool = False
    flipped_vertically: bool = False

    def displayed_size(self, width: int, height: int) -> tuple[int, int]:
        """Displayed width and height of a stored picture."""
        return (height, width) if self.transposed else (width, height)

    def apply(self, frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The displayed picture, (H, W, 3), of a stored one, (H, W, 3) or (W, H, 3)."""
        import numpy as np

        if self == UPRIGHT:
            return frame
        displayed = frame.swapaxes(0, 1) if self.transposed else frame
        displayed = displayed[:, ::-1] if self.flipped_horizontally else displayed
        displayed = displayed[::-1] if self.flipped_vertically else displayed
        return np.ascontiguousarray(displayed)


UPRIGHT = Orientation()


def matrix_orientation(matrix: Sequence[int]) -> Orientation:
    """The orientation of a display matrix, nine numbers by rows, rounded to a quarter turn."""
    # Entries of the upper left 2 x 2 part: where the x axis points, then where the y axis points.
    x_to_x, x_to_y, y_to_x, y_to_y = (int(matrix[number]) for number in (0, 1, 3, 4))
    if abs(x_to_y) > abs(x_to_x):
        return Orientation(True, y_to_x < 0, x_to_y < 0)
    return Orientation(False, x_to_x < 0, y_to_y < 0)


def frame_orientation(frame: VideoFrame) -> Orientation:
    """The orientation stored with a decoded frame."""
    data: Any = frame.side_data.get("DISPLAYMATRIX") if len(frame.side_data) else None
    return UPRIGHT if data is None else matrix_orientation(struct.unpack("=9i", bytes(data)))


def stream_orientation(path: str | Path, container: InputContainer, stream: VideoStream) -> Orientation:
    """The orientation of a video: from the track header of an mp4 or mov, from the first frame of a Matroska file."""
    if "mp4" in container.format.name:
        return _track_orientation(str(path), stream.id)
    if "matroska" in container.format.name:
        return _first_frame_orientation(path, stream.index)
    return UPRIGHT


def _first_frame_orientation(path: str | Path, stream_index: int) -> Orientation:
    import av

    try:
        with open_video(str(path)) as container:
            frame = next(container.decode(container.streams[stream_index]), None)
            return frame_orientation(frame) if isinstance(frame, av.VideoFrame) else UPRIGHT
    except (av.FFmpegError, OSError):
        return UPRIGHT


def _track_orientation(path: str, track_number: int) -> Orientation:
    with open_input(path) as file:
        size = file.seek(0, 2)
        for moov in _find_boxes(file, b"moov", 0, size):
            for track in _find_boxes(file, b"trak", *moov):
                for start, stop in _find_boxes(file, b"tkhd", *track):
                    file.seek(start)
                    header = _parse_track_header(file.read(stop - start))
                    if header and header[0] == track_number:
                        return matrix_orientation(header[1])
    return UPRIGHT


def _parse_track_header(body: bytes) -> tuple[int, tuple[int, ...]] | None:
    """Number and display matrix of a track."""
    number_offset, matrix_offset = _TKHD_OFFSETS.get(body[0] if body else -1, (0, 0))
    if not number_offset or len(body) < matrix_offset + 36:
        return None
    return struct.unpack_from(">I", body, number_offset)[0], struct.unpack_from(">9i", body, matrix_offset)


def _find_boxes(file: BinaryIO, kind: bytes, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the byte range [start, stop) of the content of each box of a kind between two bytes of the file."""
    while start + 8 <= stop:
        file.seek(start)
        size, name = struct.unpack(">I4s", file.read(8).ljust(8, b"\0"))
        header_bytes = 8
        if size == 1:
            size, header_bytes = struct.unpack(">Q", file.read(8).ljust(8, b"\0"))[0], 16
        size = stop - start if size == 0 else size
        if size < header_bytes:
            return
        if name == kind:
            yield start + header_bytes, min(start + size, stop)
        start += size
