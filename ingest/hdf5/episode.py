"""Builds the record of an HDF5 episode from arrays with roles, known or guessed, and its videos."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from string import digits
from typing import TYPE_CHECKING, Any

from ares.console import count_are
from ares.episode import (
    Camera,
    Episode,
    Json,
    MediaRef,
    Record,
    Role,
    Signal,
    Trajectory,
)
from ares.errors import SourceError
from ares.input import open_hdf5
from ares.io import file_state
from ares.media import VideoInfo, frozen_camera_flags, probe_video
from ingest.array_episode import guess_array_roles, natural_key
from ingest.base import EpisodeEntry, make_episode
from ingest.depth import add_depth
from ingest.files import describe_camera, hash_media_files
from ingest.hdf5.reader import HDF5EpisodeReader, holds_depth, holds_images, shorten_array_label
from ingest.hdf5.values import read_child_classes
from ingest.signals import (
    MAX_SIGNAL_WIDTH,
    StepTimes,
    compute_spec_step_times,
    missing_time_error,
)

if TYPE_CHECKING:
    from ingest.spec import DatasetSpec, LayoutSpec


FORMAT = "hdf5"

# No HDF5 filter compresses better than deflate on zeros. A damaged shape could otherwise claim all memory.
_LARGEST_COMPRESSION_RATIO = 1100
_SMALL_BYTES = 2**24


@dataclass(frozen=True, slots=True, kw_only=True)
class HDF5Entry(EpisodeEntry):
    """One episode of a file, before it is read.

    Attributes:
        path: Absolute path of the file.
        group: HDF5 group of the episode, "" for a file that is one episode.
        masks: Every mask of the file that lists the episode.
        spec: What the user knows of the dataset, or None.
        layout: Where its file keeps what; None where names and shapes are to tell it.
    """

    format: str = FORMAT
    path: str
    group: str = ""
    masks: tuple[str, ...] = ()
    spec: DatasetSpec | None = None
    layout: LayoutSpec | None = None


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
            "HDF5 file is cut or damaged",
            f"{where}: {count_are(len(actions[0]), 'step')} more than it can hold",
        )
    return len(actions[0])


def make_record(
    entry: HDF5Entry,
    reader: HDF5EpisodeReader,
    datasets: Mapping[str, Any],
    roles: ArrayRoles,
    fields: Mapping[str, Any],
) -> Record:
    """Read the arrays and build the record.

    Args:
        entry: The episode.
        reader: What reads its arrays.
        datasets: Its datasets.
        roles: What they are.
        fields: Texts, cameras whose frames are in other files, and the other fields of an Episode.

    Raises SourceError when they cannot be read.
    """
    times = _spec_step_times(entry, reader, datasets)
    if times:
        reader.rate_hz, fields = times.rate_hz, {**fields, "rate_source": times.rate_source}
    action = reader.read_signal(_select_datasets(datasets, roles.action), roles.action_names, use="action")
    if action is None and roles.action:
        raise SourceError("episode holds no action", f"{entry.path} {entry.group}: {reader.warnings[-1]}")
    state = reader.read_signal(_select_datasets(datasets, roles.state), roles.state_names, use="state")
    rewards = _select_datasets(datasets, [roles.reward])
    reward = reader.read_signal(rewards, use="reward") if rewards else None
    used = {*roles.action, *roles.state, roles.reward, *roles.left_out}
    used |= {entry.spec.timestamps} if entry.spec else set()
    others = {label: dataset for label, dataset in datasets.items() if label not in used}
    cameras, extra = _cameras_and_extra_signals(reader, others, roles.image_names)
    trajectory = _make_trajectory(reader, state, action, reward, extra)
    episode = _make_episode(entry, reader, trajectory, cameras, fields)
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
    where = f"{entry.path} {entry.group}".strip()
    if entry.spec is None or not entry.spec.timestamps:
        return None
    key = entry.spec.timestamps
    if key not in datasets:
        raise missing_time_error(key, datasets, where)
    stamps = reader.read_stored(key, datasets[key])
    warnings: dict[str, None] = {}
    times = compute_spec_step_times(stamps, key, entry.spec.time_unit, entry.rate_hz, where, warnings)
    reader.warnings += warnings
    return times


def _make_episode(
    entry: HDF5Entry,
    reader: HDF5EpisodeReader,
    trajectory: Trajectory,
    cameras: Sequence[Camera],
    fields: Mapping[str, Any],
) -> Episode:
    masks: dict[str, Json] = {"masks": list(entry.masks)} if entry.masks else {}
    of_files = fields.get("cameras", ())
    known = {
        "rate_hz": reader.rate_hz,
        "cameras": (*cameras, *of_files),
        "metadata": add_depth({**fields["metadata"], **masks}, reader.depth),
        "frame_pairing": "stamp" if of_files else "index",
    }
    return make_episode(
        entry, trajectory, source=entry.path, content_hash=reader.content_hash, **{**fields, **known}
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
    depth = {label: dataset for label, dataset in datasets.items() if holds_depth(label, dataset)}
    for label, images in depth.items():
        reader.keep_depth(shorten_array_label(label).replace("/", "."), label, images)
    datasets = {label: dataset for label, dataset in datasets.items() if label not in depth}
    image_datasets = {label: dataset for label, dataset in datasets.items() if holds_images(dataset)}
    names = [_camera_name(label, image_names) for label in image_datasets]
    cameras: list[Camera] = []
    for (label, images), name in zip(image_datasets.items(), names, strict=True):
        unique_name = name if names.count(name) == 1 else shorten_array_label(label).replace("/", ".")
        camera = reader.read_camera(unique_name, label, images)
        if camera:
            cameras.append(camera)
    extra: dict[str, Signal] = {}
    for label, dataset in datasets.items():
        signal = (
            None
            if label in image_datasets
            else reader.read_signal({label: dataset}, signal_name=shorten_array_label(label))
        )
        if signal:
            extra[shorten_array_label(label)] = signal
    return cameras, extra


def _camera_name(label: str, image_names: frozenset[str]) -> str:
    folder, _, name = label.rpartition("/")
    return folder.rpartition("/")[2] if name in image_names and folder else name


# A video about as long as the episode keeps its own rate; any other has one frame per step.
_LENGTH_TOLERANCE = 0.05


def make_video_camera(
    name: str, role: Role, path: str, reader: HDF5EpisodeReader, hash_label: str = ""
) -> Camera | None:
    """The camera of a video; None, and a warning, when the video cannot be read.

    Args:
        name: The camera's name.
        role: Where it looks from.
        path: Path of the video.
        reader: Reader of the episode, which hashes the video and collects the warnings.
        hash_label: Label of the video in the content hash; the name where it is "".
    """
    try:
        info = probe_video(path)
    except SourceError as error:
        reader.warnings.append(f"camera {name} is not stored ({error.reason})")
        return None
    reader.add_to_hash(hash_label or name, hash_media_files([path]).encode())
    return _describe_video_camera(name, role, path, info, reader)


def _describe_video_camera(
    name: str, role: Role, path: str, info: VideoInfo, reader: HDF5EpisodeReader
) -> Camera:
    rate_hz, length = reader.rate_hz, reader.steps / reader.rate_hz
    is_of_equal_length = abs(info.duration_seconds - length) <= _LENGTH_TOLERANCE * length
    if info.num_frames != reader.steps and is_of_equal_length:
        rate_hz = info.rate_hz
    media = MediaRef(
        kind="mp4",
        uri=path,
        start_seconds=0.0,
        stop_seconds=info.duration_seconds,
        num_frames=info.num_frames,
        rate_hz=rate_hz,
    )
    flags = frozen_camera_flags(media, info.inactive_spans, 0)
    return describe_camera(name, info, media, flags=flags, role=role)


def list_unknown_episode_groups(path: str) -> list[str]:
    """The groups of a file that are its episodes: numbered, and all that it holds; [""] for one episode."""
    import h5py  # type: ignore[import-untyped]

    with open_hdf5(path) as file:
        classes = read_child_classes(file)
    names = sorted(classes, key=natural_key)
    prefixes = {name.rstrip(digits) for name in names}
    is_numbered = all(name[-1] in digits for name in names) and len(prefixes) == 1
    is_groups = bool(names) and all(classes[name] is h5py.Group for name in names)
    return names if is_groups and is_numbered else [""]


def signal_widths(datasets: Mapping[str, Any], steps: int) -> dict[str, int]:
    """Numbers per step of each dataset that can be a signal."""
    widths = {
        label: prod(dataset.shape[1:])
        for label, dataset in datasets.items()
        if dataset.shape and dataset.dtype.kind in "biuf" and len(dataset) >= steps and dataset.ndim < 4
    }
    return {label: width for label, width in widths.items() if 0 < width <= MAX_SIGNAL_WIDTH}


def _signal_keys(labels: Collection[str], spec: DatasetSpec | None) -> list[str]:
    """Those of some datasets that the spec, else their names, make the action or the state."""
    roles = guess_array_roles(dict.fromkeys(labels, 2))
    slices = (*spec.action, *spec.state) if spec else ()
    keys = (*(part.key for part in slices), *roles.action, *roles.state)
    return [key for key in keys if key in labels]


def find_steps_key(datasets: Mapping[str, Any], spec: DatasetSpec | None) -> str:
    """The dataset whose rows are the steps: the action, else the state, else one of the most frequent length."""
    numbers = {
        label: len(dataset)
        for label, dataset in datasets.items()
        if dataset.shape is not None and dataset.ndim and dataset.dtype.kind in "biuf"
    }
    rows = {label: count for label, count in numbers.items() if count}
    keys, named = _signal_keys(rows, spec), _signal_keys(numbers, spec)
    if named and not keys:
        raise SourceError("episode holds no step", f"there is no row in {', '.join(named)}")
    if not rows:
        raise SourceError(
            "episode holds no array with rows", f"there are {', '.join(datasets) or 'no datasets'}"
        )
    most = max(Counter(rows.values()).items(), key=lambda pair: (pair[1], pair[0]))[0]
    return keys[0] if keys else next(label for label, count in rows.items() if count == most)
