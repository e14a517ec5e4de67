"""Reads one RLDS record as an episode."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ares.episode import (
    Camera,
    Json,
    MediaRef,
    NotRead,
    RateSource,
    Record,
    Signal,
    SourceArray,
    Trajectory,
)
from ares.errors import MediaError, SourceError
from ares.formats import RecordLocation, parse_tf_example, read_identity_hash, read_record
from ares.input import NamedSpan, decode_image, parse_image_header, parse_json
from ares_ingest.base import EpisodeEntry, make_episode
from ares_ingest.depth import add_depth, decode_depth, describe_depth, sampled_rows
from ares_ingest.files import add_missing_cameras, describe_camera
from ares_ingest.labels import add_segments, segment_subtasks
from ares_ingest.mapping import add_spec_parts, find_spec_text, turn_camera
from ares_ingest.rlds.feature_map import RldsCamera, RldsFeatureMap
from ares_ingest.rlds.features import (
    Feature,
    FeatureSlice,
    count_steps,
    full_feature_slices,
    is_rounded,
    read_feature_values,
    read_metadata,
    read_ragged_numbers,
    read_step_numbers,
    read_step_texts,
    read_stored_numbers,
    read_texts,
)
from ares_ingest.signals import StepTimes, compute_spec_step_times, numbered_names
from ares_ingest.source_words import distinct_texts, is_meaningful_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares_ingest.spec import DatasetSpec, TextSpec


# The note with which ARES exports an episode, and its texts of a segment.
_EXPORT_NOTE = "ares_export"
_EXPORTED_TEXTS = ("text", "style", "author", "role", "camera")


FORMAT = "rlds"


@dataclass(frozen=True, slots=True, kw_only=True)
class RldsDataset:
    """What the records of one TFDS dataset have in common.

    Attributes:
        name: Name of the dataset, as stored with its episodes.
        version: Version of the dataset, from dataset_info.json.
        rate_hz: Steps per second.
        rate_source: Where the rate comes from.
        spec: What the dataset does not state itself, or None.
        feature_map: The role of each feature.
    """

    name: str
    version: str
    rate_hz: float
    rate_source: RateSource
    spec: DatasetSpec | None
    feature_map: RldsFeatureMap


@dataclass(frozen=True, slots=True, kw_only=True)
class RldsRecordEntry(EpisodeEntry):
    """One record of a dataset, before it is read; its key is shard and number, such as "00000-of-00002/3".

    Attributes:
        settings: What it has in common with the other records of the dataset.
        path: Absolute path of the shard.
        span: Bytes of the record in the shard.
        warnings: Reasons to warn that were known before reading.
    """

    format: str = FORMAT
    settings: RldsDataset
    path: str
    span: RecordLocation
    warnings: tuple[str, ...] = ()


def load_record(entry: RldsRecordEntry) -> Record:
    """Read a record. Raises SourceError when it is broken or has no steps."""
    feature_map = entry.settings.feature_map
    location = f"{entry.path}, record {entry.key}"
    payload, content_hash = read_record(entry.path, entry.span)
    content_hash = read_identity_hash(payload) or content_hash
    example = parse_tf_example(payload, location)
    steps = count_steps(example, [*feature_map.signals, *(camera.feature for camera in feature_map.cameras)])
    if not steps:
        raise SourceError("record has no steps", location)
    notes: dict[str, None] = {}
    times = _step_times(entry.settings, example, steps, location, notes)
    dataset = replace(entry.settings, rate_hz=times.rate_hz, rate_source=times.rate_source)
    entry = replace(entry, settings=dataset, warnings=(*entry.warnings, *notes))
    record = _build_record(entry, example, steps, content_hash)
    trajectory = replace(record.trajectory, timestamps=times.seconds)
    record = replace(record, trajectory=trajectory, has_stamps=times.has_stamps)
    record = add_segments(record, _instruction_spans(feature_map, example, steps), "instructions of steps")
    record = add_segments(record, _exported_spans(record), "segments of the export")
    return segment_subtasks(record) if dataset.spec and dataset.spec.subtasks else record


def _instruction_spans(
    feature_map: RldsFeatureMap, example: Mapping[str, Any], steps: int
) -> Iterator[NamedSpan]:
    """A span for each run of steps with one instruction, where an instruction changes within the episode.

    An instruction of a step tells what the robot is to do at that step: such a run is a subtask, and becomes text of
    steps again when it is exported. Steps without an instruction belong to no run.
    """
    for feature in feature_map.language:
        if not isinstance(feature, Feature) or len(distinct_texts(read_texts(example, feature))) < 2:
            continue
        texts, start = read_step_texts(example, feature, steps), 0
        for text, run in itertools.groupby(texts):
            stop = start + len(list(run))
            if is_meaningful_text(text):
                fields = {"feature": feature.key}
                yield NamedSpan(
                    names=(), start=start, stop=stop, unit="frames", text=text.strip(), fields=fields
                )
            start = stop


def _exported_spans(record: Record) -> Iterator[NamedSpan]:
    """The segments that an export of ARES has written beside the steps, but for those that the steps have told."""
    text = record.episode.metadata.get(_EXPORT_NOTE)
    document: Any = None
    if isinstance(text, str):
        with contextlib.suppress(ValueError, SourceError):
            document = parse_json(text, _EXPORT_NOTE)
    listed = document.get("segments") if isinstance(document, dict) else None
    tolerance = 1.001 / record.episode.rate_hz
    for part in listed if isinstance(listed, list) else ():
        if not isinstance(part, dict) or not _is_exported_span(part):
            continue
        is_known = any(
            segment.text == part["text"] and abs(segment.start_seconds - part["start_seconds"]) <= tolerance
            for segment in record.segments
        )
        if not is_known:
            yield NamedSpan(
                names=(),
                start=part["start_seconds"],
                stop=part["stop_seconds"],
                unit="seconds",
                **{name: part[name] for name in _EXPORTED_TEXTS},
                fields={"arm": part["arm"]} if part.get("arm") and isinstance(part["arm"], str) else {},
            )


def _is_exported_span(part: Mapping[str, Any]) -> bool:
    """Whether an entry has all texts and a span."""
    spans = (part.get("start_seconds"), part.get("stop_seconds"))
    has_texts = all(isinstance(part.get(name), str) for name in _EXPORTED_TEXTS)
    return has_texts and all(isinstance(second, int | float) for second in spans)


def _step_times(
    dataset: RldsDataset, example: Mapping[str, Any], steps: int, where: str, notes: dict[str, None]
) -> StepTimes:
    """The steps by the feature that the spec names as their times, else evenly spaced."""
    import numpy as np

    even = StepTimes(
        np.arange(steps, dtype=np.float64) / dataset.rate_hz, dataset.rate_hz, dataset.rate_source
    )
    feature = dataset.feature_map.time
    if feature is None or dataset.spec is None:
        return even
    stamps = read_stored_numbers(example, feature)
    if stamps is None or len(stamps) != steps:
        raise SourceError("timestamps of the spec are not one number per step", f"{where}: {feature.key}")
    user_rate_hz = None if dataset.rate_source == "assumed" else dataset.rate_hz
    return (
        compute_spec_step_times(stamps, feature.key, dataset.spec.time_unit, user_rate_hz, where, notes)
        or even
    )


def _build_record(
    entry: RldsRecordEntry, example: Mapping[str, Any], steps: int, content_hash: str
) -> Record:
    dataset, feature_map, warnings = entry.settings, entry.settings.feature_map, list(entry.warnings)
    state = _build_signal(example, feature_map.state, steps, warnings)
    action = _build_signal(example, feature_map.action, steps, warnings)
    metadata = {_metadata_name(feature): read_metadata(example, feature) for feature in feature_map.metadata}
    texts = [text for part in feature_map.language for text in _texts_of_part(part, example, entry.path)]
    success, success_source = _read_outcome(example, metadata, dataset, warnings)
    cameras = tuple(_build_cameras(entry, example, steps, warnings))
    warnings.extend(_metadata_contradictions(metadata, cameras))
    if _LAST_KEY in example and (flags := example[_LAST_KEY].int64_list.value) and not any(flags):
        warnings.append("is_last is true at no step: the end of the episode is not marked")
    depth = _depth_features(entry, example, warnings)
    trajectory = _build_trajectory(dataset, example, steps, state, action, warnings)
    episode = make_episode(
        entry,
        trajectory,
        texts,
        source=entry.path,
        content_hash=content_hash,
        robot=_robot_name(metadata, dataset.spec),
        rate_hz=dataset.rate_hz,
        rate_source=dataset.rate_source,
        cameras=cameras,
        success=success,
        success_source=success_source,
        metadata=add_depth(_with_missing_cameras(metadata, feature_map, cameras), depth),
        frame_pairing="index",
    )
    episode = add_spec_parts(episode, dataset.spec)
    arrays = tuple(_further_arrays(feature_map, trajectory, steps))
    return Record(episode=episode, trajectory=trajectory, warnings=tuple(warnings), arrays=arrays)


def _further_arrays(feature_map: RldsFeatureMap, trajectory: Trajectory, steps: int) -> Iterator[SourceArray]:
    for feature in feature_map.extra:
        if (name := _signal_name(feature)) in trajectory.extra:
            shape = (steps, *(size or 0 for size in feature.shape))
            yield SourceArray(key=feature.key, use="extra", name=name, shape=shape, dtype=feature.dtype)


def _depth_features(
    entry: RldsRecordEntry, example: Mapping[str, Any], warnings: list[str]
) -> dict[str, Json]:
    """The depth of the record by name of its feature: where it is, and the range of three of its images."""
    depth: dict[str, Json] = {}
    for feature in entry.settings.feature_map.depth:
        images = read_feature_values(example, feature)
        if not images:
            continue
        location: dict[str, Json] = {"path": entry.path, "key": feature.key, "byte_offset": entry.span.offset}
        try:
            pictures = [decode_depth(images[n]) for n in sampled_rows(len(images))]
        except SourceError as error:
            warnings.append(f"{feature.key}: {error.reason}")
            continue
        depth[feature.name] = describe_depth(pictures, location, frames=len(images))
    return depth


def _with_missing_cameras(
    metadata: Mapping[str, Json], feature_map: RldsFeatureMap, cameras: Sequence[Camera]
) -> dict[str, Json]:
    """The metadata that are there, with the cameras of which the record has no images."""
    names = {camera.name for camera in cameras}
    return add_missing_cameras(
        {name: value for name, value in metadata.items() if value is not None},
        [camera.name for camera in feature_map.cameras if camera.name not in names],
    )


def _build_trajectory(
    dataset: RldsDataset,
    example: Mapping[str, Any],
    steps: int,
    state: Signal | None,
    action: Signal | None,
    warnings: list[str],
) -> Trajectory:
    import numpy as np

    feature_map, extra = dataset.feature_map, {}
    for feature_slice in full_feature_slices(feature_map.extra):
        signal = _build_signal(example, (feature_slice,), steps, warnings)
        if signal:
            feature = feature_slice.feature
            names = numbered_names(
                feature.name, len(signal.names), tuple(size or 0 for size in feature.shape)
            )
            extra[_signal_name(feature)] = Signal(signal.values, names)
    extra |= _ragged_signals(example, feature_map.ragged, steps, warnings)
    reward = _read_numbers(example, feature_map.reward, steps, warnings) if feature_map.reward else None
    return Trajectory(
        timestamps=np.arange(steps, dtype=np.float64) / dataset.rate_hz,
        state=state,
        action=action,
        reward=None if reward is None else reward[:, 0],
        extra=extra,
    )


def _ragged_signals(
    example: Mapping[str, Any], features: Sequence[Feature], steps: int, warnings: list[str]
) -> dict[str, Signal]:
    signals: dict[str, Signal] = {}
    for feature in features:
        numbers = read_ragged_numbers(example, feature, steps)
        if isinstance(numbers, str):
            warnings.append(NotRead(f"{feature.key} is not stored ({numbers})", feature.key))
        else:
            signals[_signal_name(feature)] = Signal(numbers, numbered_names(feature.name, numbers.shape[1]))
    return signals


def _signal_name(feature: Feature) -> str:
    return feature.key.removeprefix("steps/").removeprefix("observation/")


def _read_numbers(
    example: Mapping[str, Any], feature: Feature, steps: int, warnings: list[str]
) -> NDArray[np.float32] | None:
    values = read_step_numbers(example, feature, steps)
    if values is None:
        is_missing = not read_feature_values(example, feature)
        warnings.append(f"{feature.key} is {'missing' if is_missing else 'not as long as the other steps'}")
    elif is_rounded(example, feature):
        warnings.append(f"{feature.key} holds integers that float32 rounds")
    return values


def _build_signal(
    example: Mapping[str, Any], slices: Sequence[FeatureSlice], steps: int, warnings: list[str]
) -> Signal | None:
    """The slices side by side, (T, D) float32; None when the record has none of their features."""
    import numpy as np

    columns: list[NDArray[np.float32]] = []
    names: list[str] = []
    values_by_key: dict[str, NDArray[np.float32] | None] = {}
    for feature_slice in slices:
        key = feature_slice.feature.key
        if key not in values_by_key:
            values_by_key[key] = _read_numbers(example, feature_slice.feature, steps, warnings)
        values = values_by_key[key]
        if values is not None:
            columns.append(values[:, feature_slice.start : feature_slice.stop])
            names += feature_slice.names
    if not columns:
        return None
    values = np.ascontiguousarray(columns[0]) if len(columns) == 1 else np.concatenate(columns, axis=1)
    if not np.isfinite(values).all():
        warnings.append(f"{slices[0].feature.key} holds numbers that are not finite")
    return Signal(values, tuple(names))


def _texts_of_part(part: Feature | TextSpec, example: Mapping[str, Any], path: str) -> Sequence[str]:
    from ares_ingest.spec import TextSpec

    return (find_spec_text(part, path),) if isinstance(part, TextSpec) else read_texts(example, part)


def _metadata_name(feature: Feature) -> str:
    return feature.key.removeprefix("episode_metadata/")


def _read_outcome(
    example: Mapping[str, Any], metadata: Mapping[str, Json], dataset: RldsDataset, warnings: list[str]
) -> tuple[bool | None, str]:
    """Whether the episode succeeded, and the field that says so; reward and is_terminal are never used."""
    feature_map, spec = dataset.feature_map, dataset.spec
    if feature_map.success and feature_map.success.key != "aspects/success":
        return _read_success_field(example, feature_map.success, warnings)
    if metadata.get("success") in (True, False, 0, 1):
        return bool(metadata["success"]), next(
            feature.key for feature in feature_map.metadata if _metadata_name(feature) == "success"
        )
    if metadata.get("aspects/has_aspects") is True and isinstance(metadata.get("aspects/success"), bool):
        return bool(metadata["aspects/success"]), "aspects/success"
    if spec and spec.outcome_in_path:
        parts = str(metadata.get("file_path", "")).split("/")
        if ("success" in parts) != ("failure" in parts):
            return "success" in parts, "file_path"
    return None, ""


def _read_success_field(
    example: Mapping[str, Any], feature: Feature, warnings: list[str]
) -> tuple[bool | None, str]:
    """The outcome from the field that the spec names; unknown when its value changes within the episode."""
    values = set(read_feature_values(example, feature))
    if values in ({0}, {1}):
        return values == {1}, feature.key
    warnings.append(f"outcome {feature.key} is neither 0 nor 1 throughout")
    return None, ""


def _robot_name(metadata: Mapping[str, Json], spec: DatasetSpec | None) -> str:
    candidates = (metadata.get(name) for name in ("robot", "robot_type", "robot_name", "embodiment"))
    return next((name for name in candidates if isinstance(name, str) and name), spec.robot if spec else "")


def _build_cameras(
    entry: RldsRecordEntry, example: Mapping[str, Any], steps: int, warnings: list[str]
) -> Iterator[Camera]:
    for camera in entry.settings.feature_map.cameras:
        name, images = camera.name, read_feature_values(example, camera.feature)
        if len(images) != steps:
            warnings.append(f"camera {name} has no image" if not images else f"camera {name} lacks images")
            continue
        header = parse_image_header(images[0])
        if header is None:
            warnings.append(f"camera {name} holds no JPEG or PNG")
            continue
        flags = tuple(_camera_flags(images))
        media = _media_ref(entry, camera, steps)
        yield turn_camera(describe_camera(name, header, media, flags=flags, role=camera.role))


def _media_ref(entry: RldsRecordEntry, camera: RldsCamera, steps: int) -> MediaRef:
    return MediaRef(
        kind="tfrecord",
        uri=entry.path,
        start_seconds=0.0,
        stop_seconds=steps / entry.settings.rate_hz,
        num_frames=steps,
        rate_hz=entry.settings.rate_hz,
        byte_offset=entry.span.offset,
        byte_size=entry.span.size,
        key=camera.feature.key,
        channels=camera.channels,
        turn=camera.turn,
    )


_LAST_KEY = "steps/is_last"
# Of fewer equal pictures a camera is not called frozen.
_FEWEST_FROZEN = 3


def _camera_flags(images: Sequence[bytes]) -> Iterator[str]:
    """Flags of a camera; an image is decoded only when all images have the same bytes."""
    first = images[0]
    if any(images[number] != first for number in range(1, len(images))):
        return
    try:
        if _is_black(first):
            yield "black"
        if len(images) >= _FEWEST_FROZEN:
            yield "frozen"
    except MediaError:
        yield "broken"


@functools.lru_cache(maxsize=64)  # a camera that was absent has the same image in every episode
def _is_black(image: bytes) -> bool:
    return bool(decode_image(image, "first picture").max() <= 24)


def _metadata_contradictions(metadata: Mapping[str, Json], cameras: Sequence[Camera]) -> Iterator[str]:
    """Warnings where the metadata and the images disagree ("has_image_0" of BridgeData)."""
    for camera in cameras:
        claim = metadata.get(f"has_{camera.name}")
        has_pictures = "black" not in camera.flags
        if claim in (True, False, 0, 1) and bool(claim) != has_pictures:
            claimed, observed = ("present", "it is black") if claim else ("absent", "it has pictures")
            yield f"metadata says that camera {camera.name} is {claimed}, but {observed}"
