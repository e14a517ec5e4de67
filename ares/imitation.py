"""What episodes lack for imitation learning, in one list."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ares.console import count_of
from ares.episode import MISSING_CAMERAS, Episode, Trajectory
from ares.errors import shorten

# Text for policies conditioned on language, which need one for every episode.
NO_TASK = "unspecified task"
# 1 for the dimensions of the action that an episode has itself, 0 for those that a merge padded.
ACTION_MASK = "mask.action"
# What a check measures itself, the second of each camera.
MEASURED = ("no action", "no state", "no camera", "no language")
MEASURED_OF_CAMERAS = ("black camera", "missing camera", "several sizes of camera")
_NO_ACTION, _NO_STATE, _NO_CAMERA, _NO_LANGUAGE = MEASURED
_BLACK, _MISSING, _SIZES = MEASURED_OF_CAMERAS


class EpisodeNeeds(NamedTuple):
    """What an episode lacks in words, its dataset, its cameras with their sizes, and those that it misses."""

    lacks: tuple[str, ...]
    dataset: str
    cameras: tuple[tuple[str, str], ...]
    missing: tuple[str, ...]


def find_needs(episode: Episode, trajectory: Trajectory, task: str) -> EpisodeNeeds:
    """What an episode lacks.

    Args:
        episode: The episode.
        trajectory: Its signals.
        task: The text that a policy would be given.
    """
    mask, names = trajectory.extra.get(ACTION_MASK), episode.metadata.get(MISSING_CAMERAS)
    black = [camera.name for camera in episode.cameras if "black" in camera.flags]
    sizes = tuple((camera.name, f"{camera.width}x{camera.height}") for camera in episode.cameras)
    missing = tuple(map(str, names)) if isinstance(names, list) else ()
    lacks = {
        _NO_ACTION: not episode.action_names,
        _NO_STATE: not episode.state_names,
        "padded action": mask is not None and not mask.values.all(),
        _NO_LANGUAGE: task in ("", NO_TASK),
        "unknown rate": episode.rate_source == "assumed",
        _NO_CAMERA: not sizes and not missing,
        "fewer than two cameras of a source with more": len(sizes) - len(black) < 2 <= len(sizes + missing),
        **{f"{_BLACK} {name}": True for name in black},
    }
    return EpisodeNeeds(
        tuple(lack for lack, is_so in lacks.items() if is_so), episode.dataset, sizes, missing
    )


@dataclass(slots=True)
class ImitationNeeds:
    """Counts what many episodes lack. Datasets may differ in their cameras, episodes of one may not.

    Attributes:
        episodes: Number of them by dataset.
        lacks: Episodes by what they lack.
        cameras: Episodes by dataset and camera; 0 for one that a source names and no episode has.
        sizes: Sizes by dataset and camera.
    """

    episodes: Counter[str] = field(default_factory=Counter)
    lacks: Counter[str] = field(default_factory=Counter)
    cameras: Counter[tuple[str, str]] = field(default_factory=Counter)
    sizes: defaultdict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, needs: EpisodeNeeds) -> None:
        """Count an episode."""
        self.episodes[needs.dataset] += 1
        self.lacks.update(needs.lacks)
        self.cameras.update({(needs.dataset, name): 0 for name in needs.missing})
        for name, size in needs.cameras:
            self.cameras[needs.dataset, name] += 1
            self.sizes[needs.dataset, name].add(size)

    def lines(self) -> tuple[str, ...]:
        """For example "no action: 12 of 28 episodes", sorted; empty where nothing is lacking."""
        return tuple(sorted(set(self._lines())))

    def _lines(self) -> Iterator[str]:
        missing = Counter[str]()
        for (dataset, name), count in self.cameras.items():
            missing[f"{_MISSING} {name}"] += self.episodes[dataset] - count
        for lack, count in (self.lacks + missing).items():
            yield f"{lack}: {count} of {count_of(self.episodes.total(), 'episode')}"
        for (_, name), sizes in self.sizes.items():
            if len(sizes) > 1:
                yield f"{_SIZES} {name}: {shorten(', '.join(sorted(sizes)))}"
