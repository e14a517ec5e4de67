"""Roles of arrays of no known family, guessed from their names, shapes and types."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ares.clock import SECONDS_BY_UNIT
from ares.episode import SourceArray
from ares.errors import SourceError
from ingest.mapping import describe_arrays

# Names of which the first that occurs is the signal; then patterns of which all that match are its parts.
_STATE_NAMES = (
    *("state", "states", "agent_pos", "qpos", "joint_positions", "joint_position", "joint_pos"),
    *("proprio", "proprioception", "robot_state", "observation"),
)
_STATE_PARTS = (
    r"(.*/)?(state|states|proprio|proprioception)/[^/]+",
    r"(.*/)?states?_[^/]*",
    r"(.*/)?robot(\d+)?_(?!demo_)[^/]*",
    r"(.*/)?((left|right)_)?(qpos|joint|eef|ee|tcp|gripper|cartesian|proprio)(_[^/]*)?",
)
_ACTION_NAMES = ("action", "actions", "act", "command", "commands")
_ACTION_PARTS = (r"(.*/)?actions?/[^/]+", r"(.*/)?actions?_[^/]*")
_REWARD_NAMES = ("reward", "rewards")
_TIME_WORDS = ("timestamp", "timestamps", "time", "times", "t", "stamp", "stamps")
_TIME_NAMES = (*_TIME_WORDS, *(f"{word}_{unit}" for word in _TIME_WORDS for unit in SECONDS_BY_UNIT))
_ENDS_NAMES = ("episode_ends", "episode_end", "ends", "episode_lengths")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalKeys:
    """Keys of the arrays that are signals.

    Attributes:
        state: Arrays that make up the state, in order.
        action: Arrays that make up the action, in order.
        reward: Array of one number per step, or "".
        time: Array of the time of each step, or "".
        ends: Array that cuts the rows into episodes, or "".
    """

    state: tuple[str, ...] = ()
    action: tuple[str, ...] = ()
    reward: str = ""
    time: str = ""
    ends: str = ""


def guess_roles(widths: Mapping[str, int], ends: str = "") -> SignalKeys:
    """Roles by names: "obs/qpos" is the state, "actions_i" the action.

    Args:
        widths: Numbers per step of each array that can be a signal, by key; levels of a key are parted by "/".
        ends: Array that cuts the rows into episodes, or "".
    """
    action = _keys(widths, _ACTION_NAMES, _ACTION_PARTS)
    rest = [key for key in widths if key not in action]
    singles = [key for key in rest if widths[key] == 1]
    time = _keys(singles, _TIME_NAMES, ())
    reward = _keys(singles, _REWARD_NAMES, ())
    state = _keys([key for key in rest if key not in (*time, *reward)], _STATE_NAMES, _STATE_PARTS)
    return SignalKeys(state=state, action=action, reward="".join(reward), time="".join(time), ends=ends)


def find_ends(keys: Iterable[str]) -> str:
    """The array that seems to cut the rows into episodes, by its name; "" for none."""
    return "".join(_keys(list(keys), _ENDS_NAMES, ()))


def _keys(keys: Collection[str], names: tuple[str, ...], parts: tuple[str, ...]) -> tuple[str, ...]:
    """The key that ends with the first of the names that occurs, else all keys of the first pattern that matches."""
    for name in names:
        for key in keys:
            if key.rpartition("/")[2].lower() == name:
                return (key,)
    for pattern in parts:
        matches = tuple(key for key in keys if re.fullmatch(pattern, key.lower()))
        if matches:
            return matches
    return ()


def unknown_family_error(where: str, arrays: Iterable[SourceArray]) -> SourceError:
    """The error for a file of no known family: what it holds, and how to go on."""
    return SourceError(
        "data is of no known family",
        f"{where} holds {describe_arrays(arrays)}; write `ares ingest PATH --show-spec > spec.yaml`,"
        " say in that file which array is what, and read it with --spec spec.yaml",
    )
