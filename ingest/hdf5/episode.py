"""Builds the record of an HDF5 episode from arrays with roles and its videos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ares.episode import (
    Camera,
    Episode,
    Json,
    MediaRef,
    NotRead,
    Record,
    Role,
    Signal,
    Trajectory,
)
from ares.errors import SourceError
from ares.media import VideoInfo, frozen_camera_flags, probe_video
from ares_ingest.base import EpisodeEntry, make_episode
from ares_ingest.depth import add_depth
from ares_ingest.episode_ends import NO_ENDS, EpisodeEnds
from ares_ingest.files import add_missing_cameras, describe_camera, hash_media_files
from ares_ingest.hdf5.array_roles import ArrayRoles
from ares_ingest.hdf5.reader import HDF5EpisodeReader, holds_depth, holds_images, shorten_array_label
from ares_ingest.signals import StepTimes, compute_spec_step_times, missing_time_error

if TYPE_CHECKING:
    from ares_ingest.spec import DatasetSpec, LayoutSpec


FORMAT = "hdf5"


@dataclass(frozen=True, slots=True, kw_only=True)
class HDF5Entry(EpisodeEntry):
    """One episode of a file, before it is read.

    Attributes:
        path: Absolute path of the file.
        group: HDF5 group of the episode, "" for a file that is one episode.
        masks: Every mask of the file that lists the episode.
        spec: What the user knows of the dataset, or None.
        layout: Where its file keeps what; None where names and shapes are to tell it.
        rows: First row and end of its rows in a file whose arrays hold several episodes; None for all.
        file_ends: What says where episodes end in these arrays, and how many rows they have.
    """

    format: str = FORMAT
    path: str
    group: str = ""
    masks: tuple[str, ...] = ()
    spec: DatasetSpec | None = None
    layout: LayoutSpec | None = None
    rows: tuple[int, int] | None = None
    file_ends: EpisodeEnds = NO_ENDS


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
        "metadata": add_missing_cameras(
            add_depth({**fields["metadata"], **masks}, reader.depth), reader.missing
        ),
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
        reader.warnings.append(NotRead(f"camera {name} is not stored ({error.reason})"))
        reader.missing.append(name)
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
