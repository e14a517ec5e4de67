"""Image messages of ROS 2 and Foxglove: what they hold, and their pixels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from ares.errors import MediaError, SourceError
from ares.media.imageinfo import ImageInfo, image_info
from ares.media.tfrecord import decode_image

if TYPE_CHECKING:
    import numpy as np
    from av.video.frame import VideoFrame
    from numpy.typing import NDArray

ImageKind = Literal["encoded", "raw", "video"]
_KINDS: dict[str, ImageKind] = {"CompressedImage": "encoded", "CompressedVideo": "video"}
_PACKAGES = frozenset({"sensor_msgs", "foxglove", "foxglove_msgs"})
_RAW = frozenset({"sensor_msgs/Image", "foxglove/RawImage", "foxglove_msgs/RawImage"})
_CHANNELS = {"rgb8": 3, "bgr8": 3, "mono8": 1}
_CODECS = {"h264": "h264", "h265": "hevc", "av1": "av1"}
_DECODERS = {"h264": "h264", "hevc": "hevc", "av1": "libdav1d"}
_DEPTH = ("16uc1", "32fc1", "compresseddepth")


def short_name(schema: str) -> str:
    """Package and message of a schema's name ("sensor_msgs/msg/Image" and "foxglove.RawImage" alike)."""
    parts = schema.replace(".", "/").split("/")
    return f"{parts[0]}/{parts[-1]}"


def image_kind(schema: str) -> ImageKind | None:
    """How a message of that schema holds an image, or None when it holds none."""
    name = short_name(schema)
    package, _, message = name.partition("/")
    if name in _RAW:
        return "raw"
    return _KINDS.get(message) if package in _PACKAGES else None


def fields_of(kind: ImageKind) -> Mapping[str, type]:
    """The fields that such a message has, for `expect`."""
    if kind == "raw":
        return {"encoding": str, "width": int, "height": int, "step": int, "data": bytes}
    return {"format": str, "data": bytes}


def look(kind: ImageKind, message: Any) -> ImageInfo:
    """Size and codec of a message's image; a video's size is that of its first frame, which is decoded.

    Raises SourceError for what is no colour image: depth, an unknown encoding or codec, data that is no image.
    """
    if kind == "raw":
        return _look_raw(message)
    if kind == "video":
        codec = _CODECS.get(message.format.lower())
        if codec is None:
            raise SourceError("its video codec is not read", repr(message.format))
        frame = next((frame for _, frame in video_frames(codec, [(0, message.data)])), None)
        if frame is None:
            raise SourceError("its first video frame cannot be decoded", f"{len(message.data)} bytes")
        return ImageInfo(frame.width, frame.height, codec)
    return _look_encoded(message)


def _look_encoded(message: Any) -> ImageInfo:
    data = bytes(message.data)
    info = image_info(data)
    deep = info is not None and info.codec == "png" and data[24:25] == b"\x10"
    if deep or any(word in message.format.lower() for word in _DEPTH):
        raise SourceError("it holds depth, not colour", repr(message.format))
    if info is None:
        raise SourceError("its images are neither JPEG nor PNG", repr(message.format))
    return info


def _look_raw(message: Any) -> ImageInfo:
    encoding = message.encoding.lower()
    if encoding in ("16uc1", "mono16", "32fc1"):
        raise SourceError("it holds depth, not colour", repr(message.encoding))
    if encoding not in _CHANNELS:
        raise SourceError("its pixel encoding is not read", repr(message.encoding))
    row, size = message.width * _CHANNELS[encoding], message.step * message.height
    if not row or not size or message.step < row or len(message.data) < size:
        told = f"{message.width} x {message.height}, step {message.step}, {len(message.data)} bytes"
        raise SourceError("its images have fewer bytes than pixels, or none", told)
    return ImageInfo(message.width, message.height, "raw")


def picture(kind: ImageKind, message: Any, where: str) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 RGB of an encoded or raw image. Raises MediaError naming `where`."""
    import numpy as np

    if kind == "encoded":
        return decode_image(bytes(message.data), where)
    try:
        info = _look_raw(message)
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
    """Codec of a CompressedVideo message; "" for one that is not read."""
    return _CODECS.get(message.format.lower(), "")


def is_keyframe(codec: str, data: bytes) -> bool:
    """Whether decoding can begin with an access unit (Annex B of H.264 and H.265, low-overhead AV1)."""
    if codec == "av1":
        return _starts_sequence(data)
    for kind in _units(codec, data):
        if codec == "h264" and kind in (1, 5):
            return kind == 5
        if codec == "hevc" and kind < 32:
            return 16 <= kind <= 23
    return False


def _units(codec: str, data: bytes) -> Iterator[int]:
    """Types of the NAL units of an access unit."""
    start = data.find(b"\x00\x00\x01")
    while 0 <= start < len(data) - 3:
        head = data[start + 3]
        yield head & 0x1F if codec == "h264" else head >> 1 & 0x3F
        start = data.find(b"\x00\x00\x01", start + 3)


def _starts_sequence(data: bytes) -> bool:
    """Whether a temporal unit has a sequence header before its first frame: one stands before each keyframe."""
    start = 0
    while start < len(data):
        kind, start = data[start] >> 3 & 0xF, start + (2 if data[start] & 4 else 1)
        if kind in (1, 3, 6):
            return kind == 1
        size = shift = 0
        while start < len(data):
            size |= (data[start] & 0x7F) << shift
            shift, start = shift + 7, start + 1
            if data[start - 1] < 0x80:
                break
        start += size
    return False


def video_frames(codec: str, units: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, VideoFrame]]:
    """Numbered access units decoded in order, from a keyframe on; each frame with the number of its unit.

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
