"""How many faults that are planted into films the checks of video find, after encoding and decoding."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ares.checks.codes import CAMERA_LAG, COLOUR_ORDER, SWAPPED_CAMERAS, VIDEO_CODES, VIDEO_LAG, VIDEO_RATE
from ares.checks.video.dataset import (
    _APART,
    _LEAST_LEVELS,
    TypicalCameraView,
    TypicalVideo,
    VideoCheck,
    _appearance_distance,
    check_videos,
    learn_typical_video,
)
from ares.checks.video.frame_reading import camera_features
from ares.checks.video.frame_summary import VideoSummary, summarise_video
from ares.episode import Camera, Episode, MediaRef, Signal, Trajectory
from ares.media import encode_mp4, open_video_stream
from benchmarks.shares import format_share
from tests.generators.scenes import FilmedEpisode, VideoFault, filmed_dataset, plant_video_fault, random_scene
from tests.generators.strengths import STRENGTHS

_EPISODES = 4
_DAMAGED_SECONDS = 0.5


@dataclass(slots=True, kw_only=True)
class VideoScore:
    """Counts of an audit, by code.

    Attributes:
        planted: Faults that were planted where the data can say it.
        unknown: Faults that the data cannot say, as the clean episode has no lag, its dataset no common look of the
            camera, or it has the fault already: not counted as planted.
        hits: Those that were found, in their camera.
        false_alarms: Clean episodes with a finding.
        num_clean: Clean episodes that were checked.
        lag_errors: Difference of the measured and the true lag in steps, of episodes where a lag is claimed.
        num_moving: Clean episodes in which the robot moves for five seconds.
        num_moving_known: Those of them with a lag.
    """

    planted: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)
    false_alarms: Counter[str] = field(default_factory=Counter)
    num_clean: int = 0
    lag_errors: list[float] = field(default_factory=list)
    num_moving: int = 0
    num_moving_known: int = 0

    def add_clean(self, check: VideoCheck, lag_seconds: float | None) -> None:
        """Count a clean episode, whose cameras are late by so many seconds."""
        self.num_clean += 1
        self.false_alarms.update({finding.code for finding in check.findings})
        known = [lag.steps for lag in check.lags.values() if lag.steps is not None]
        if check.moving_seconds >= 5:
            self.num_moving += 1
            self.num_moving_known += bool(known)
        if lag_seconds is not None:
            self.lag_errors += [steps - lag_seconds * check.rate_hz for steps in known]

    def add_fault(
        self, code: str, camera: str, check: VideoCheck, clean: VideoCheck, typical: TypicalVideo
    ) -> None:
        """Count a planted fault, by the checks of the episode with and without it, and its dataset without it."""
        if not _can_say(code, camera, clean, typical):
            self.unknown[code] += 1
            return
        self.planted[code] += 1
        self.hits[code] += any(f.code == code and f.dimension == camera for f in check.findings)

    def rows(self) -> Iterator[str]:
        """A row of a Markdown table for each code, with 95 % Wilson intervals."""
        for check in VIDEO_CODES:
            recall = format_share(self.hits[check.code], self.planted[check.code])
            alarms = format_share(self.false_alarms[check.code], self.num_clean)
            unknown, strength = self.unknown[check.code], STRENGTHS[check.code]
            name = f"{check.code} {check.name}"
            yield f"| {name} | {strength} | {recall} | {unknown} | {alarms} | {check.severity} |"


def _can_say(code: str, camera: str, clean: VideoCheck, typical: TypicalVideo) -> bool:
    """Whether the clean episode and its dataset have what the check of a code needs, and not the fault itself."""
    if any(finding.code == code and finding.dimension == camera for finding in clean.findings):
        return False
    if code in (COLOUR_ORDER.code, SWAPPED_CAMERAS.code):
        return _looks_differ(code, camera, typical.cameras)
    lags = clean.camera_lags if code == CAMERA_LAG.code else clean.lags
    needs_lag = code in (VIDEO_LAG.code, CAMERA_LAG.code, VIDEO_RATE.code)
    return not needs_lag or (camera in lags and lags[camera].steps is not None)


def _looks_differ(code: str, camera: str, typical: Mapping[str, TypicalCameraView]) -> bool:
    """Whether the episodes of a camera look alike, and unlike themselves in the other colour order, or other cameras.

    Args:
        code: A037 for the colour order, A038 for another camera.
        camera: Name of the camera.
        typical: What the cameras of the dataset show.
    """
    usual = typical.get(camera)
    if usual is None:
        return False
    others = [part for name, part in typical.items() if name != camera]
    looks = (
        [usual.appearance[..., ::-1]] if code == COLOUR_ORDER.code else [part.appearance for part in others]
    )
    spreads = [usual.spread, *([] if code == COLOUR_ORDER.code else [part.spread for part in others])]
    nearest = min((float(_appearance_distance(other, usual.appearance)) for other in looks), default=0.0)
    return nearest >= _APART * max(*spreads, _LEAST_LEVELS)


def audit_generated_videos(seeds: Iterable[int], score: VideoScore) -> None:
    """Add generated scenes: their clean episodes, and one fault of each code per scene."""
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            rng = np.random.default_rng(seed)
            scene = random_scene(rng)
            films = filmed_dataset(scene, rng, _EPISODES)
            audit_films(films, rng, score, Path(folder), lag_seconds=scene.lag_seconds)


def audit_films(
    films: Sequence[FilmedEpisode],
    rng: np.random.Generator,
    score: VideoScore,
    folder: Path,
    *,
    lag_seconds: float | None = None,
) -> None:
    """Add the clean episodes of one dataset, and one fault of each code in a random episode."""
    clean = [filmed_summary(film, folder) for film in films]
    typical = learn_typical_video(clean)
    if typical is None:
        return
    checks = [check_videos(summary, typical) for summary in clean]
    for passed in checks:
        score.add_clean(passed, lag_seconds)
    for check in VIDEO_CODES:
        number = int(rng.integers(len(films)))
        camera = str(rng.choice(list(films[number].cameras)))
        fault = plant_video_fault(check.code, films[number], camera, STRENGTHS[check.code].size, rng)
        if fault is not None:
            faulty = faulty_summary(films[number], clean[number], fault, folder)
            others = clean[:number] + clean[number + 1 :]
            after = check_videos(faulty, learn_typical_video([*others, faulty]))
            score.add_fault(check.code, fault.camera, after, checks[number], typical)


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
