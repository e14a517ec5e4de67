"""Which feature of an RLDS dataset has which role, cameras included, and the same as a spec in YAML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from ares.episode import Channels, NotRead, RateSource, Role, Turn
from ares_ingest.rlds.features import (
    MISFIT,
    Feature,
    FeatureSlice,
    Misfit,
    find_slices_of_spec,
    full_feature_slices,
)
from ares_ingest.show_spec import format_spec_lines
from ares_ingest.signals import MAX_SIGNAL_WIDTH
from ares_ingest.source_words import guess_camera_role

if TYPE_CHECKING:
    from ares_ingest.spec import CameraSpec, DatasetSpec, SliceSpec, TextSpec


class RldsCamera(NamedTuple):
    """An image feature, with the name and role of its camera and the order of its colour channels."""

    feature: Feature
    name: str
    role: Role
    channels: Channels
    turn: Turn | Literal[""]


def map_rlds_cameras(
    features: Sequence[Feature], spec: DatasetSpec, warnings: list[str]
) -> tuple[RldsCamera, ...]:
    """The cameras of the usable features; `warnings` gets those about their colours."""
    images = [feature for feature in features if feature.kind == "image"]
    names = [feature.name for feature in images]
    cameras = []
    for feature in images:
        feature_name = feature.name
        if names.count(feature_name) > 1:
            feature_name = feature.key.removeprefix("steps/").replace("/", ".")
        if feature_name in spec.left_out:
            continue
        name, part = _camera_of_spec(feature_name, feature, spec)
        role = part.role or guess_camera_role(name)
        channels = part.channels or _channel_order(feature, name, spec, warnings)
        cameras.append(RldsCamera(feature, name, role, channels, part.find_turn()))
    return tuple(cameras)


def _camera_of_spec(feature_name: str, feature: Feature, spec: DatasetSpec) -> tuple[str, CameraSpec]:
    """The name that the spec gives to the camera of a feature, and what it says of it."""
    from ares_ingest.spec import CameraSpec

    for name in spec.cameras:
        part = spec.camera(name)
        if (part.key or name) in (feature_name, feature.key):
            return name if part.key else feature_name, part
    return feature_name, CameraSpec()


def _channel_order(feature: Feature, name: str, spec: DatasetSpec, warnings: list[str]) -> Channels:
    if name not in spec.bgr:
        return "rgb"
    size, declared = spec.bgr[name], feature.shape[:2]
    if size and None not in declared and declared != size:
        warnings.append(
            f"camera {name} is not of the size of the release whose red and blue are swapped, taken as RGB"
        )
        return "rgb"
    warnings.append(f"camera {name} has red and blue swapped at the source, its frames are given as RGB")
    return "bgr"


_LANGUAGE_NAME = re.compile(r"(^|_)(instruction|language|task|goal_text|command|utterance)s?(_\w*)?$")
_STATE_NAMES = ("state", "proprio", "robot_state")
_DEPTH = "depth or another image that is not in colour"
_NOT_STATE = re.compile(r"instruction|language|embedding|image|depth|timestamp|seconds|goal|^is_|reward")
_RLDS_STANDARD = re.compile(r"steps/(is_first|is_last|is_terminal|discount|reward)$")


@dataclass(frozen=True, slots=True)
class RldsFeatureMap:
    """The role of every feature of a dataset.

    Attributes:
        cameras: Image features of the steps.
        state: Slices that make up the state, in order.
        action: Slices that make up the action, in order.
        reward: Feature of the reward, or None.
        time: Feature that the spec names as the time of each step, or None.
        extra: Other numeric features of the steps, stored as signals of their own.
        ragged: Numeric features of open length in each step; a signal where all steps have the same number of them.
        language: Features that hold instructions, and texts of the spec; the main one first.
        metadata: Features outside the steps, and texts of the steps, that are stored as metadata.
        success: Feature that the spec names as the outcome, or None.
        left_out: Features that are not stored, with the reason; as warnings.
        depth: Those of them that are images of depth.
        unknown: Keys of the extra signals whose meaning is unknown.
        misfits: What the spec names and the dataset does not have.
        warnings: Other warnings: a spec that does not fit, swapped colours.
    """

    cameras: tuple[RldsCamera, ...]
    state: tuple[FeatureSlice, ...]
    action: tuple[FeatureSlice, ...]
    reward: Feature | None
    time: Feature | None
    extra: tuple[Feature, ...]
    ragged: tuple[Feature, ...]
    language: tuple[Feature | TextSpec, ...]
    metadata: tuple[Feature, ...]
    success: Feature | None
    left_out: tuple[str, ...]
    depth: tuple[Feature, ...]
    unknown: tuple[str, ...]
    misfits: tuple[Misfit, ...]
    warnings: tuple[str, ...]

    @property
    def signals(self) -> tuple[Feature, ...]:
        """Every numeric feature that is stored, without repetitions."""
        slices = (*self.state, *self.action)
        return (*dict.fromkeys([*(part.feature for part in slices), *self.extra]),)


def map_features(features: Iterable[Feature], spec: DatasetSpec | None) -> RldsFeatureMap:
    """Give every feature its role.

    Args:
        features: Leaves of the feature tree.
        spec: What is known about the dataset; roles that it does not name follow from the names of features.
    """
    from ares_ingest.spec import DatasetSpec

    spec = spec or DatasetSpec(reference="none")
    ordered = sorted(features, key=lambda feature: feature.key)
    warnings: list[str] = []
    misfits: list[Misfit] = []
    left_out = {f.key: reason for f in ordered if (reason := _reason_unusable(f))}
    usable = [f for f in ordered if f.key not in left_out and not {f.key, f.name} & set(spec.left_out)]
    language = _language_features(usable, spec, misfits)
    ragged = [f for f in usable if f.ragged and f.kind == "number" and f not in language]
    usable = [f for f in usable if f not in ragged]
    signals = [f for f in usable if f.per_step and f.kind == "number" and f not in language]
    state = find_slices_of_spec(spec.state, signals, "state", misfits)
    action = find_slices_of_spec(spec.action, signals, "action", misfits)
    state = full_feature_slices(_state_features(signals)) if state is None else state
    action = full_feature_slices(_action_features(signals)) if action is None else action
    reward = _single_number(spec.reward or "steps/reward", signals)
    time = _single_number(spec.timestamps, signals)
    extra = [f for f in signals if f not in (reward, time) and not _is_covered(f, [*state, *action])]
    cameras, success = map_rlds_cameras(usable, spec, warnings), _success_feature(usable, spec, misfits)
    return RldsFeatureMap(
        cameras=cameras,
        state=state,
        action=action,
        reward=reward,
        time=time,
        extra=tuple(extra),
        ragged=tuple(ragged),
        language=tuple(language),
        metadata=tuple(feature for feature in usable if _is_metadata(feature) and feature not in language),
        success=success,
        left_out=tuple(NotRead(f"{key} is not stored ({reason})", key) for key, reason in left_out.items()),
        depth=tuple(f for f in ordered if left_out.get(f.key) == _DEPTH and f.per_step),
        unknown=tuple(signal.key for signal in extra if not _RLDS_STANDARD.match(signal.key)),
        misfits=tuple(misfits),
        warnings=(*(misfit.warning for misfit in misfits if misfit.warning), *warnings),
    )


def _single_number(key: str, signals: Sequence[Feature]) -> Feature | None:
    """The feature of one number per step with a key, or None."""
    return next((signal for signal in signals if signal.key == key and signal.size == 1), None)


def _is_covered(feature: Feature, slices: Iterable[FeatureSlice]) -> bool:
    """Whether the slices cover every number of a feature."""
    covered = {index for part in slices if part.feature == feature for index in range(part.start, part.stop)}
    return len(covered) == feature.size


def _reason_unusable(feature: Feature) -> str:
    if feature.ragged and feature.kind not in ("text", "number"):
        return "a sequence of open length in each step"
    if feature.ragged and feature.kind == "number" and feature.encoding != "none":
        return "a sequence of open length in each step, of packed numbers"
    if feature.kind == "other":
        return f"its type {feature.dtype or 'without a name'} is unknown"
    if feature.kind == "image":
        return _reason_image_unusable(feature)
    if not feature.per_step or _is_language(feature):
        return ""
    return _reason_number_unusable(feature) if feature.kind == "number" else ""


def _reason_number_unusable(feature: Feature) -> str:
    is_wide = not feature.ragged and (feature.size is None or feature.size > MAX_SIGNAL_WIDTH)
    if "embedding" in feature.name:
        return "an embedding"
    if is_wide and "depth" in feature.name:
        return "depth"
    if feature.dtype == "uint8" and len(feature.shape) == 3 and feature.shape[-1] in (1, 3, 4):
        return "an image stored as raw numbers, not as JPEG or PNG"
    if feature.size is None and not feature.ragged:
        return "its size is open"
    return "too wide for a signal" if is_wide else ""


def _reason_image_unusable(feature: Feature) -> str:
    if not feature.per_step and not feature.is_video:
        return "an image outside the steps"
    channels = feature.shape[-1] if feature.shape else None
    if "depth" in feature.name or feature.dtype != "uint8" or channels not in (1, 3, 4, None):
        return _DEPTH
    return ""


def _is_language(feature: Feature) -> bool:
    if not _LANGUAGE_NAME.search(feature.name) or "embedding" in feature.name:
        return False
    # language_table stores its instruction as padded code points.
    return feature.kind == "text" or (
        feature.kind == "number" and feature.name == "instruction" and feature.dtype.startswith("int")
    )


def _language_features(
    features: list[Feature], spec: DatasetSpec, misfits: list[Misfit]
) -> list[Feature | TextSpec]:
    """What the spec names, in its order, then the features whose names tell that they are instructions."""
    from ares_ingest.spec import TextSpec

    by_key = {feature.key.removeprefix("episode_metadata/"): feature for feature in features}
    by_key |= {feature.key: feature for feature in features}
    named: list[Feature | TextSpec] = []
    for part in spec.language:
        if isinstance(part, TextSpec):
            named.append(part)
        elif part in by_key:
            named.append(by_key[part])
        else:
            warning = f"{part}, named as language by the spec, does not exist"
            misfits.append(Misfit("language", part, "it does not exist", warning))
    by_name = sorted(filter(_is_language, features), key=_language_order)
    return [*named, *(feature for feature in by_name if feature not in named)]


def _language_order(feature: Feature) -> tuple[bool, bool, bool, str]:
    is_structured = "structured" in feature.name
    return not feature.per_step, is_structured, "instruction" not in feature.name, feature.name


def _is_metadata(feature: Feature) -> bool:
    return feature.kind == "text" or (feature.kind == "number" and not feature.per_step)


def _success_feature(features: list[Feature], spec: DatasetSpec, misfits: list[Misfit]) -> Feature | None:
    if not spec.success:
        return None
    keys = (spec.success, f"episode_metadata/{spec.success}")
    success = next((feature for feature in features if feature.key in keys), None)
    if success is None or success.kind != "number":
        reason = "it does not exist" if success is None else "it holds no numbers"
        warning = f"{spec.success}, named as outcome by the spec, does not exist"
        misfits.append(Misfit("success", spec.success, reason, warning))
        return None
    return success


def _state_features(signals: Sequence[Feature]) -> list[Feature]:
    observations = [feature for feature in signals if feature.key.startswith("steps/observation/")]
    for name in _STATE_NAMES:
        matches = [feature for feature in observations if feature.name == name]
        if matches:
            return matches[:1]
    return [
        feature
        for feature in observations
        if feature.dtype.startswith("float") and not _NOT_STATE.search(feature.name)
    ]


def _action_features(signals: Sequence[Feature]) -> list[Feature]:
    return [feature for feature in signals if re.match(r"steps/actions?(/|$)", feature.key)]


def spec_to_yaml(
    dataset: str,
    feature_map: RldsFeatureMap,
    spec: DatasetSpec | None,
    rate_hz: float,
    rate_source: RateSource,
) -> str:
    """YAML of the spec, completed from the feature map, with the remaining features as comments.

    Args:
        dataset: Name of the dataset.
        feature_map: The role of each feature.
        spec: The spec that was used, or None.
        rate_hz: Steps per second.
        rate_source: Where the rate comes from.
    """
    from ares_ingest.spec import DatasetSpec

    base_spec = spec or DatasetSpec(
        reference=f"features.json of {dataset}; state here where the rest comes from"
    )
    is_assumed = rate_source == "assumed"
    completed = base_spec.model_copy(
        update={
            "rate_hz": None if is_assumed else rate_hz,
            "cameras": {camera.name: _camera_spec(camera, base_spec) for camera in feature_map.cameras},
            "state": _spec_slices(base_spec.state, feature_map, "state"),
            "action": _spec_slices(base_spec.action, feature_map, "action"),
            "reward": feature_map.reward.key if feature_map.reward else "",
            "language": tuple(getattr(part, "key", part) for part in feature_map.language),
        }
    )
    lines = [f"# {dataset}"]
    lines += [f"# rate_hz: {rate_hz:g}  # assumed; set it here, or with --rate"] if is_assumed else []
    lines += (
        ["# not verified with records by ARES: taken from its reference"]
        if spec and not spec.verified
        else []
    )
    lines += [*format_spec_lines(completed.model_dump(exclude_defaults=True, mode="json"))]
    lines += [f"# {warning}" for warning in (*feature_map.warnings, *feature_map.left_out)]
    lines += [f"# {key} is stored as a signal of its own" for key in feature_map.unknown]
    return "\n".join(lines) + "\n"


def _camera_spec(camera: RldsCamera, spec: DatasetSpec) -> Role | CameraSpec:
    """The role of a camera; also its feature or its colours where the name or the `bgr` of the spec do not tell."""
    from ares_ingest.spec import CameraSpec

    is_renamed = camera.name not in (
        camera.feature.name,
        camera.feature.key.removeprefix("steps/").replace("/", "."),
    )
    is_known = camera.channels == "rgb" or camera.name in spec.bgr
    if is_known and not is_renamed and not camera.turn:
        return camera.role
    document = {
        "key": camera.feature.key if is_renamed else "",
        "role": camera.role,
        "channels": None if is_known else camera.channels,
        "turn": camera.turn or None,
    }
    return CameraSpec.model_validate(document)


def _spec_slices(
    spec_slices: tuple[SliceSpec, ...], feature_map: RldsFeatureMap, signal: str
) -> tuple[SliceSpec, ...]:
    """The slices of the spec, with their units; those of the feature map when the spec has none, or none that fit."""
    from ares_ingest.spec import SliceSpec

    slices: tuple[FeatureSlice, ...] = getattr(feature_map, signal)
    if spec_slices and not any(warning.startswith(MISFIT.format(signal)) for warning in feature_map.warnings):
        return spec_slices
    return tuple(
        SliceSpec(key=part.feature.key, start=part.start, stop=part.stop, names=part.names) for part in slices
    )
