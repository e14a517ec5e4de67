"""Scores the video checks of `ares check --video` on planted faults: generated films, and real ones where they are.

.venv/bin/python -m benchmarks.video_quality --seeds 2000000:2000060
.venv/bin/python -m benchmarks.video_quality --seeds 0:12 --real ~/data/gr1
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ares.checks import CODES, TypicalVideo, VideoCheck, check_videos, learn_typical_video
from ares.episode import Record
from ares.media import all_frames
from benchmarks.quality import read_records, seed_range
from benchmarks.shares import format_share
from tests.generators.scenes import (
    VIDEO_PLANTERS,
    FilmedEpisode,
    filmed_dataset,
    plant_video_fault,
    random_scene,
)
from tests.generators.strengths import STRENGTHS
from tests.generators.video_scoring import faulty_summary, filmed_summary

# Real films are scaled down to this width, and cut to so many frames: what is measured is the check, not the decoder.
_WIDTH = 256
_MOST_FRAMES = 300
_FEWEST_FRAMES = 40
_EPISODES = 4
_MOST_RECORDS = 200
_CODES = [CODES[code] for code in sorted(VIDEO_PLANTERS)]
_COLOUR_ORDER, _NEED_LOOKS, _NEED_LAG = "A037", ("A037", "A038"), "A041"
# Two looks are apart by so many times the spread of the episodes, and by so many grey levels.
_APART, _LEAST_LEVELS = 3.0, 2.0
# Episodes of a real dataset by what they may be used for.
_PARTS = {"development": slice(0, None, 2), "test": slice(1, None, 2)}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=seed_range, default="0:60", help="first and one past the last seed")
    parser.add_argument("--real", action="append", default=[], help="dataset of clean episodes to plant into")
    parser.add_argument(
        "--part", choices=list(_PARTS), default="development", help="real episodes to plant into"
    )
    args = parser.parse_args()
    score = VideoScore()
    for path in args.real:
        audit_real(path, args.part, args.seeds, score)
    if not args.real:
        audit_generated_videos(args.seeds, score)
    print("| code | strength | recall | unknown | false alarms | shown as |\n|---|---|---|---|---|---|")
    print("\n".join(score.rows()))
    near = sum(abs(error) <= 1 for error in score.lag_errors)
    print(f"lag within one step: {near} of {len(score.lag_errors)}")
    print(f"lag claimed: {score.num_moving_known} of {score.num_moving} episodes that move for five seconds")


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
        for check in _CODES:
            recall = format_share(self.hits[check.code], self.planted[check.code])
            alarms = format_share(self.false_alarms[check.code], self.num_clean)
            unknown, strength = self.unknown[check.code], STRENGTHS[check.code]
            name = f"{check.code} {check.name}"
            yield f"| {name} | {strength} | {recall} | {unknown} | {alarms} | {check.severity} |"


def _can_say(code: str, camera: str, clean: VideoCheck, typical: TypicalVideo) -> bool:
    """Whether the clean episode and its dataset have what the check of a code needs, and not the fault itself."""
    if any(finding.code == code and finding.dimension == camera for finding in clean.findings):
        return False
    if code in _NEED_LOOKS:
        return _looks_differ(code, camera, typical)
    return code != _NEED_LAG or (camera in clean.lags and clean.lags[camera].steps is not None)


def _looks_differ(code: str, camera: str, typical: TypicalVideo) -> bool:
    """Whether episodes of a camera look alike, and unlike themselves in the other colour order, or other cameras."""
    usual = typical.cameras.get(camera)
    if usual is None:
        return False
    others = [] if code == _COLOUR_ORDER else [own for name, own in typical.cameras.items() if name != camera]
    looks = [usual.appearance[..., ::-1]] if code == _COLOUR_ORDER else [own.appearance for own in others]
    spread = max(_LEAST_LEVELS, usual.spread, *(own.spread for own in others))
    nearest = min((_difference(look, usual.appearance) for look in looks), default=0.0)
    return nearest >= _APART * spread


def _difference(look: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Mean difference in grey levels at equal brightness."""
    return float(np.abs(look * ((other.mean() + 1) / (look.mean() + 1)) - other).mean())


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
    for check in _CODES:
        number = int(rng.integers(len(films)))
        camera = str(rng.choice(list(films[number].cameras)))
        fault = plant_video_fault(check.code, films[number], camera, STRENGTHS[check.code].size, rng)
        if fault is not None:
            faulty = faulty_summary(films[number], clean[number], fault, folder)
            others = clean[:number] + clean[number + 1 :]
            after = check_videos(faulty, learn_typical_video([*others, faulty]))
            score.add_fault(check.code, fault.camera, after, checks[number], typical)


def audit_real(path: str, part: str, seeds: range, score: VideoScore) -> None:
    """Plant one fault of each code per seed into random episodes of one part of a real dataset."""
    records = [*islice(filter(_has_films, read_records(path)), _MOST_RECORDS)][_PARTS[part]]
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            rng = np.random.default_rng(seed)
            chosen = rng.permutation(len(records))[:_EPISODES]
            films = [_film(records[number]) for number in chosen]
            audit_films(films, rng, score, Path(folder))


def _has_films(record: Record) -> bool:
    return record.episode.num_steps >= _FEWEST_FRAMES and bool(record.episode.good_cameras)


def _film(record: Record) -> FilmedEpisode:
    import cv2

    cameras = {}
    for camera in record.episode.good_cameras:
        height = round(camera.height * _WIDTH / camera.width) // 2 * 2
        is_wide = camera.width > _WIDTH
        cameras[camera.name] = np.stack(
            [
                cv2.resize(frame, (_WIDTH, height), interpolation=cv2.INTER_AREA) if is_wide else frame
                for frame in islice(all_frames(camera.media), _MOST_FRAMES)
            ]
        )
    steps = min(len(frames) for frames in cameras.values())
    state = record.trajectory.state
    values = np.zeros((steps, 0)) if state is None else state.values[:steps].astype(np.float64)
    return FilmedEpisode(
        episode_id=record.episode.episode_id,
        rate_hz=record.episode.rate_hz,
        state=values,
        cameras={name: frames[:steps].astype(np.uint8) for name, frames in cameras.items()},
    )


if __name__ == "__main__":
    main()
