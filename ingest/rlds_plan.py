"""Plan: which feature of a dataset is what (camera, state, action, language); settled once from its feature tree."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ares.episode import Role
from ares.media.ref import Channels
from ingest.rlds_features import Feature
from ingest.rlds_parts import Part, found_parts, spec_parts
from ingest.roles import camera_role
from ingest.spec import DatasetSpec

# More numbers a step than this is no signal but a picture, a cloud of points or an embedding.
WIDEST_SIGNAL = 256

_LANGUAGE = re.compile(r"(^|_)(instruction|language|task|goal_text|command|utterance)s?(_\w*)?$")
_STATE = ("state", "proprio", "robot_state")
_NO_STATE = re.compile(r"instruction|language|embedding|image|depth|timestamp|seconds|goal|^is_|reward")
_OF_RLDS = re.compile(r"steps/(is_first|is_last|is_terminal|discount|reward)$")


class View(NamedTuple):
    """A camera: its feature, its name, where it looks from and the order of its colours."""

    feature: Feature
    name: str
    role: Role
    channels: Channels


@dataclass(frozen=True, slots=True)
class Plan:
    """The role of every feature of a dataset.

    Attributes:
        cameras: Image features of the steps.
        state: What makes up the state, in order.
        action: What makes up the action, in order.
        reward: The reward, or None.
        extra: Further number features of the steps.
        language: Features that hold instructions, the main one first.
        notes: Features outside the steps, and texts of the steps, that go into the metadata.
        success: The feature that the spec names as the outcome, or None.
        left_out: Features that are not stored, with the reason.
        unknown: Signals that are kept, though nobody says what they are.
        warnings: What else is odd: a spec that does not fit, swapped colours.
    """

    cameras: tuple[View, ...]
    state: tuple[Part, ...]
    action: tuple[Part, ...]
    reward: Feature | None
    extra: tuple[Feature, ...]
    language: tuple[Feature, ...]
    notes: tuple[Feature, ...]
    success: Feature | None
    left_out: tuple[str, ...]
    unknown: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def signals(self) -> tuple[Feature, ...]:
        """Every number feature that is stored."""
        parts = (*self.state, *self.action)
        return (*dict.fromkeys([*(part.feature for part in parts), *self.extra]),)


def make_plan(features: Iterable[Feature], spec: DatasetSpec | None) -> Plan:
    """Give every feature its place.

    Args:
        features: Leaves of the feature tree.
        spec: What is known of the dataset; what it does not say is found by the features' names.
    """
    ordered = sorted(features, key=lambda feature: feature.key)
    warnings: list[str] = []
    left_out = {feature.key: reason for feature in ordered if (reason := _unusable(feature))}
    usable = [feature for feature in ordered if feature.key not in left_out]
    language = _language(usable, spec, warnings)
    signals = [each for each in usable if each.per_step and each.kind == "number" and each not in language]
    state = spec_parts(spec.state if spec else (), signals, "state", warnings)
    action = spec_parts(spec.action if spec else (), signals, "action", warnings)
    state = found_parts(_state(signals)) if state is None else state
    action = found_parts(_action(signals)) if action is None else action
    reward = next((each for each in signals if each.key == "steps/reward" and each.size == 1), None)
    extra = [each for each in signals if each != reward and not _is_whole(each, [*state, *action])]
    return Plan(
        cameras=_cameras(usable, spec, warnings),
        state=state,
        action=action,
        reward=reward,
        extra=tuple(extra),
        language=tuple(language),
        notes=tuple(each for each in usable if _is_note(each) and each not in language),
        success=_success(usable, spec, warnings),
        left_out=tuple(f"{key} is not stored ({reason})" for key, reason in left_out.items()),
        unknown=tuple(each.key for each in extra if not _OF_RLDS.match(each.key)),
        warnings=tuple(warnings),
    )


def _is_whole(feature: Feature, parts: Iterable[Part]) -> bool:
    """Whether every number of a feature stands in the parts."""
    inside = {at for part in parts if part.feature == feature for at in range(part.start, part.stop)}
    return len(inside) == feature.size


def _unusable(feature: Feature) -> str:
    if feature.ragged and feature.kind != "text":
        return "a sequence of open length in each step"
    if feature.kind == "other":
        return f"its type {feature.dtype or 'without a name'} is not known"
    if feature.kind == "image":
        return _unusable_image(feature)
    if not feature.per_step or _is_language(feature):
        return ""
    return _unusable_number(feature) if feature.kind == "number" else ""


def _unusable_number(feature: Feature) -> str:
    wide = feature.size is None or feature.size > WIDEST_SIGNAL
    if "embedding" in feature.name:
        return "an embedding"
    if wide and "depth" in feature.name:
        return "depth"
    if feature.dtype == "uint8" and len(feature.shape) == 3 and feature.shape[-1] in (1, 3, 4):
        return "a picture kept as raw numbers, not as JPEG or PNG"
    if feature.size is None:
        return "its size is open"
    return "too wide for a signal" if wide else ""


def _unusable_image(feature: Feature) -> str:
    if not feature.per_step:
        return "an image outside the steps"
    channels = feature.shape[-1] if feature.shape else None
    if "depth" in feature.name or feature.dtype != "uint8" or channels not in (1, 3, 4, None):
        return "depth or another image that is no colour"
    return ""


def _is_language(feature: Feature) -> bool:
    if not _LANGUAGE.search(feature.name) or "embedding" in feature.name:
        return False
    # language_table keeps its instruction as padded code points.
    return feature.kind == "text" or (
        feature.kind == "number" and feature.name == "instruction" and feature.dtype.startswith("int")
    )


def _language(features: list[Feature], spec: DatasetSpec | None, warnings: list[str]) -> list[Feature]:
    by_key = {feature.key: feature for feature in features}
    named = spec.language if spec else ()
    warnings += [f"{key}, named as language by the spec, is not there" for key in named if key not in by_key]
    first = [by_key[key] for key in named if key in by_key]
    found = sorted((each for each in features if _is_language(each)), key=_language_order)
    return [*first, *(each for each in found if each not in first)]


def _language_order(feature: Feature) -> tuple[bool, bool, bool, str]:
    structured = "structured" in feature.name
    return not feature.per_step, structured, "instruction" not in feature.name, feature.name


def _is_note(feature: Feature) -> bool:
    return feature.kind == "text" or (feature.kind == "number" and not feature.per_step)


def _success(features: list[Feature], spec: DatasetSpec | None, warnings: list[str]) -> Feature | None:
    if not spec or not spec.success:
        return None
    found = next((each for each in features if each.key == spec.success and each.kind == "number"), None)
    if found is None:
        warnings.append(f"{spec.success}, named as outcome by the spec, is not there")
    return found


def _state(signals: Sequence[Feature]) -> list[Feature]:
    inside = [feature for feature in signals if feature.key.startswith("steps/observation/")]
    for name in _STATE:
        found = [feature for feature in inside if feature.name == name]
        if found:
            return found[:1]
    return [
        feature
        for feature in inside
        if feature.dtype.startswith("float") and not _NO_STATE.search(feature.name)
    ]


def _action(signals: Sequence[Feature]) -> list[Feature]:
    return [feature for feature in signals if re.match(r"steps/actions?(/|$)", feature.key)]


def _cameras(features: list[Feature], spec: DatasetSpec | None, warnings: list[str]) -> tuple[View, ...]:
    images = [feature for feature in features if feature.kind == "image"]
    names = [feature.name for feature in images]
    made = []
    for feature in images:
        unique = names.count(feature.name) == 1
        name = feature.name if unique else feature.key.removeprefix("steps/").replace("/", ".")
        role = (spec.cameras.get(name) if spec else None) or camera_role(name)
        made.append(View(feature, name, role, _channels(feature, name, spec, warnings)))
    return tuple(made)


def _channels(feature: Feature, name: str, spec: DatasetSpec | None, warnings: list[str]) -> Channels:
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
