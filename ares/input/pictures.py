"""Images and videos of foreign datasets, whose pixels are bounded by their headers before anything is decoded."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.errors import MediaError, SourceError
from ares.input.files import open_input, prepare_input_file
from ares.input.limits import input_budgets
from ares.io import is_url

if TYPE_CHECKING:
    import numpy as np
    from av.container import InputContainer
    from numpy.typing import NDArray


_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_JPEG_START = b"\xff\xd8"
_JPEG_END, _PNG_END = b"\xff\xd9", b"IEND"
# Some recorders pad pictures behind their end.
_TAIL_BYTES = 4096
# Markers of JPEG frame headers (SOF0 to SOF15 without the tables DHT, JPG and DAC).
_FRAME_HEADERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_MARKERS_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})
# Containers of single files; playlists (hls, dash, concat) and network protocols would open other files.
_CONTAINERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpeg,mpegts,mpegvideo,flv,asf,ogg,h264,hevc,av1,obu,ivf,m4v,gif,"
    "mjpeg,dv,mxf,nut,rm,yuv4mpegpipe,vc1,wtv"
)


class ImageInfo(NamedTuple):
    """Width and height in pixels, and the codec: "jpeg", "png", "raw", or the codec of a video."""

    width: int
    height: int
    codec: str


def parse_image_header(data: bytes) -> ImageInfo | None:
    """Size and codec of a JPEG or PNG from its header; None for other data.

    Pillow takes ten times as long.
    """
    if data[:8] == _PNG_SIGNATURE and len(data) >= 24:
        width, height = struct.unpack_from(">II", data, 16)
        return ImageInfo(width, height, "png")
    return _parse_jpeg_header(data) if data[:2] == _JPEG_START else None


def _parse_jpeg_header(data: bytes) -> ImageInfo | None:
    start = 2
    while start + 9 <= len(data) and data[start] == 0xFF:
        marker = data[start + 1]
        if marker in _FRAME_HEADERS:
            height, width = struct.unpack_from(">HH", data, start + 5)
            return ImageInfo(width, height, "jpeg")
        start += _segment_bytes(data, start, marker)
    return None


def _segment_bytes(data: bytes, start: int, marker: int) -> int:
    """Bytes from a marker to the next one; 0xFF in front of a marker is padding."""
    if marker == 0xFF:
        return 1
    return 2 if marker in _MARKERS_WITHOUT_LENGTH else 2 + int.from_bytes(data[start + 2 : start + 4])


def is_cut_image(data: bytes) -> bool:
    """Whether a JPEG or PNG ends before its last pixel; one without an end marker is decoded to tell."""
    end = _JPEG_END if data[:2] == _JPEG_START else _PNG_END if data[:8] == _PNG_SIGNATURE else b""
    if end in data[-_TAIL_BYTES:]:
        return False
    from PIL import Image

    try:
        Image.open(io.BytesIO(data)).load()
    except (OSError, SyntaxError, ValueError):
        return True
    return False


def check_pixels(width: int, height: int, where: str) -> None:
    """Check the size of an image or video, before it is decoded. Raises SourceError."""
    if width * height > input_budgets().pixels:
        raise SourceError(
            "picture has more pixels than allowed",
            f"{where}: {width} x {height}; the limit is {input_budgets().pixels} (ARES_MAX_MEGAPIXELS)",
        )


def decode_deep_image(data: bytes, where: str) -> NDArray[Any]:
    """(H, W) or (H, W, C) of an encoded image with the bits that it has. Raises SourceError naming `where`."""
    import cv2
    import numpy as np

    _check_header(data, where)
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED) if data else None
    except (cv2.error, MemoryError) as error:
        raise SourceError(
            "image cannot be decoded", f"{where}: {' '.join(str(error).split())[:200]}"
        ) from None
    if image is None:
        raise SourceError("image cannot be decoded", where)
    return image


def decode_image(data: bytes, where: str) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 RGB of an encoded image.

    Raises MediaError naming `where`: it cannot be decoded, or its header gives more pixels than allowed.
    """
    import cv2
    import numpy as np

    try:
        _check_header(data, where)
        if is_cut_image(data):
            raise MediaError("image is cut", where)
        flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
        image = cv2.imdecode(np.frombuffer(data, np.uint8), flags) if data else None
    except SourceError as error:
        raise MediaError(error.reason, error.detail) from None
    except (cv2.error, MemoryError) as error:
        text = " ".join(str(error).split())[:200]
        raise MediaError("image cannot be decoded", f"{where}: {text}") from None
    if image is None:
        raise MediaError("image cannot be decoded", where)
    rgb: NDArray[np.uint8] = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)  # type: ignore[assignment]
    return rgb


def _check_header(data: bytes, where: str) -> None:
    """Check the pixels of an image of any kind. Raises SourceError."""
    info = parse_image_header(data)
    if info is not None:
        check_pixels(info.width, info.height, where)
    elif data:
        check_pixels(*_pillow_size(data, where), where)


def _pillow_size(data: bytes, where: str) -> tuple[int, int]:
    """Width and height of an image that is neither JPEG nor PNG. Raises SourceError for no image."""
    import io
    import warnings

    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's own limit of pixels is a warning
            with Image.open(io.BytesIO(data)) as image:
                return image.size
    except Image.DecompressionBombError as error:
        raise SourceError("picture has more pixels than allowed", f"{where}: {error}") from None
    except Exception as error:  # plug-ins of Pillow raise almost anything for damaged data
        raise SourceError("image cannot be decoded", f"{where}: {type(error).__name__}") from None


def open_video(path: str) -> InputContainer:
    """A video file or URL, open for reading: one file, no playlist; of a URL only the needed blocks are fetched.

    Raises SourceError for a file that may not be opened or whose header gives more pixels than allowed, what PyAV
    raises, and OSError.
    """
    import av

    options = {"format_whitelist": _CONTAINERS}
    if is_url(path):
        # FFmpeg's own clients of object stores have no access to the credentials.
        return _limit_pixels(av.open(open_input(path), "r", options=options), path)
    prepare_input_file(path)
    options["protocol_whitelist"] = "file"
    return _limit_pixels(av.open(path, "r", options=options), path)


def _limit_pixels(container: InputContainer, path: str) -> InputContainer:
    """Check the size that the header gives, and let decoders refuse frames that are larger than allowed."""
    try:
        for stream in container.streams.video:
            context = getattr(stream, "codec_context", None)
            if context is None:  # of a codec that is not known
                continue
            check_pixels(context.width, context.height, path)
            context.options = {"max_pixels": str(input_budgets().pixels)}
    except SourceError:
        container.close()
        raise
    return container
