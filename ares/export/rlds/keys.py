"""Keys of the features of an RLDS dataset that is written anew: one for each signal, camera and text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ares.export.plan import DatasetGroup

STATE_KEY = "steps/observation/state"
ACTION_KEY = "steps/action"
REWARD_KEY = "steps/reward"
DISCOUNT_KEY = "steps/discount"
LANGUAGE_KEY = "steps/language_instruction"
TERMINAL_KEY = "steps/is_terminal"
FLAG_KEYS = ("steps/is_first", "steps/is_last", TERMINAL_KEY)
METADATA_PREFIX = "episode_metadata/"
_OBSERVATION_PREFIX = "steps/observation/"
# Extra signals that RLDS has keys of its own for.
_STANDARD_SIGNALS = {"discount": DISCOUNT_KEY, **{key.removeprefix("steps/"): key for key in FLAG_KEYS}}


@dataclass(frozen=True, slots=True)
class RldsKeys:
    """Keys of the features of one group.

    Attributes:
        cameras: Key of each camera.
        signals: Key of each extra signal that has a place, those with a key of RLDS left out.
        standard: Extra signals that RLDS has a key for.
    """

    cameras: Mapping[str, str]
    signals: Mapping[str, str]
    standard: Mapping[str, str]


def rlds_keys(group: DatasetGroup) -> RldsKeys:
    """The keys of a group; "/" in the name of a signal leads into a folder of features."""
    signals = group.common_signals
    standard = {
        name: _STANDARD_SIGNALS[name]
        for name, names in signals.items()
        if name in _STANDARD_SIGNALS and len(names) == 1
    }
    reserved = {STATE_KEY}
    cameras = {name: _free_key(name.replace("/", "_"), reserved) for name in group.cameras}
    keys = {
        name: _free_key(name, reserved)
        for name in signals
        if name not in standard and not _collides(_key_of(name), reserved)
    }
    return RldsKeys(cameras, keys, standard)


def _free_key(name: str, reserved: set[str]) -> str:
    """A key for a name that no other feature has; it is reserved then."""
    key = base = _key_of(name)
    number = 2
    while _collides(key, reserved):
        key, number = f"{base}_{number}", number + 1
    reserved.add(key)
    return key


def _key_of(name: str) -> str:
    parts = [re.sub(r"[^\w.-]+", "_", part) for part in name.split("/")]
    return _OBSERVATION_PREFIX + "/".join(part or "_" for part in parts)


def _collides(key: str, reserved: Iterable[str]) -> bool:
    """Whether a key is reserved, lies in one that is, or has one in it."""
    return any(f"{key}/".startswith(f"{other}/") or f"{other}/".startswith(f"{key}/") for other in reserved)
