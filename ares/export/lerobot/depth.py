"""Copies depth that the source has as video, packet by packet; what cannot be copied so is left out and told."""

from __future__ import annotations

from ares.episode import MediaRef
from ares.errors import AresError, MediaError
from ares.export.layout_groups import DatasetGroup, DepthVideo, read_depth_videos
from ares.export.lerobot.writer import PreparedVideo
from ares.export.retime import RetimedEpisode
from ares.media import NotCopyable, PacketSpan, cut_packets

_RATE_TOLERANCE = 1e-3


def find_copyable_depth(group: DatasetGroup) -> tuple[str, ...]:
    """Names of the cameras whose depth every episode has as a video that can be copied exactly, with equal facts."""
    return tuple(name for name, videos in sorted(group.depth_videos.items()) if _is_copyable(group, videos))


def _is_copyable(group: DatasetGroup, videos: list[DepthVideo]) -> bool:
    if len(videos) != group.episodes or any(video.facts != videos[0].facts for video in videos):
        return False
    try:
        for video in videos:
            if abs(video.rate_hz - group.rate_hz) > _RATE_TOLERANCE:
                return False
            _cut_packets(video).close()
    except AresError:
        return False
    return True


def _cut_packets(video: DepthVideo) -> PacketSpan:
    media = MediaRef(
        kind="mp4",
        uri=video.path,
        start_seconds=video.start_seconds,
        stop_seconds=video.start_seconds + video.num_frames / video.rate_hz,
        num_frames=video.num_frames,
        rate_hz=video.rate_hz,
    )
    return cut_packets(media, video.num_frames, video.rate_hz)


def prepare_depth(camera: str, retimed: RetimedEpisode) -> PreparedVideo:
    """The packets of the depth of an episode. Raises MediaError where they are no longer those of its steps."""
    video = read_depth_videos(retimed.source).get(camera)
    if video is None or not retimed.keeps_steps or video.num_frames != retimed.episode.num_steps:
        raise MediaError("depth is not at the steps of the export", retimed.episode.source)
    try:
        return PreparedVideo(_cut_packets(video), {})
    except NotCopyable as error:
        raise MediaError(f"depth cannot be copied: {error.reason}", error.detail) from None
