"""Plan of a LeRobot export: which episodes of a set can be one dataset, looked at before anything is written."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ares.curate.sets import CurationSet
from ares.episode import Episode, Trajectory
from ares.errors import AresError, RequestError, SourceError
from ares.export.base import batches
from ares.export.failures import Failures
from ares.media import stamp

if TYPE_CHECKING:
    from ares.workspace import Workspace

_RATE_TOLERANCE = 1e-6
# Number of the group of an episode that is in none.
NOWHERE = -1


class Layout(NamedTuple):
    """What all episodes of a LeRobot dataset have in common."""

    rate_hz: float
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    cameras: tuple[tuple[str, int, int], ...]

    def __str__(self) -> str:
        cameras = ", ".join(f"{name} {width}x{height}" for name, width, height in self.cameras)
        return (
            f"{self.rate_hz:g} Hz, state {len(self.state_names)}, action {len(self.action_names)}, "
            f"cameras {cameras or 'none'}"
        )


@dataclass(slots=True)
class Group:
    """Episodes that become one LeRobot dataset.

    Attributes:
        layout: What they have in common.
        datasets: Episodes per source dataset.
        episodes: How many.
        frames: Steps over all of them.
        rewards: Episodes that have a reward.
        robots: Names of their robots.
        extras: Signals that LeRobot has no place for.
        flags: Per camera, episodes in which it has which flag.
    """

    layout: Layout
    datasets: Counter[str] = field(default_factory=Counter)
    episodes: int = 0
    frames: int = 0
    rewards: int = 0
    robots: set[str] = field(default_factory=set)
    extras: set[str] = field(default_factory=set)
    flags: dict[str, Counter[str]] = field(default_factory=dict)

    @property
    def rate_hz(self) -> int:
        """Frames per second; LeRobot knows whole numbers only."""
        return round(self.layout.rate_hz)

    @property
    def has_reward(self) -> bool:
        """Whether every episode has a reward: a column cannot be there for some."""
        return self.rewards == self.episodes

    @property
    def name(self) -> str:
        """The source dataset that most of its episodes come from."""
        return self.datasets.most_common(1)[0][0]

    def is_black(self, camera: str) -> bool:
        """Whether a camera shows nothing in any episode."""
        return self.flags[camera]["black"] == self.episodes

    @property
    def cameras(self) -> list[str]:
        """Cameras to export."""
        return [name for name, _, _ in self.layout.cameras if not self.is_black(name)]

    def left_out(self) -> list[str]:
        """What is in the source and not in the export."""
        name = self.name
        black = [camera for camera, _, _ in self.layout.cameras if self.is_black(camera)]
        left = [f"camera {camera} of {name}: black in every episode" for camera in black]
        if 0 < self.rewards < self.episodes:
            left.append(f"reward of {name}: only {self.rewards} of {self.episodes} episodes have one")
        return left + [f"signal {signal} of {name}" for signal in sorted(self.extras)]

    def add(self, episode: Episode, trajectory: Trajectory) -> None:
        """Count an episode in."""
        self.datasets[episode.dataset] += 1
        self.episodes += 1
        self.frames += episode.num_steps
        self.rewards += trajectory.reward is not None
        self.robots.add(episode.robot)
        self.extras.update(trajectory.extra)
        for camera in episode.cameras:
            self.flags.setdefault(camera.name, Counter()).update(camera.flags)


@dataclass(frozen=True, slots=True)
class Plan:
    """The datasets to write.

    Attributes:
        groups: One per dataset.
        folders: Where each goes inside the export; "." when there is one only.
        member: For each episode of the set, in its order, the index of its group, or NOWHERE.
    """

    groups: list[Group]
    folders: list[str]
    member: list[int]


def plan(ws: Workspace, chosen: CurationSet, failures: Failures) -> Plan:
    """Look at every episode of a set; those that cannot be exported are failures.

    Raises:
        MediaError: There are too many of those.
        RequestError: A rate is no whole number.
    """
    groups: dict[Layout, Group] = {}
    index: dict[Layout, int] = {}
    member: list[int] = []
    for batch in batches(ws, ws.sets.ids(chosen), failures):
        placed: dict[str, int] = {}
        for episode in batch.episodes:
            trajectory = batch.trajectories[episode.episode_id]
            try:
                check(episode, trajectory)
            except AresError as error:
                failures.add(episode.episode_id, error)
                continue
            layout = layout_of(episode)
            groups.setdefault(layout, Group(layout)).add(episode, trajectory)
            placed[episode.episode_id] = index.setdefault(layout, len(index))
        member += [placed.get(episode_id, NOWHERE) for episode_id in batch.asked]
    failures.check(chosen.episodes)
    _check_rates(list(groups.values()))
    return Plan(list(groups.values()), _folders(list(groups.values())), member)


def layout_of(episode: Episode) -> Layout:
    """The layout of one episode."""
    return Layout(
        rate_hz=episode.rate_hz,
        state_names=episode.state_names,
        action_names=episode.action_names,
        cameras=tuple(sorted((camera.name, camera.width, camera.height) for camera in episode.cameras)),
    )


def check(episode: Episode, trajectory: Trajectory) -> None:
    """Whether an episode can be exported at all: signals of the right shape, finite, and its media in place.

    Raises SourceError or MediaError.
    """
    import numpy as np

    if episode.num_steps < 1:
        raise SourceError("the episode has no steps")
    signals = (
        ("state", trajectory.state, episode.state_names),
        ("action", trajectory.action, episode.action_names),
    )
    for name, signal, names in signals:
        shape = signal.values.shape if signal else (episode.num_steps, 0)
        if shape != (episode.num_steps, len(names)):
            raise SourceError(
                f"the {name} has a wrong shape", f"{shape}, not {(episode.num_steps, len(names))}"
            )
        if signal and not np.isfinite(signal.values).all():
            raise SourceError(
                f"the {name} holds values that are not finite", "training on it would yield NaN"
            )
    for camera in episode.cameras:
        stamp.check(camera.media)


def _check_rates(groups: list[Group]) -> None:
    odd = [group for group in groups if not _is_whole(group.layout.rate_hz)]
    if odd:
        said = "; ".join(f"{group.name}: {group.episodes} episodes, {group.layout}" for group in odd)
        raise RequestError(
            "LeRobot needs a whole number of frames per second",
            f"{said}. Make a set without them (--where 'rate_hz = 10'), or export as parquet",
        )


def _is_whole(rate_hz: float) -> bool:
    return rate_hz >= 1 and abs(rate_hz - round(rate_hz)) <= _RATE_TOLERANCE


def _folders(groups: list[Group]) -> list[str]:
    """A folder name per group; the second group of a dataset gets a number."""
    if len(groups) == 1:
        return ["."]
    taken: Counter[str] = Counter()
    folders = []
    for group in groups:
        name = re.sub(r"[^A-Za-z0-9._-]+", "_", group.name).strip(".") or "dataset"
        taken[name] += 1
        folders.append(name if taken[name] == 1 else f"{name}-{taken[name]}")
    return folders
