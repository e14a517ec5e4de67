"""Boundaries that `ares annotate segment --by signals` finds, against the log of drawn robots, beside simpler methods.

.venv/bin/python -m benchmarks.segments --part development --episodes 200
.venv/bin/python -m benchmarks.segments --part test --traits
.venv/bin/python -m benchmarks.segments --metaworld FOLDER

FOLDER holds episodes of `benchmarks/metaworld_events.py`.
The parts share no episode: constants were chosen on "development", the least confidence and the penalty of `ruptures`
on "thresholds", and "test" was looked at once. `ruptures` is tried where it is installed.
Of Meta-World, seeds 300 to 303 are for development, 340 to 343 for thresholds; 320 to 323 were looked at on 2026-11-26,
8885 to 8888 later, and 7737 to 7740 after that. The last two begin at 4000 + the SHA-256 of "boundaries of segments,
second look" and "boundaries of segments, third look", as numbers, modulo 5000.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ares.episode import Signal, Trajectory
from ares_annotators.motion import MotionMeaning, infer_meaning_by_names
from ares_annotators.segment import find_signal_boundaries, read_tracks
from ares_ingest.signals import numbered_names
from benchmarks.event_logs import PARTS, LogEvent, LoggedEpisode, make_logged_episode, true_boundaries
from benchmarks.quality import seed_range
from benchmarks.segment_scoring import (
    SegmentScore,
    add_scores,
    bootstrap_intervals,
    score_arm,
    summarise,
)

# Boundaries in seconds, by arm.
Found = Mapping[str, Sequence[float]]
Method = Callable[[LoggedEpisode], Found]
# Of a grid that is as dense as the boundaries of the logs.
_GRID_SECONDS = 1.8
# Chosen on the part "thresholds" among 1, 3, 10, 30 and 100.
_RUPTURES_PENALTY = 3.0
_THINGS = "environment_state"
_WITH_INTERVAL = ("F1", "short recall", "edit")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=list(PARTS), default="development", help="which episodes")
    parser.add_argument("--seeds", type=seed_range, help="other seeds, first and one past the last")
    parser.add_argument("--episodes", type=int, help="at most so many of them")
    parser.add_argument("--metaworld", type=Path, help="a folder of Meta-World episodes instead")
    parser.add_argument("--things", action="store_true", help="Meta-World with positions of things")
    parser.add_argument("--traits", action="store_true", help="also a row for each kind of robot")
    arguments = parser.parse_args()
    seeds = (arguments.seeds or PARTS[arguments.part])[: arguments.episodes]
    name = f"{arguments.part} {seeds.start}:{seeds.stop}"
    if arguments.metaworld:
        name, paths = f"Meta-World {arguments.metaworld.name}", sorted(arguments.metaworld.glob("*.npz"))
        episodes = [read_metaworld_episode(path, arguments.things) for path in paths[: arguments.episodes]]
    else:
        episodes = [make_logged_episode(seed) for seed in seeds]
    print(f"{name}: {describe(episodes)}\n")
    print(
        "| boundaries by | F1 | recall, events under 2 s | precision | recall | edit | over | under | error |"
    )
    print("|---|" + "---|" * 8)
    scores = {name: score_episodes(method, episodes) for name, method in find_methods().items()}
    for name, own in scores.items():
        print(format_row(name, own))
    if arguments.traits:
        for trait in episodes[0].traits:
            print_trait(trait, episodes, next(iter(scores.values())))
    print_speed(episodes)


def read_metaworld_episode(path: Path, has_things: bool = False) -> LoggedEpisode:
    """An episode of `benchmarks/metaworld_events.py`: what holds at a time in its log is one event.

    Args:
        path: Its file.
        has_things: Whether it records the things, too, as `observation.environment_state` of public datasets does.
    """
    with np.load(path) as arrays:
        names, spans, duration = arrays["names"].tolist(), arrays["spans"].tolist(), float(arrays["duration"])
        state, action, rate_hz = arrays["state"], arrays["action"], float(arrays["rate_hz"])
        things = arrays[_THINGS] if has_things else state[:, :0]
    cuts = sorted({0.0, duration, *(second for span in spans for second in span)})
    events = [
        LogEvent(
            "", "+".join(n for n, (a, b) in zip(names, spans, strict=True) if a <= start < b), start, stop
        )
        for start, stop in pairwise(cuts)
    ]
    trajectory = Trajectory(
        timestamps=np.arange(len(state)) / rate_hz,
        state=Signal(state, ("ee_x", "ee_y", "ee_z", "gripper")),
        action=Signal(action, ("delta_x", "delta_y", "delta_z", "gripper")),
        extra={_THINGS: Signal(things, numbered_names(_THINGS, things.shape[1]))} if has_things else {},
    )
    rate = "below 15 Hz" if rate_hz < 15 else "15 Hz and more"
    traits = {"arms": "1", "rate": rate}
    return LoggedEpisode(trajectory=trajectory, duration=duration, events=tuple(events), traits=traits)


def describe(episodes: Sequence[LoggedEpisode]) -> str:
    """What the episodes hold, in a line."""
    true = sum(len(list(true_boundaries(episode))) for episode in episodes)
    arms = sum(int(episode.traits["arms"]) for episode in episodes)
    minutes = sum(episode.duration for episode in episodes) / 60
    return f"{len(episodes)} episodes, {arms} arms, {minutes:.0f} minutes, {true} boundaries"


def find_methods() -> dict[str, Method]:
    """The methods by name, ours first."""
    methods: dict[str, Method] = {
        "signals": find_by_signals,
        "gripper only": lambda episode: find_by_signals(episode, ("gripper", "hand")),
        "equal thirds": lambda episode: _at(episode, episode.duration * np.arange(1, 3) / 3),
        f"every {_GRID_SECONDS} s": lambda episode: _at(
            episode, np.arange(_GRID_SECONDS, episode.duration, _GRID_SECONDS)
        ),
    }
    if find_spec("ruptures"):
        methods["ruptures"] = find_by_ruptures
    return methods


def find_by_signals(episode: LoggedEpisode, sources: Sequence[str] = ()) -> Found:
    """What ARES finds; of some sources only, where they are named."""
    arms = find_signal_boundaries(episode.trajectory, _meaning(episode), episode.duration)
    return {
        own.arm: [
            boundary.seconds for boundary in own.boundaries if not sources or boundary.source in sources
        ]
        for own in arms
    }


def _meaning(episode: LoggedEpisode) -> MotionMeaning:
    signals = (episode.trajectory.state, episode.trajectory.action)
    return infer_meaning_by_names(*(signal.names if signal else () for signal in signals))


def _at(episode: LoggedEpisode, seconds: np.ndarray) -> Found:
    return {arm: seconds.tolist() for arm in dict.fromkeys(event.arm for event in episode.events)}


def find_by_ruptures(episode: LoggedEpisode, penalty: float = _RUPTURES_PENALTY) -> Found:
    """PELT with a Gaussian kernel on the speeds of each arm, and its gripper and contact, each of unit variance."""
    ruptures: Any = import_module("ruptures")
    tracks = read_tracks(episode.trajectory, _meaning(episode))
    found: dict[str, list[float]] = {}
    if tracks is None:
        return found
    for arm in tracks.arms:
        parts = [values for _, values in arm.ends] + list(arm.contacts)
        parts += [] if arm.path is None else [np.abs(np.gradient(arm.path, axis=0))]
        values = np.concatenate(parts, axis=1)
        values = (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-9)
        shortest = max(2, round(0.3 / tracks.period))
        if len(values) > 2 * shortest:
            detector = ruptures.KernelCPD(kernel="rbf", min_size=shortest).fit(values)
            found[arm.arm] = [
                tracks.start + stop * tracks.period for stop in detector.predict(pen=penalty)[:-1]
            ]
    return found


def score_episodes(method: Method, episodes: Sequence[LoggedEpisode]) -> list[SegmentScore]:
    """The score of each episode; an arm that a method does not see has no boundaries there."""
    scores = []
    for episode in episodes:
        found, arms = method(episode), dict.fromkeys(event.arm for event in episode.events)
        true = list(true_boundaries(episode))
        scores.append(
            add_scores(
                [
                    score_arm(
                        sorted(found.get(arm, ())),
                        [second for own, second in true if own == arm],
                        [event for event in episode.events if event.arm == arm],
                        episode.duration,
                    )
                    for arm in arms
                ]
            )
        )
    return scores


def format_row(name: str, scores: Sequence[SegmentScore]) -> str:
    """A row of the table, with 95 % intervals by drawing episodes."""
    measures, spans = summarise(add_scores(scores)), bootstrap_intervals(scores, _WITH_INTERVAL)

    def cell(key: str) -> str:
        text = f"{measures[key]:.1f}" if key == "edit" else f"{measures[key]:.3f}"
        if key not in spans:
            return text
        digits = 1 if key == "edit" else 3
        return f"{text} ({spans[key][0]:.{digits}f} to {spans[key][1]:.{digits}f})"

    keys = ("F1", "short recall", "precision", "recall", "edit", "over", "under")
    return f"| {name} | {' | '.join(map(cell, keys))} | {measures['error']:.2f} s |"


def print_trait(trait: str, episodes: Sequence[LoggedEpisode], scores: Sequence[SegmentScore]) -> None:
    """A row of our method for each value of a trait."""
    for value in sorted({episode.traits[trait] for episode in episodes}):
        own = [
            score for episode, score in zip(episodes, scores, strict=True) if episode.traits[trait] == value
        ]
        print(format_row(f"signals, {trait}: {value}", own))


def print_speed(episodes: Sequence[LoggedEpisode]) -> None:
    """Episodes a second on one core, without reading and writing."""
    started = time.process_time()
    for episode in episodes:
        find_signal_boundaries(episode.trajectory, _meaning(episode), episode.duration)
    spent = time.process_time() - started
    steps = sum(len(episode.trajectory.timestamps) for episode in episodes) / len(episodes)
    print(f"\n{len(episodes) / max(spent, 1e-9):.0f} episodes a second of processor, {steps:.0f} steps each")


if __name__ == "__main__":
    main()
