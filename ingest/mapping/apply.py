"""Applies a spec to a record: it decides over what the reader of the format guessed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ares.episode import Camera, Episode, Record
from ares.errors import SourceError
from ares.registry import did_you_mean
from ingest.base import MISSING
from ingest.mapping.signals import map_signals, signals_by_key
from ingest.mapping.texts import map_instructions, map_outcome
from ingest.names import camera_role

if TYPE_CHECKING:
    from ingest.dataset_spec import CameraSpec, DatasetSpec


def apply_spec(record: Record, spec: DatasetSpec, *, sets_rate: bool = False) -> Record:
    """The record as a spec describes it.

    Args:
        record: As the reader of its format made it.
        spec: What the user knows of the dataset.
        sets_rate: Whether the rate that the reader was given is that of the spec.

    Raises:
        SourceError: The spec names an array that the record lacks, or more numbers than it has.
    """
    trajectory = map_signals(record, spec)
    cameras, camera_warnings = _map_cameras(record, spec)
    success, success_source, outcome_warnings = map_outcome(record.episode, signals_by_key(record), spec)
    instructions = map_instructions(record.episode, spec)
    episode = replace(
        record.episode,
        cameras=cameras,
        instruction=instructions[0] if instructions else "",
        instructions=instructions,
        success=success,
        success_source=success_source,
        robot=record.episode.robot or spec.robot,
        rate_source="spec" if sets_rate else record.episode.rate_source,
        state_names=trajectory.state.names if trajectory.state else (),
        action_names=trajectory.action.names if trajectory.action else (),
    )
    warnings = (*record.warnings, *camera_warnings, *outcome_warnings)
    return replace(record, episode=episode, trajectory=trajectory, warnings=tuple(dict.fromkeys(warnings)))


def check_spec(record: Record, spec: DatasetSpec) -> None:
    """Raise SourceError for a key of the spec that this record does not have, and for what `apply_spec` refuses."""
    from ingest.dataset_spec import CameraSpec

    episode, signals = record.episode, signals_by_key(record)
    arrays = {*signals, *(array.key for array in record.arrays)}
    cameras = {key for camera in episode.cameras for key in _camera_keys(camera)}
    for key in spec.left_out:
        _require(key, arrays | cameras, "left_out", episode)
    for name, camera in spec.cameras.items():
        _require((camera.key if isinstance(camera, CameraSpec) else "") or name, cameras, "cameras", episode)
    for part in spec.language:
        if isinstance(part, str):
            _require(part.partition(".")[0], {*episode.metadata, *arrays}, "language", episode, part)
    if spec.success:
        known = {*episode.metadata, *arrays, *filter(None, [episode.success_source])}
        _require(spec.success.partition(".")[0], known, "success", episode, spec.success)
    for role, key in (("timestamps", spec.timestamps), ("episode_ends", spec.episode_ends)):
        known = {array.key for array in record.arrays if array.use in ("time", "ends")}
        if key and not known:
            detail = f"{episode.source}: {role} names {key!r}; {episode.format} data leave no choice of it"
            raise SourceError("field of the spec is for other formats", detail)
        if key:
            _require(key, known, role, episode)
    apply_spec(record, spec)


def _require(key: str, known: set[str], role: str, episode: Episode, full_key: str = "") -> None:
    if key not in known and full_key not in known:
        names = sorted(known)
        hint = f"{did_you_mean(key, names)}there are: {', '.join(names) or 'none'}"
        raise SourceError(MISSING, f"{episode.source}: {role} names {key!r}; {hint}")


def _map_cameras(record: Record, spec: DatasetSpec) -> tuple[tuple[Camera, ...], list[str]]:
    """The cameras with the names, roles and colours of the spec, and warnings of those that the record lacks."""
    cameras: list[Camera] = []
    specs = {name: spec.camera(name) for name in {**spec.cameras, **dict.fromkeys(spec.bgr)}}
    matched: set[str] = set()
    warnings: list[str] = []
    for camera in record.episode.cameras:
        keys = _camera_keys(camera)
        if keys & set(spec.left_out):
            continue
        name = next((name for name, part in specs.items() if (part.key or name) in keys), "")
        matched.add(name)
        cameras.append(_map_camera(camera, name, specs[name], spec, warnings) if name else camera)
    names = [camera.name for camera in cameras]
    if len(set(names)) < len(names):
        raise SourceError(
            "two cameras have one name by the spec", f"{record.episode.source}: {', '.join(names)}"
        )
    missing = [name for name in spec.cameras if name not in matched]
    return tuple(cameras), warnings + [f"camera {name}, named by the spec, is missing" for name in missing]


def _camera_keys(camera: Camera) -> set[str]:
    """What a spec may call a camera: its name, or its array, also without the groups that hold the episode."""
    parts = camera.media.key.split("/")
    return {camera.name, *("/".join(parts[start:]) for start in range(len(parts)))} - {""}


def _map_camera(
    camera: Camera, name: str, part: CameraSpec, spec: DatasetSpec, warnings: list[str]
) -> Camera:
    role = part.role or (camera.role if name == camera.name else camera_role(name))
    is_swapped = name in spec.bgr and spec.bgr[name] in (None, (camera.height, camera.width))
    channels = part.channels or ("bgr" if is_swapped else camera.media.channels)
    if channels == "bgr" != camera.media.channels:
        warnings.append(f"camera {name} has red and blue swapped at the source, its frames are given as RGB")
    return replace(camera, name=name, role=role, media=replace(camera.media, channels=channels))
