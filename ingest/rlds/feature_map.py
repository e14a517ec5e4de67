"""Maps the features of an RLDS dataset to roles: camera, state, action, instruction, metadata; once per dataset."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ares.episode import Channels, Role
from ingest.dataset_spec import DatasetSpec
from ingest.names import camera_role
from ingest.rlds.features import Feature
from ingest.rlds.parts import FeatureSlice, full_feature_slices, slices_of_spec
from ingest.signals import MAX_SIGNAL_WIDTH

_LANGUAGE_NAME = re.compile(r"(^|_)(instruction|language|task|goal_text|command|utterance)s?(_\w*)?$")
_STATE_NAMES = ("state", "proprio", "robot_state")
_NOT_STATE = re.compile(r"instruction|language|embedding|image|depth|timestamp|seconds|goal|^is_|reward")
_RLDS_STANDARD = re.compile(r"steps/(is_first|is_last|is_terminal|discount|reward)$")


class RldsCamera(NamedTuple):
    """An image feature, with the name and role of its camera and the order of its colour channels."""

    feature: Feature
    name: str
    role: Role
    channels: Channels


@dataclass(frozen=True, slots=True)
class RldsFeatureMap:
    """The role of every feature of a dataset.

    Attributes:
        cameras: Image features of the steps.
        state: Slices that make up the state, in order.
        action: Slices that make up the action, in order.
        reward: Feature of the reward, or None.
        extra: Other numeric features of the steps, stored as signals of their own.
        language: Features that hold instructions, the main one first.
        metadata: Features outside the steps, and texts of the steps, that are stored as metadata.
        success: Feature that the spec names as the outcome, or None.
        left_out: Features that are not stored, with the reason; as warnings.
        unknown: Keys of the extra signals whose meaning is unknown.
        warnings: Other warnings: a spec that does not fit, swapped colours.
    """

    cameras: tuple[RldsCamera, ...]
    state: tuple[FeatureSlice, ...]
    action: tuple[FeatureSlice, ...]
    reward: Feature | None
    extra: tuple[Feature, ...]
    language: tuple[Feature, ...]
    metadata: tuple[Feature, ...]
    success: Feature | None
    left_out: tuple[str, ...]
    unknown: tuple[str, ...]
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
    ordered = sorted(features, key=lambda feature: feature.key)
    warnings: list[str] = []
    left_out = {feature.key: reason for feature in ordered if (reason := _reason_unusable(feature))}
    usable = [feature for feature in ordered if feature.key not in left_out]
    language = _language_features(usable, spec, warnings)
    signals = [
        feature
        for feature in usable
        if feature.per_step and feature.kind == "number" and feature not in language
    ]
    state = slices_of_spec(spec.state if spec else (), signals, "state", warnings)
    action = slices_of_spec(spec.action if spec else (), signals, "action", warnings)
    state = full_feature_slices(_state_features(signals)) if state is None else state
    action = full_feature_slices(_action_features(signals)) if action is None else action
    reward = next((signal for signal in signals if signal.key == "steps/reward" and signal.size == 1), None)
    extra = [signal for signal in signals if signal != reward and not _is_covered(signal, [*state, *action])]
    return RldsFeatureMap(
        cameras=_map_cameras(usable, spec, warnings),
        state=state,
        action=action,
        reward=reward,
        extra=tuple(extra),
        language=tuple(language),
        metadata=tuple(feature for feature in usable if _is_metadata(feature) and feature not in language),
        success=_success_feature(usable, spec, warnings),
        left_out=tuple(f"{key} is not stored ({reason})" for key, reason in left_out.items()),
        unknown=tuple(signal.key for signal in extra if not _RLDS_STANDARD.match(signal.key)),
        warnings=tuple(warnings),
    )


def _is_covered(feature: Feature, slices: Iterable[FeatureSlice]) -> bool:
    """Whether the slices cover every number of a feature."""
    covered = {index for part in slices if part.feature == feature for index in range(part.start, part.stop)}
    return len(covered) == feature.size


def _reason_unusable(feature: Feature) -> str:
    if feature.ragged and feature.kind != "text":
        return "a sequence of open length in each step"
    if feature.kind == "other":
        return f"its type {feature.dtype or 'without a name'} is unknown"
    if feature.kind == "image":
        return _reason_image_unusable(feature)
    if not feature.per_step or _is_language(feature):
        return ""
    return _reason_number_unusable(feature) if feature.kind == "number" else ""


def _reason_number_unusable(feature: Feature) -> str:
    is_wide = feature.size is None or feature.size > MAX_SIGNAL_WIDTH
    if "embedding" in feature.name:
        return "an embedding"
    if is_wide and "depth" in feature.name:
        return "depth"
    if feature.dtype == "uint8" and len(feature.shape) == 3 and feature.shape[-1] in (1, 3, 4):
        return "an image stored as raw numbers, not as JPEG or PNG"
    if feature.size is None:
        return "its size is open"
    return "too wide for a signal" if is_wide else ""


def _reason_image_unusable(feature: Feature) -> str:
    if not feature.per_step:
        return "an image outside the steps"
    channels = feature.shape[-1] if feature.shape else None
    if "depth" in feature.name or feature.dtype != "uint8" or channels not in (1, 3, 4, None):
        return "depth or another image that is not in colour"
    return ""


def _is_language(feature: Feature) -> bool:
    if not _LANGUAGE_NAME.search(feature.name) or "embedding" in feature.name:
        return False
    # language_table stores its instruction as padded code points.
    return feature.kind == "text" or (
        feature.kind == "number" and feature.name == "instruction" and feature.dtype.startswith("int")
    )


def _language_features(
    features: list[Feature], spec: DatasetSpec | None, warnings: list[str]
) -> list[Feature]:
    by_key = {feature.key: feature for feature in features}
    spec_keys = [part for part in (spec.language if spec else ()) if isinstance(part, str)]
    warnings += [
        f"{key}, named as language by the spec, does not exist" for key in spec_keys if key not in by_key
    ]
    from_spec = [by_key[key] for key in spec_keys if key in by_key]
    by_name = sorted(filter(_is_language, features), key=_language_order)
    return [*from_spec, *(feature for feature in by_name if feature not in from_spec)]


def _language_order(feature: Feature) -> tuple[bool, bool, bool, str]:
    is_structured = "structured" in feature.name
    return not feature.per_step, is_structured, "instruction" not in feature.name, feature.name


def _is_metadata(feature: Feature) -> bool:
    return feature.kind == "text" or (feature.kind == "number" and not feature.per_step)


def _success_feature(
    features: list[Feature], spec: DatasetSpec | None, warnings: list[str]
) -> Feature | None:
    if not spec or not spec.success:
        return None
    success = next(
        (feature for feature in features if feature.key == spec.success and feature.kind == "number"), None
    )
    if success is None:
        warnings.append(f"{spec.success}, named as outcome by the spec, does not exist")
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


def _map_cameras(
    features: list[Feature], spec: DatasetSpec | None, warnings: list[str]
) -> tuple[RldsCamera, ...]:
    images = [feature for feature in features if feature.kind == "image"]
    names = [feature.name for feature in images]
    cameras = []
    for feature in images:
        is_unique = names.count(feature.name) == 1
        name = feature.name if is_unique else feature.key.removeprefix("steps/").replace("/", ".")
        role = (spec.camera(name).role if spec else None) or camera_role(name)
        cameras.append(RldsCamera(feature, name, role, _channel_order(feature, name, spec, warnings)))
    return tuple(cameras)


def _channel_order(feature: Feature, name: str, spec: DatasetSpec | None, warnings: list[str]) -> Channels:
    if not spec or name not in spec.bgr:
        return "rgb"
    size, declared = spec.bgr[name], feature.shape[:2]
    if size and None not in declared and declared != size:
        warnings.append(
            f"camera {name} is not of the size of the release whose red and blue are swapped, taken as RGB"
        )
        return "rgb"
    warnings.append(f"camera {name} has red and blue swapped at the source, its frames are given as RGB")
    return "bgr"
