"""Images of the messages of a recording: their kinds, sizes and codecs, and their pixels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from ares.errors import MediaError, SourceError
from ares.input import ImageInfo, decode_image, parse_image_header

if TYPE_CHECKING:
    import numpy as np
    from av.video.frame import VideoFrame
    from numpy.typing import NDArray


ImageKind = Literal["encoded", "raw", "video"]
_KINDS: dict[str, ImageKind] = {"CompressedImage": "encoded", "CompressedVideo": "video"}
_PACKAGES = frozenset({"sensor_msgs", "foxglove", "foxglove_msgs"})
_RAW = frozenset({"sensor_msgs/Image", "foxglove/RawImage", "foxglove_msgs/RawImage"})
_CHANNELS = {"rgb8": 3, "bgr8": 3, "mono8": 1}
_CODECS = {"h264": "h264", "h265": "hevc", "hevc": "hevc", "av1": "av1"}
_DECODERS = {"h264": "h264", "hevc": "hevc", "av1": "libdav1d"}
# Types of open bitstream units: the sequence header, and those that carry a frame.
_AV1_SEQUENCE_HEADER = 1
_AV1_FRAMES = (3, 6)
_DEPTH_FORMATS = ("16uc1", "32fc1", "compresseddepth")


def message_type(schema: str) -> str:
    """Package and message of a schema name: "sensor_msgs/Image" for "sensor_msgs/msg/Image"."""
    parts = schema.replace(".", "/").split("/")
    return f"{parts[0]}/{parts[-1]}"


def classify_image_message(schema: str) -> ImageKind | None:
    """How messages of a schema hold an image, or None when they hold none."""
    name = message_type(schema)
    package, _, message = name.partition("/")
    if name in _RAW:
        return "raw"
    return _KINDS.get(message) if package in _PACKAGES else None


def settle_image_kind(kind: ImageKind, message: Any) -> ImageKind:
    """How a decoded message holds its image: a CompressedImage may hold a frame of a video."""
    return "video" if kind == "encoded" and video_codec(message) else kind


def list_image_message_fields(kind: ImageKind) -> Mapping[str, type]:
    """The fields of an image message, for `require_fields`."""
    if kind == "raw":
        return {"encoding": str, "width": int, "height": int, "step": int, "data": bytes}
    return {"format": str, "data": bytes}


def image_message_info(kind: ImageKind, message: Any) -> ImageInfo:
    """Size and codec of the image of a message; the first frame of a video is decoded to get its size.

    Raises SourceError for anything but a colour image: depth, an unknown encoding or codec, data of another kind.
    """
    if kind == "raw":
        return _raw_image_info(message)
    if kind == "video":
        codec = video_codec(message)
        if not codec:
            raise SourceError("its video codec is not read", repr(message.format))
        frame = next((frame for _, frame in decode_access_units(codec, [(0, message.data)])), None)
        if frame is None:
            raise SourceError("its first video frame cannot be decoded", f"{len(message.data)} bytes")
        return ImageInfo(frame.width, frame.height, codec)
    return _encoded_image_info(message)


def _encoded_image_info(message: Any) -> ImageInfo:
    data = bytes(message.data)
    info = parse_image_header(data)
    has_16_bits = info is not None and info.codec == "png" and data[24:25] == b"\x10"
    if has_16_bits or any(name in message.format.lower() for name in _DEPTH_FORMATS):
        raise SourceError("it holds depth, not colour", repr(message.format))
    if info is None:
        raise SourceError("its images are neither JPEG nor PNG", repr(message.format))
    return info


def _raw_image_info(message: Any) -> ImageInfo:
    encoding = message.encoding.lower()
    if encoding in ("16uc1", "mono16", "32fc1"):
        raise SourceError("it holds depth, not colour", repr(message.encoding))
    if encoding not in _CHANNELS:
        raise SourceError("its pixel encoding is not read", repr(message.encoding))
    row_bytes, image_bytes = message.width * _CHANNELS[encoding], message.step * message.height
    if not row_bytes or not image_bytes or message.step < row_bytes or len(message.data) < image_bytes:
        detail = f"{message.width} x {message.height}, step {message.step}, {len(message.data)} bytes"
        raise SourceError("its images have fewer bytes than pixels, or none", detail)
    return ImageInfo(message.width, message.height, "raw")


def decode_image_message(kind: ImageKind, message: Any, where: str) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 RGB of an encoded or raw image. Raises MediaError naming `where`."""
    import numpy as np

    if kind == "encoded":
        return decode_image(bytes(message.data), where)
    try:
        info = _raw_image_info(message)
    except SourceError as error:
        raise MediaError("image cannot be decoded", f"{where}: {error}") from None
    encoding = message.encoding.lower()
    rows = np.frombuffer(message.data, np.uint8)[: message.step * info.height].reshape(
        info.height, message.step
    )
    pixels = rows[:, : info.width * _CHANNELS[encoding]].reshape(info.height, info.width, -1)
    if encoding == "mono8":
        return np.repeat(pixels, 3, axis=2)
    return np.ascontiguousarray(pixels[:, :, ::-1] if encoding == "bgr8" else pixels)


