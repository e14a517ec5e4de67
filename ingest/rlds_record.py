"""One RLDS record made into an episode: its cameras, signals, language and outcome, and what is odd about it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ares.episode import Camera, Episode, Json, RateSource, Record, Signal, Trajectory, episode_id
from ares.errors import MediaError, SourceError
from ares.media.imageinfo import image_info
from ares.media.ref import MediaRef
from ares.media.tfrecord import Place, decode_image, parse_example, read_record
from ingest.rlds_features import Feature
from ingest.rlds_plan import Plan
from ingest.rlds_values import count_steps, note, step_numbers, stored, texts
from ingest.roles import distinct
from ingest.spec import DatasetSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT = "rlds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A TFDS dataset that has been opened, as far as its records need it.

    Attributes:
        name: As stored with its episodes.
        version: From dataset_info.json.
        rate_hz: Steps per second.
        rate_source: Who says so.
        spec: What is known of it besides, or None.
        plan: What its features are.
    """

    name: str
    version: str
    rate_hz: float
    rate_source: RateSource
    spec: DatasetSpec | None
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One record of a dataset, before it is read.

    Attributes:
        dataset: Its dataset.
        split: "train", "val".
        key: Shard and number, such as "00000-of-00002/3".
        path: Absolute path of the shard.
        place: Where it stands there.
        warnings: What is odd about its place.
    """

    dataset: Dataset
    split: str
    key: str
    path: str
    place: Place
    warnings: tuple[str, ...] = ()

    @property
    def episode_id(self) -> str:
        """Its identity."""
        named = self.dataset
        return episode_id(
            format=FORMAT, dataset=named.name, version=named.version, split=self.split, key=self.key
        )


def load_record(entry: Entry) -> Record:
    """Read a record. Raises SourceError when it is broken or holds no step."""
    plan = entry.dataset.plan
    where = f"{entry.path}, record {entry.key}"
    payload, content_hash = read_record(entry.path, entry.place)
    example = parse_example(payload, where)
    signals = (*plan.state, *plan.action, *plan.extra)
    steps = count_steps(example, [*signals, *(feature for feature, _, _ in plan.cameras)])
    if not steps:
        raise SourceError("record holds no step", where)
    return _record(entry, example, steps, content_hash)


def _record(entry: Entry, example: Mapping[str, Any], steps: int, content_hash: str) -> Record:
    dataset, plan = entry.dataset, entry.dataset.plan
    warnings = list(entry.warnings)
    state = _signal(example, plan.state, steps, dataset.spec.state_names if dataset.spec else (), warnings)
    action = _signal(example, plan.action, steps, dataset.spec.action_names if dataset.spec else (), warnings)
    metadata = {_note_name(feature): note(example, feature) for feature in plan.notes}
    instructions = distinct([text for feature in plan.language for text in texts(example, feature)])
    success, success_source = _outcome(metadata, plan.notes, dataset.spec)
    cameras = tuple(_cameras(entry, example, steps, warnings))
    warnings.extend(_lies(metadata, cameras))
    episode = Episode(
        episode_id=entry.episode_id,
        format=FORMAT,
        dataset=dataset.name,
        version=dataset.version,
        split=entry.split,
        key=entry.key,
        source=entry.path,
        content_hash=content_hash,
        instruction=instructions[0] if instructions else "",
        instructions=instructions,
        robot=_robot(metadata, dataset.spec),
        num_steps=steps,
        rate_hz=dataset.rate_hz,
        rate_source=dataset.rate_source,
        cameras=cameras,
        success=success,
        success_source=success_source,
        state_names=state.names if state else (),
        action_names=action.names if action else (),
        metadata={name: value for name, value in metadata.items() if value is not None},
    )
    trajectory = _trajectory(dataset, example, steps, state, action, warnings)
    return Record(episode=episode, trajectory=trajectory, warnings=tuple(warnings))


def _trajectory(
    dataset: Dataset,
    example: Mapping[str, Any],
    steps: int,
    state: Signal | None,
    action: Signal | None,
    warnings: list[str],
) -> Trajectory:
    import numpy as np

    plan, extra = dataset.plan, {}
    for feature in plan.extra:
        signal = _signal(example, (feature,), steps, (), warnings)
        if signal:
            extra[feature.key.removeprefix("steps/").removeprefix("observation/")] = signal
    reward = _numbers(example, plan.reward, steps, warnings) if plan.reward else None
    return Trajectory(
        timestamps=np.arange(steps, dtype=np.float64) / dataset.rate_hz,
        state=state,
        action=action,
        reward=None if reward is None else reward[:, 0],
        extra=extra,
    )


def _numbers(
    example: Mapping[str, Any], feature: Feature, steps: int, warnings: list[str]
) -> NDArray[np.float32] | None:
    values = step_numbers(example, feature, steps)
    if values is None:
        absent = not stored(example, feature)
        warnings.append(f"{feature.key} is {'missing' if absent else 'not as long as the other steps'}")
    return values


def _signal(
    example: Mapping[str, Any],
    features: Sequence[Feature],
    steps: int,
    known: Sequence[str],
    warnings: list[str],
) -> Signal | None:
    import numpy as np

    parts: list[NDArray[np.float32]] = []
    names: list[str] = []
    for feature in features:
        values = _numbers(example, feature, steps, warnings)
        if values is not None:
            parts.append(values)
            width = values.shape[1]
            names += [feature.name] if width == 1 else [f"{feature.name}_{number}" for number in range(width)]
    if not parts:
        return None
    values = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
    if not np.isfinite(values).all():
        warnings.append(f"{features[0].key} holds numbers that are not finite")
    return Signal(values, tuple(known) if len(known) == len(names) else tuple(names))


def _note_name(feature: Feature) -> str:
    return feature.key.removeprefix("episode_metadata/")


def _outcome(
    metadata: Mapping[str, Json], notes: Sequence[Feature], spec: DatasetSpec | None
) -> tuple[bool | None, str]:
    """Whether the episode succeeded and which field says so; reward and is_terminal never do."""
    if metadata.get("success") in (True, False, 0, 1):
        return bool(metadata["success"]), next(one.key for one in notes if _note_name(one) == "success")
    if metadata.get("aspects/has_aspects") is True and isinstance(metadata.get("aspects/success"), bool):
        return bool(metadata["aspects/success"]), "aspects/success"
    if spec and spec.outcome_in_path:
        parts = str(metadata.get("file_path", "")).split("/")
        if ("success" in parts) != ("failure" in parts):
            return "success" in parts, "file_path"
    return None, ""


def _robot(metadata: Mapping[str, Json], spec: DatasetSpec | None) -> str:
    named = (metadata.get(name) for name in ("robot", "robot_type", "robot_name", "embodiment"))
    return next((name for name in named if isinstance(name, str) and name), spec.robot if spec else "")


def _cameras(entry: Entry, example: Mapping[str, Any], steps: int, warnings: list[str]) -> Iterator[Camera]:
    for feature, name, role in entry.dataset.plan.cameras:
        images = stored(example, feature)
        if len(images) != steps:
            warnings.append(
                f"camera {name} has no picture" if not images else f"camera {name} lacks pictures"
            )
            continue
        info = image_info(images[0])
        if info is None:
            warnings.append(f"camera {name} holds no JPEG or PNG")
            continue
        flags = tuple(_flags(images))
        warnings.extend(f"camera {name} is {flag}" for flag in flags)
        yield Camera(
            name=name,
            role=role,
            width=info.width,
            height=info.height,
            codec=info.codec,
            media=_media(entry, feature, steps),
            flags=flags,
        )


def _media(entry: Entry, feature: Feature, steps: int) -> MediaRef:
    return MediaRef(
        kind="tfrecord",
        uri=entry.path,
        start_seconds=0.0,
        stop_seconds=steps / entry.dataset.rate_hz,
        num_frames=steps,
        rate_hz=entry.dataset.rate_hz,
        byte_offset=entry.place.offset,
        byte_size=entry.place.size,
        key=feature.key,
    )


def _flags(images: Sequence[bytes]) -> Iterator[str]:
    """What is wrong with a camera; a picture is decoded only when all of them are the same bytes."""
    first = images[0]
    if len(images) < 3 or any(images[number] != first for number in range(1, len(images))):
        return
    try:
        if _is_black(first):
            yield "black"
        yield "frozen"
    except MediaError:
        yield "broken"


@functools.lru_cache(maxsize=64)  # a camera that was not there is the same picture in every episode
def _is_black(image: bytes) -> bool:
    return bool(decode_image(image, "first picture").max() <= 24)


def _lies(metadata: Mapping[str, Json], cameras: Sequence[Camera]) -> Iterator[str]:
    """Where the metadata and the pictures disagree ("has_image_0" of BridgeData)."""
    for camera in cameras:
        claim = metadata.get(f"has_{camera.name}")
        there = "black" not in camera.flags
        if claim in (True, False, 0, 1) and bool(claim) != there:
            said, seen = ("there", "it is black") if claim else ("absent", "it has pictures")
            yield f"metadata says that camera {camera.name} is {said}, but {seen}"
