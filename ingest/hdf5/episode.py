"""Builds the record of an HDF5 episode from its arrays and the roles that its family gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ares.episode import Camera, Episode, Json, RateSource, Record, Signal, Trajectory, make_episode_id
from ares.errors import SourceError
from ares.io import file_state
from ingest.hdf5.reader import HDF5EpisodeReader, holds_images, short_label
from ingest.names import distinct_texts
from ingest.stamps import NO_TIME, SpecTime, StepTimes, missing_time_error, spec_times

FORMAT = "hdf5"

# No HDF5 filter compresses better than deflate on zeros. A damaged shape could otherwise claim all memory.
_LARGEST_COMPRESSION_RATIO = 1100
_SMALL_BYTES = 2**24


@dataclass(frozen=True, slots=True, kw_only=True)
class HDF5Entry:
    """One episode of a file, before it is read.

    Attributes:
        dataset: Name of the dataset.
        split: "train", "valid", or "".
        key: Path of the file in the dataset and, where the file holds several episodes, the episode's name.
        path: Absolute path of the file.
        group: HDF5 group of the episode, "" for a file that is one episode.
        rate_hz: Rate set by the user, or None.
        masks: Every mask of the file that lists the episode.
        time: The dataset that a spec names as the times of the steps.
    """

    dataset: str
    split: str
    key: str
    path: str
    group: str = ""
    rate_hz: float | None = None
    masks: tuple[str, ...] = ()
    time: SpecTime = NO_TIME

    @property
    def episode_id(self) -> str:
        """Identity of the episode."""
        return make_episode_id(
            format=FORMAT, dataset=self.dataset, version="", split=self.split, key=self.key
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayRoles:
    """Roles of the arrays of an episode, by label; all other arrays are cameras or extra signals.

    Attributes:
        action: Arrays that make up the action, joined in this order.
        state: Arrays that make up the state, joined in this order.
        action_names: Names of the action's dimensions, used when their number matches.
        state_names: Names of the state's dimensions, used when their number matches.
        reward: Array of the reward, or "".
        left_out: Labels that are not stored.
        image_names: Last parts of labels that every camera has; such a camera is named after its folder.
    """

    action: Sequence[str]
    state: Sequence[str]
    action_names: Sequence[str] = ()
    state_names: Sequence[str] = ()
    reward: str = ""
    left_out: frozenset[str] = frozenset()
    image_names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeDetails:
    """What is known about an episode besides its arrays.

    Attributes:
        rate_source: Where the rate comes from.
        robot: Name of the robot, or "".
        instructions: Instructions as written.
        success: Outcome from a field that records it, or None.
        success_source: Name of that field.
        metadata: Other values for the episode's metadata.
        cameras: Cameras whose frames are in other files.
    """

    rate_source: RateSource
    robot: str = ""
    instructions: Sequence[str] = ()
    success: bool | None = None
    success_source: str = ""
    metadata: Mapping[str, Json] = field(default_factory=dict)
    cameras: Sequence[Camera] = ()


def count_steps(datasets: Mapping[str, Any], action: Sequence[str], where: str) -> int:
    """Steps of an episode, which are the rows of its first action array, or of the first state where none is needed.

    Raises SourceError when it has no action or no step.
    """
    actions = [datasets[label] for label in action if label in datasets]
    if not actions or actions[0].ndim == 0 or actions[0].dtype.kind not in "biuf":
        raise SourceError(
            "episode holds no action", f"{where}: there are {', '.join(datasets) or 'no arrays'}"
        )
    if not len(actions[0]):
        raise SourceError("episode holds no step", where)
    file_bytes = file_state(actions[0].file.filename).size
    if actions[0].nbytes > max(_LARGEST_COMPRESSION_RATIO * file_bytes, _SMALL_BYTES):
        raise SourceError(
            "HDF5 file is cut or damaged", f"{where}: {len(actions[0])} steps are more than it can hold"
        )
    return len(actions[0])


def make_record(
    entry: HDF5Entry,
    reader: HDF5EpisodeReader,
    datasets: Mapping[str, Any],
    roles: ArrayRoles,
    details: EpisodeDetails,
) -> Record:
    """Read the arrays and build the record. Raises SourceError when they cannot be read."""
    times = _spec_step_times(entry, reader, datasets)
    if times:
        reader.rate_hz, details = times.rate_hz, replace(details, rate_source=times.rate_source)
    action = reader.read_signal(_select_datasets(datasets, roles.action), roles.action_names, use="action")
    if action is None and roles.action:
        raise SourceError("episode holds no action", f"{entry.path} {entry.group}: {reader.warnings[-1]}")
    state = reader.read_signal(_select_datasets(datasets, roles.state), roles.state_names, use="state")
    rewards = _select_datasets(datasets, [roles.reward])
    reward = reader.read_signal(rewards, use="reward") if rewards else None
    used = {*roles.action, *roles.state, roles.reward, entry.time.key, *roles.left_out}
    others = {label: dataset for label, dataset in datasets.items() if label not in used}
    cameras, extra = _cameras_and_extra_signals(reader, others, roles.image_names)
    trajectory = _make_trajectory(reader, state, action, reward, extra)
    episode = _make_episode(entry, reader, state, action, cameras, details)
    return Record(
        episode=episode,
        trajectory=replace(trajectory, timestamps=times.seconds) if times else trajectory,
        warnings=tuple(dict.fromkeys(reader.warnings)),
        arrays=tuple(reader.arrays),
        has_stamps=times is not None,
    )


def _spec_step_times(
    entry: HDF5Entry, reader: HDF5EpisodeReader, datasets: Mapping[str, Any]
) -> StepTimes | None:
    """The steps by the dataset that the spec names; None where it names none. Raises SourceError for no times."""
    key, where = entry.time.key, f"{entry.path} {entry.group}".strip()
    if not key:
        return None
    if key not in datasets:
        raise missing_time_error(key, datasets, where)
    stamps = reader.read_stored(key, datasets[key])
    warnings: dict[str, None] = {}
    times = spec_times(stamps, key, entry.time.unit, entry.rate_hz, where, warnings)
    reader.warnings += warnings
    return times


def _make_episode(
    entry: HDF5Entry,
    reader: HDF5EpisodeReader,
    state: Signal | None,
    action: Signal | None,
    cameras: Sequence[Camera],
    details: EpisodeDetails,
) -> Episode:
    instructions = distinct_texts(list(details.instructions))
    masks: dict[str, Json] = {"masks": list(entry.masks)} if entry.masks else {}
    return Episode(
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
        robot=details.robot,
        num_steps=reader.steps,
        rate_hz=reader.rate_hz,
        rate_source=details.rate_source,
        cameras=(*cameras, *details.cameras),
        success=details.success,
        success_source=details.success_source,
        state_names=state.names if state else (),
        action_names=action.names if action else (),
        metadata={**details.metadata, **masks},
        frame_pairing="stamp" if details.cameras else "index",
    )


def _select_datasets(datasets: Mapping[str, Any], labels: Sequence[str]) -> dict[str, Any]:
    return {label: datasets[label] for label in labels if label in datasets}


def _make_trajectory(
    reader: HDF5EpisodeReader,
    state: Signal | None,
    action: Signal | None,
    reward: Signal | None,
    extra: dict[str, Signal],
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


def _cameras_and_extra_signals(
    reader: HDF5EpisodeReader, datasets: Mapping[str, Any], image_names: frozenset[str]
) -> tuple[list[Camera], dict[str, Signal]]:
    """Cameras and extra signals among the arrays that have no role."""
    image_datasets = {label: dataset for label, dataset in datasets.items() if holds_images(dataset)}
    names = [_camera_name(label, image_names) for label in image_datasets]
    cameras: list[Camera] = []
    for (label, images), name in zip(image_datasets.items(), names, strict=True):
        unique_name = name if names.count(name) == 1 else short_label(label).replace("/", ".")
        camera = reader.read_camera(unique_name, label, images)
        if camera:
            cameras.append(camera)
    extra: dict[str, Signal] = {}
    for label, dataset in datasets.items():
        signal = (
            None
            if label in image_datasets
            else reader.read_signal({label: dataset}, signal_name=short_label(label))
        )
        if signal:
            extra[short_label(label)] = signal
    return cameras, extra


def _camera_name(label: str, image_names: frozenset[str]) -> str:
    folder, _, name = label.rpartition("/")
    return folder.rpartition("/")[2] if name in image_names and folder else name