def video_codec(message: Any) -> str:
    """Codec of the video of a message; "" for an unsupported one, and for a picture."""
    return _CODECS.get(message.format.lower().replace(".", ""), "")


def is_keyframe(codec: str, data: bytes) -> bool:
    """Whether decoding can start at an access unit (Annex B of H.264 and H.265, low-overhead AV1)."""
    if codec == "av1":
        return _has_sequence_header(data)
    for unit_type in _nal_unit_types(codec, data):
        if codec == "h264" and unit_type in (1, 5):
            return unit_type == 5
        if codec == "hevc" and unit_type < 32:
            return 16 <= unit_type <= 23
    return False


def _nal_unit_types(codec: str, data: bytes) -> Iterator[int]:
    """Types of the NAL units of an access unit."""
    start = data.find(b"\x00\x00\x01")
    while 0 <= start < len(data) - 3:
        header = data[start + 3]
        yield header & 0x1F if codec == "h264" else header >> 1 & 0x3F
        start = data.find(b"\x00\x00\x01", start + 3)


def _has_sequence_header(data: bytes) -> bool:
    """Whether an AV1 temporal unit has a sequence header before its first frame, as every keyframe has."""
    start = 0
    while start < len(data):
        unit_type, start = data[start] >> 3 & 0xF, start + (2 if data[start] & 4 else 1)
        if unit_type in (_AV1_SEQUENCE_HEADER, *_AV1_FRAMES):
            return unit_type == _AV1_SEQUENCE_HEADER
        size, start = _read_leb128(data, start)
        start += size
    return False


def _read_leb128(data: bytes, start: int) -> tuple[int, int]:
    """A LEB128 number at an offset, and the offset behind it."""
    number = shift = 0
    while start < len(data):
        number |= (data[start] & 0x7F) << shift
        shift, start = shift + 7, start + 1
        if data[start - 1] < 0x80:
            break
    return number, start


def decode_access_units(codec: str, units: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, VideoFrame]]:
    """Decode numbered access units in order, starting at a keyframe; yields each frame with the number of its unit.

    Raises MediaError when one cannot be decoded.
    """
    import av

    context: Any = av.CodecContext.create(_DECODERS[codec], "r")
    context.thread_count = 1
    try:
        for number, data in units:
            packet = av.Packet(bytes(data))
            packet.pts = packet.dts = number
            yield from ((frame.pts, frame) for frame in context.decode(packet))
        yield from ((frame.pts, frame) for frame in context.decode(None))
    except av.FFmpegError as error:
        raise MediaError("video cannot be decoded", str(error.strerror or error)) from None
