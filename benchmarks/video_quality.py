"""Scores the video checks of `ares check --video` on planted faults: generated films, and real ones where they are.

.venv/bin/python -m benchmarks.video_quality --seeds 2000000:2000060
.venv/bin/python -m benchmarks.video_quality --seeds 0:12 --real ~/data/gr1
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import islice
from pathlib import Path

from ares.episode import Record
from ares.media import all_frames
from benchmarks.quality import read_records, seed_range
from tests.generators.scenes import FilmedEpisode
from tests.generators.video_scoring import VideoScore, audit_films, audit_generated_videos

# Real films are scaled down to this width, and cut to so many frames: what is measured is the check, not the decoder.
_WIDTH = 256
_MOST_FRAMES = 300
_FEWEST_FRAMES = 40
_EPISODES = 4
_MOST_RECORDS = 200
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


def audit_real(path: str, part: str, seeds: range, score: VideoScore) -> None:
    """Plant one fault of each code per seed into random episodes of one part of a real dataset."""
    import numpy as np

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
    import numpy as np

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
