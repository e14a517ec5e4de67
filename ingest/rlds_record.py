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
from ingest.rlds_parts import Part, found_parts
from ingest.rlds_plan import Plan, View
from ingest.rlds_values import count_steps, is_rounded, note, step_numbers, stored, texts
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
    steps = count_steps(example, [*plan.signals, *(view.feature for view in plan.cameras)])
    if not steps:
        raise SourceError("record holds no step", where)
    return _record(entry, example, steps, content_hash)


def _record(entry: Entry, example: Mapping[str, Any], steps: int, content_hash: str) -> Record:
    dataset, plan = entry.dataset, entry.dataset.plan
    warnings = list(entry.warnings)
    state = _signal(example, plan.state, steps, warnings)
    action = _signal(example, plan.action, steps, warnings)
    metadata = {_note_name(feature): note(example, feature) for feature in plan.notes}
    instructions = distinct([text for feature in plan.language for text in texts(example, feature)])
    success, success_source = _outcome(example, metadata, dataset, warnings)
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
    for part in found_parts(plan.extra):
        signal = _signal(example, (part,), steps, warnings)
        if signal:
            extra[part.feature.key.removeprefix("steps/").removeprefix("observation/")] = signal
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
    elif is_rounded(example, feature):
        warnings.append(f"{feature.key} holds integers that float32 rounds")
    return values


def _signal(
    example: Mapping[str, Any], parts: Sequence[Part], steps: int, warnings: list[str]
) -> Signal | None:
    import numpy as np

    found: list[NDArray[np.float32]] = []
    names: list[str] = []
    read: dict[str, NDArray[np.float32] | None] = {}
    for part in parts:
        key = part.feature.key
        if key not in read:
            read[key] = _numbers(example, part.feature, steps, warnings)
        values = read[key]
        if values is not None:
            found.append(values[:, part.start : part.stop])
            names += part.names
    if not found:
        return None
    values = np.ascontiguousarray(found[0]) if len(found) == 1 else np.concatenate(found, axis=1)
    if not np.isfinite(values).all():
        warnings.append(f"{parts[0].feature.key} holds numbers that are not finite")
    return Signal(values, tuple(names))


def _note_name(feature: Feature) -> str:
    return feature.key.removeprefix("episode_metadata/")


def _outcome(
    example: Mapping[str, Any], metadata: Mapping[str, Json], dataset: Dataset, warnings: list[str]
) -> tuple[bool | None, str]:
    """Whether the episode succeeded and which field says so; reward and is_terminal never do."""
    plan, spec = dataset.plan, dataset.spec
    if plan.success and plan.success.key != "aspects/success":
        return _told(example, plan.success, warnings)
    if metadata.get("success") in (True, False, 0, 1):
        return bool(metadata["success"]), next(one.key for one in plan.notes if _note_name(one) == "success")
    if metadata.get("aspects/has_aspects") is True and isinstance(metadata.get("aspects/success"), bool):
        return bool(metadata["aspects/success"]), "aspects/success"
    if spec and spec.outcome_in_path:
        parts = str(metadata.get("file_path", "")).split("/")
        if ("success" in parts) != ("failure" in parts):
            return "success" in parts, "file_path"
    return None, ""


def _told(example: Mapping[str, Any], feature: Feature, warnings: list[str]) -> tuple[bool | None, str]:
    """The outcome by the field that the spec names; a field that changes its mind says nothing."""
    said = set(stored(example, feature))
    if said in ({0}, {1}):
        return said == {1}, feature.key
    warnings.append(f"outcome {feature.key} is neither 0 nor 1 throughout")
    return None, ""


def _robot(metadata: Mapping[str, Json], spec: DatasetSpec | None) -> str:
    named = (metadata.get(name) for name in ("robot", "robot_type", "robot_name", "embodiment"))
    return next((name for name in named if isinstance(name, str) and name), spec.robot if spec else "")


def _cameras(entry: Entry, example: Mapping[str, Any], steps: int, warnings: list[str]) -> Iterator[Camera]:
    for view in entry.dataset.plan.cameras:
        name, images = view.name, stored(example, view.feature)
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
            role=view.role,
            width=info.width,
            height=info.height,
            codec=info.codec,
            media=_media(entry, view, steps),
            flags=flags,
        )


def _media(entry: Entry, view: View, steps: int) -> MediaRef:
    return MediaRef(
        kind="tfrecord",
        uri=entry.path,
        start_seconds=0.0,
        stop_seconds=steps / entry.dataset.rate_hz,
        num_frames=steps,
        rate_hz=entry.dataset.rate_hz,
        byte_offset=entry.place.offset,
        byte_size=entry.place.size,
        key=view.feature.key,
        channels=view.channels,
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
