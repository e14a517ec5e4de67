"""One episode of a folder of videos made into a record: its cameras, its length and its rate."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from ares import files
from ares.episode import Camera, Episode, RateSource, Record, Trajectory
from ares.media import stamp
from ares.media.probe import VideoInfo, probe
from ares.media.ref import MediaRef
from ares.media.still import still_flags
from ingest.roles import camera_role, distinct
from ingest.video_files import Clip

FORMAT = "video"


def load_clip(clip: Clip, dataset: str, episode_id: str, user_rate_hz: float | None) -> Record:
    """Look at the videos of an episode, without decoding any. Raises SourceError for one that cannot be used.

    With a rate given by the user the frames are taken to be that many a second, whatever the file says, so a
    second of the episode is not a second of the file.
    """
    import numpy as np

    videos = {camera: (path, probe(path)) for camera, path in clip.videos.items()}
    first_path, first = next(iter(videos.values()))
    rate_hz, rate_source = _rate(first, user_rate_hz)
    cameras = tuple(
        _camera(name, path, info, rate_hz / first.rate_hz) for name, (path, info) in videos.items()
    )
    instructions = distinct([clip.instruction])
    episode = Episode(
        episode_id=episode_id,
        format=FORMAT,
        dataset=dataset,
        version="",
        split=clip.split,
        key=clip.key,
        source=first_path,
        content_hash=content_hash(path for path, _ in videos.values()),
        instruction=instructions[0] if instructions else "",
        instructions=instructions,
        robot=clip.robot,
        num_steps=first.num_frames,
        rate_hz=rate_hz,
        rate_source=rate_source,
        cameras=cameras,
        success=clip.success,
        success_source="success" if clip.success is not None else "",
        metadata=clip.metadata,
    )
    steps = np.arange(first.num_frames, dtype=np.float64) / rate_hz
    shown = steps if first.seconds is None else first.seconds * first.rate_hz / rate_hz
    trajectory = Trajectory(timestamps=shown)
    return Record(episode=episode, trajectory=trajectory, warnings=tuple(_warnings(clip, cameras, first)))


def content_hash(paths: Iterable[str]) -> str:
    """Hash of the content of video files, 32 hex digits.

    Files up to 8 MiB are hashed whole; of a larger one its size, its first and last blocks and 14 between them
    (256 KiB each), since hashing terabytes would take longer than all else. Compressed video differs everywhere
    when it differs at all, and the first or last block holds the index with the size of every frame.
    """
    total = hashlib.blake2b(digest_size=16)
    for path in paths:
        state = files.state(path)
        total.update(state.size.to_bytes(8, "little"))
        for block in stamp.fingerprinted(path, state):
            total.update(block)
    return total.hexdigest()


def _rate(first: VideoInfo, user_rate_hz: float | None) -> tuple[float, RateSource]:
    return (first.rate_hz, "source") if user_rate_hz is None else (user_rate_hz, "user")


def _camera(name: str, path: str, info: VideoInfo, speed: float) -> Camera:
    media = MediaRef(
        kind="mp4",
        uri=path,
        start_seconds=0.0,
        stop_seconds=info.duration_seconds,
        num_frames=info.num_frames,
        rate_hz=info.rate_hz * speed,
    )
    return Camera(
        name=name,
        role=camera_role(name),
        width=info.width,
        height=info.height,
        codec=info.codec,
        media=media,
        flags=still_flags(media, info.quiet, 0),
    )


def _warnings(clip: Clip, cameras: tuple[Camera, ...], first: VideoInfo) -> Iterator[str]:
    if clip.fps is not None and abs(clip.fps - first.rate_hz) > 0.01 * first.rate_hz:
        yield "fps in metadata.jsonl is not that of the video"
    lengths = [camera.media.num_frames / camera.media.rate_hz for camera in cameras]
    if max(lengths) - min(lengths) > 1.001 / min(camera.media.rate_hz for camera in cameras):
        yield "cameras are not equally long"
