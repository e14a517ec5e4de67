"""One episode of an HDF5 file made into a record: which array is what, whatever family the file is of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ares import files
from ares.episode import ASSUMED_RATE_HZ, Camera, Episode, Json, RateSource, Record, Signal, Trajectory
from ares.episode import episode_id as identity
from ares.errors import SourceError
from ingest.hdf5_values import Reader, has_pictures, short
from ingest.roles import distinct

FORMAT = "hdf5"

# No filter of HDF5 packs tighter than deflate on zeros; a damaged shape would ask for all memory.
_MOST_PACKED = 1100
_SMALL_BYTES = 2**24


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One episode of a file, before it is read.

    Attributes:
        dataset: Its dataset.
        split: "train", "valid", or "".
        key: Path of the file in the dataset and, where it holds several, the episode's name.
        path: Absolute path of the file.
        group: Where it is in the file, "" for a file that is one episode.
        rate_hz: Rate given by the user, or None.
        masks: Every mask of the file that names the episode.
    """

    dataset: str
    split: str
    key: str
    path: str
    group: str = ""
    rate_hz: float | None = None
    masks: tuple[str, ...] = ()

    @property
    def episode_id(self) -> str:
        """Its identity."""
        return identity(format=FORMAT, dataset=self.dataset, version="", split=self.split, key=self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Which arrays of an episode are what, by label; those not named are cameras or further signals.

    Attributes:
        action: Put side by side in this order.
        state: So too.
        action_names: Names of the dimensions, used when they are as many.
        state_names: So too.
        reward: The reward.
        left_out: Labels that are not stored.
    """

    action: Sequence[str]
    state: Sequence[str]
    action_names: Sequence[str] = ()
    state_names: Sequence[str] = ()
    reward: str = ""
    left_out: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a family knows of an episode besides its arrays.

    Attributes:
        rate_source: Who says how many steps there are in a second.
        robot: Which robot, or "".
        instructions: As written.
        success: Outcome from an honest field, or None.
        success_source: That field.
        metadata: What else is said of it.
        cameras: Cameras that lie in other files.
    """

    rate_source: RateSource
    robot: str = ""
    instructions: Sequence[str] = ()
    success: bool | None = None
    success_source: str = ""
    metadata: Mapping[str, Json] = field(default_factory=dict)
    cameras: Sequence[Camera] = ()


def rate(asked: float | None, known: float | None, source: RateSource = "spec") -> tuple[float, RateSource]:
    """Steps per second and who says so: the user, else the source or the spec, else nobody."""
    if asked is not None:
        return asked, "user"
    return (known, source) if known else (ASSUMED_RATE_HZ, "assumed")


def count_steps(named: Mapping[str, Any], action: Sequence[str], where: str) -> int:
    """Steps of an episode: rows of its first action array.

    Raises SourceError when it has no action or no step.
    """
    found = [named[label] for label in action if label in named]
    if not found or found[0].ndim == 0 or found[0].dtype.kind not in "biuf":
        raise SourceError("episode holds no action", f"{where}: there are {', '.join(named) or 'no arrays'}")
    if not len(found[0]):
        raise SourceError("episode holds no step", where)
    if found[0].nbytes > max(_MOST_PACKED * files.state(found[0].file.filename).size, _SMALL_BYTES):
        raise SourceError(
            "HDF5 file is cut or damaged", f"{where}: {len(found[0])} steps are more than it can hold"
        )
    return len(found[0])


def make_record(
    entry: Entry, reader: Reader, named: Mapping[str, Any], layout: Layout, about: About
) -> Record:
    """Read the arrays and put the record together. Raises SourceError when they cannot be read."""
    action = reader.signal(_chosen(named, layout.action), layout.action_names)
    if action is None:
        raise SourceError("episode holds no action", f"{entry.path} {entry.group}: {reader.warnings[-1]}")
    state = reader.signal(_chosen(named, layout.state), layout.state_names)
    rewards = _chosen(named, [layout.reward])
    reward = reader.signal(rewards) if rewards else None
    used = {*layout.action, *layout.state, layout.reward, *layout.left_out}
    cameras, extra = _others(reader, {name: one for name, one in named.items() if name not in used})
    instructions = distinct(list(about.instructions))
    masks: dict[str, Json] = {"masks": list(entry.masks)} if entry.masks else {}
    episode = Episode(
        episode_id=entry.episode_id,
        format=FORMAT,
        dataset=entry.dataset,
        version="",
        split=entry.split,
        key=entry.key,
        source=entry.path,
        content_hash=reader.content_hash,
        instruction=instructions[0] if instructions else "",
        instructions=instructions,
        robot=about.robot,
        num_steps=reader.steps,
        rate_hz=reader.rate_hz,
        rate_source=about.rate_source,
        cameras=(*cameras, *about.cameras),
        success=about.success,
        success_source=about.success_source,
        state_names=state.names if state else (),
        action_names=action.names,
        metadata={**about.metadata, **masks},
    )
    trajectory = _trajectory(reader, state, action, reward, extra)
    return Record(episode=episode, trajectory=trajectory, warnings=tuple(dict.fromkeys(reader.warnings)))


def _chosen(named: Mapping[str, Any], labels: Sequence[str]) -> dict[str, Any]:
    return {label: named[label] for label in labels if label in named}


def _trajectory(
    reader: Reader, state: Signal | None, action: Signal, reward: Signal | None, extra: dict[str, Signal]
) -> Trajectory:
    import numpy as np

    if reward is not None and reward.values.shape[1] != 1:
        extra, reward = {**extra, "rewards": reward}, None
    return Trajectory(
        timestamps=np.arange(reader.steps, dtype=np.float64) / reader.rate_hz,
        state=state,
        action=action,
        reward=None if reward is None else reward.values[:, 0],
        extra=extra,
    )


def _others(reader: Reader, named: Mapping[str, Any]) -> tuple[list[Camera], dict[str, Signal]]:
    """The cameras and the further signals among the arrays that have no place yet."""
    pictures = {label: one for label, one in named.items() if has_pictures(one)}
    names = [label.rpartition("/")[2] for label in pictures]
    cameras: list[Camera] = []
    for (label, one), name in zip(pictures.items(), names, strict=True):
        unique = name if names.count(name) == 1 else short(label).replace("/", ".")
        camera = reader.camera(unique, label, one)
        if camera:
            cameras.append(camera)
    extra: dict[str, Signal] = {}
    for label, one in named.items():
        signal = None if label in pictures else reader.signal({label: one})
        if signal:
            extra[short(label)] = signal
    return cameras, extra
