"""The device that decodes videos in place of the processors, where the settings name one that is there."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ares.messages import print_message
from ares.settings import settings_from_environment

if TYPE_CHECKING:
    from av.codec.hwaccel import HWAccel
    from av.video.frame import VideoFrame

# Devices give planes of colour in turns, which FFmpeg converts to RGB otherwise than separate ones (up to 72 of 255).
_SEPARATE_PLANES = {"nv12": "yuv420p", "p010le": "yuv420p10le", "nv16": "yuv422p", "nv24": "yuv444p"}
# Contexts of CUDA are large and slow to make: decoders share the one of torch.
_OPTIONS: dict[str, dict[str, object]] = {"cuda": {"primary_ctx": "1"}}


@lru_cache(maxsize=1)
def hardware_decoder() -> HWAccel | None:
    """The device of ARES_VIDEO_DEVICE; None, after one line that says why, where there is no such device.

    Raises RequestError for a setting that cannot be read.
    """
    import av
    from av.codec.hwaccel import HWAccel, hwdevices_available

    name = settings_from_environment().video_device
    if not name:
        return None
    kind, _, number = name.partition(":")
    if kind not in hwdevices_available():
        known = ", ".join(hwdevices_available())
        _announce_missing(name, f"PyAV has no device of this kind; its kinds are {known}")
        return None
    try:
        device = HWAccel(kind, number or None, options=_OPTIONS.get(kind))
        device.create(av.Codec("h264", "r"))
    except (av.FFmpegError, NotImplementedError, OSError, ValueError) as error:
        _announce_missing(name, getattr(error, "strerror", None) or str(error))
        return None
    return device


def _announce_missing(name: str, reason: str) -> None:
    print_message(f"the processors decode videos, not ARES_VIDEO_DEVICE {name!r}: {reason}")


@lru_cache(maxsize=16)
def announce_failure(reason: str) -> None:
    """Say once for each reason that the device of ARES_VIDEO_DEVICE could not decode a video."""
    print_message(f"the processors decode again what ARES_VIDEO_DEVICE could not: {reason}")


def separate_planes(frame: VideoFrame) -> VideoFrame:
    """A frame of a device as a decoder of the processors gives it, without loss; pixels in RGB are then the same."""
    planar = _SEPARATE_PLANES.get(frame.format.name)
    return frame.reformat(format=planar) if planar else frame
