"""Summaries of generated films, with and without a fault, after encoding and decoding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ares.checks.video.frame_reading import camera_features
from ares.checks.video.frame_summary import VideoSummary, summarise_video
from ares.episode import Camera, Episode, MediaRef, Signal, Trajectory
from ares.media import encode_mp4, open_video_stream
from tests.generators.scenes import FilmedEpisode, VideoFault

_DAMAGED_SECONDS = 0.5


def filmed_summary(film: FilmedEpisode, folder: Path) -> VideoSummary:
    """Encode the cameras of an episode, decode them again, and summarise them."""
    files = {name: _encoded_camera(film, name, folder) for name in film.cameras}
    return _film_summary(film, files)


def faulty_summary(film: FilmedEpisode, clean: VideoSummary, fault: VideoFault, folder: Path) -> VideoSummary:
    """The summary of an episode with a fault: only cameras that differ are encoded again.

    Args:
        film: The episode without the fault.
        clean: Its summary.
        fault: The fault.
        folder: Folder for files.
    """
    changed = {
        name: _encoded_camera(fault.episode, name, folder)
        for name, frames in fault.episode.cameras.items()
        if frames is not film.cameras[name] or (fault.damaged_bytes and name == fault.camera)
    }
    if fault.damaged_bytes:
        _damage_file(changed[fault.camera], fault)
    new = {camera.camera: camera for camera in _film_summary(fault.episode, changed).cameras}
    return replace(clean, cameras=tuple(new.get(camera.camera, camera) for camera in clean.cameras))


def _encoded_camera(film: FilmedEpisode, name: str, folder: Path) -> Path:
    path = folder / f"{name}.mp4"
    encode_mp4(film.cameras[name], path, film.rate_hz)
    return path


def _film_summary(film: FilmedEpisode, files: Mapping[str, Path]) -> VideoSummary:
    cameras = [_film_camera(name, path, film) for name, path in files.items()]
    names = tuple(f"joint_{number}" for number in range(film.state.shape[1]))
    state = Signal(film.state.astype("float32"), names) if names else None
    trajectory = Trajectory(timestamps=_step_stamps(len(film.state), film.rate_hz), state=state)
    return summarise_video(_film_episode(film, tuple(cameras)), trajectory, camera_features(cameras))


def _step_stamps(steps: int, rate_hz: float) -> NDArray[np.float64]:
    return np.arange(steps) / rate_hz


def _film_camera(name: str, path: Path, film: FilmedEpisode) -> Camera:
    steps, (height, width) = len(film.state), film.cameras[name].shape[1:3]
    media = MediaRef(
        kind="mp4",
        uri=str(path),
        start_seconds=0.0,
        stop_seconds=steps / film.rate_hz,
        num_frames=steps,
        rate_hz=film.rate_hz,
    )
    return Camera(name=name, role="other", width=width, height=height, codec="h264", media=media)


def _film_episode(film: FilmedEpisode, cameras: tuple[Camera, ...]) -> Episode:
    return Episode(
        episode_id=film.episode_id,
        format="video",
        dataset="filmed",
        version="",
        split="",
        key=film.episode_id,
        source="",
        content_hash="",
        instruction="",
        instructions=(),
        robot="",
        num_steps=len(film.state),
        rate_hz=film.rate_hz,
        rate_source="source",
        cameras=cameras,
        frame_pairing="index",
    )


def _damage_file(path: Path, fault: VideoFault) -> None:
    """Replace a share of the bytes of the packets of half a second."""
    rng = np.random.default_rng(round(fault.seconds * 1000))
    data = bytearray(path.read_bytes())
    with open_video_stream(str(path)) as (container, stream):
        packets = [
            (int(packet.pos or 0), packet.size)
            for packet in container.demux(stream)
            if packet.pts is not None
            and fault.seconds
            <= float(packet.pts * (packet.time_base or 0))
            < fault.seconds + _DAMAGED_SECONDS
        ]
    for start, size in packets:
        count = max(1, round(fault.damaged_bytes * size))
        for position in rng.integers(start + 5, start + max(size, 7), count):
            data[position] = int(rng.integers(0, 256))
    path.write_bytes(bytes(data))
