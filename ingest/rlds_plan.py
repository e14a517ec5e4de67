"""Plan: which feature of a dataset is what (camera, state, action, language); settled once from its feature tree."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ares.episode import Role
from ingest.rlds_features import Feature
from ingest.roles import camera_role

# More numbers a step than this is no signal but a picture, a cloud of points or an embedding.
WIDEST_SIGNAL = 256

_LANGUAGE = re.compile(r"(^|_)(instruction|language|task|goal_text|command|utterance)s?(_\w*)?$")
_STATE = ("state", "proprio", "robot_state")
_NO_STATE = re.compile(r"instruction|language|embedding|image|depth|timestamp|seconds|goal|^is_|reward")


@dataclass(frozen=True, slots=True)
class Plan:
    """The role of every feature of a dataset.

    Attributes:
        cameras: Image features of the steps with the camera's name and role.
        state: Number features that make up the state, in order.
        action: Number features that make up the action, in order.
        reward: The reward, or None.
        extra: Further number features of the steps.
        language: Features that hold instructions, the main one first.
        notes: Features outside the steps, and texts of the steps, that go into the metadata.
        left_out: Features that are not stored, with the reason.
    """

    cameras: tuple[tuple[Feature, str, Role], ...]
    state: tuple[Feature, ...]
    action: tuple[Feature, ...]
    reward: Feature | None
    extra: tuple[Feature, ...]
    language: tuple[Feature, ...]
    notes: tuple[Feature, ...]
    left_out: tuple[str, ...]


def make_plan(features: Iterable[Feature], roles: dict[str, Role]) -> Plan:
    """Give every feature its place.

    Args:
        features: Leaves of the feature tree.
        roles: Roles of cameras that are known by name.
    """
    ordered = sorted(features, key=lambda feature: feature.key)
    left_out = {feature.key: reason for feature in ordered if (reason := _unusable(feature))}
    usable = [feature for feature in ordered if feature.key not in left_out]
    language = [feature for feature in usable if _is_language(feature)]
    signals = [
        feature
        for feature in usable
        if feature.per_step and feature.kind == "number" and feature not in language
    ]
    state = _state(signals)
    action = [feature for feature in signals if re.match(r"steps/actions?(/|$)", feature.key)]
    reward = next(
        (feature for feature in signals if feature.key == "steps/reward" and feature.size == 1), None
    )
    taken = {*state, *action, *([reward] if reward else [])}
    return Plan(
        cameras=_cameras(usable, roles),
        state=tuple(state),
        action=tuple(action),
        reward=reward,
        extra=tuple(feature for feature in signals if feature not in taken),
        language=tuple(sorted(language, key=_language_order)),
        notes=tuple(feature for feature in usable if _is_note(feature) and feature not in language),
        left_out=tuple(f"{key} is not stored ({reason})" for key, reason in left_out.items()),
    )


def _unusable(feature: Feature) -> str:
    if feature.ragged:
        return "a sequence of open length in each step"
    if feature.kind == "other":
        return f"its type {feature.dtype or 'without a name'} is not known"
    if feature.kind == "image":
        return _unusable_image(feature)
    if not feature.per_step or _is_language(feature):
        return ""
    if feature.kind == "number" and (feature.size is None or feature.size > WIDEST_SIGNAL):
        return "an embedding" if "embedding" in feature.name else "too wide for a signal"
    return "an embedding" if "embedding" in feature.name else ""


def _unusable_image(feature: Feature) -> str:
    if not feature.per_step:
        return "an image outside the steps"
    if "depth" in feature.name or feature.dtype != "uint8" or feature.shape[-1] not in (1, 3, 4, None):
        return "depth or another image that is no colour"
    return ""


def _is_language(feature: Feature) -> bool:
    if not _LANGUAGE.search(feature.name) or "embedding" in feature.name:
        return False
    # language_table keeps its instruction as padded code points.
    return feature.kind == "text" or (
        feature.kind == "number" and feature.name == "instruction" and feature.dtype.startswith("int")
    )


def _language_order(feature: Feature) -> tuple[bool, bool, bool, str]:
    structured = "structured" in feature.name
    return not feature.per_step, structured, "instruction" not in feature.name, feature.name


def _is_note(feature: Feature) -> bool:
    return feature.kind == "text" or (feature.kind == "number" and not feature.per_step)


def _state(signals: list[Feature]) -> list[Feature]:
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


def _cameras(features: list[Feature], roles: dict[str, Role]) -> tuple[tuple[Feature, str, Role], ...]:
    images = [feature for feature in features if feature.kind == "image"]
    names = [feature.name for feature in images]
    made = []
    for feature in images:
        unique = names.count(feature.name) == 1
        name = feature.name if unique else feature.key.removeprefix("steps/").replace("/", ".")
        made.append((feature, name, roles.get(name) or camera_role(name)))
    return tuple(made)
