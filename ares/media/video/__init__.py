"""Video files: probed, encoded, cut and joined by packets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.media.video.clock import SpanClock, span_clock, tick_seconds
    from ares.media.video.encode import VideoCodec, VideoEncoding, encode_mp4
    from ares.media.video.hardware import announce_failure, hardware_decoder, separate_planes
    from ares.media.video.orientation import frame_orientation
    from ares.media.video.packet_activity import FrameSpans, find_inactive_spans
    from ares.media.video.probe import VideoInfo, describe_ffmpeg_error, open_video_stream, probe_video
    from ares.media.video.remux import NotCopyable, PacketJoiner, PacketSpan, StreamFormat, cut_packets
    from ares.media.video.trim import trim_video

__all__ = [
    "FrameSpans",
    "NotCopyable",
    "PacketJoiner",
    "PacketSpan",
    "SpanClock",
    "StreamFormat",
    "VideoCodec",
    "VideoEncoding",
    "VideoInfo",
    "announce_failure",
    "cut_packets",
    "describe_ffmpeg_error",
    "encode_mp4",
    "find_inactive_spans",
    "frame_orientation",
    "hardware_decoder",
    "open_video_stream",
    "probe_video",
    "separate_planes",
    "span_clock",
    "tick_seconds",
    "trim_video",
]

__getattr__ = lazy_exports(__name__)
