"""What the arrays of an episode are, by their names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ares.clock import SECONDS_BY_UNIT

_MOST_DIGITS = 1_000

# Names of which the first that occurs is the signal; then patterns of which all that match are its parts.
_STATE_NAMES = (
    "observations",
    *("state", "states", "agent_pos", "qpos", "joint_positions", "joint_position", "joint_pos", "joints"),
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


def guess_array_roles(widths: Mapping[str, int], ends: str = "") -> SignalKeys:
    """Roles by names: "obs/qpos" is the state, "actions_i" the action.

    Args:
        widths: Numbers per step of each array that can be a signal, by key; levels of a key are parted by "/".
        ends: Array that cuts the rows into episodes, or "".
    """
    action = _matching_keys(widths, _ACTION_NAMES, _ACTION_PARTS)
    rest = [key for key in widths if key not in action]
    singles = [key for key in rest if widths[key] == 1]
    time = _matching_keys(singles, _TIME_NAMES, ())
    reward = _matching_keys(singles, _REWARD_NAMES, ())
    state = _matching_keys([key for key in rest if key not in (*time, *reward)], _STATE_NAMES, _STATE_PARTS)
    return SignalKeys(state=state, action=action, reward="".join(reward), time="".join(time), ends=ends)


def natural_key(text: str) -> tuple[tuple[int, str], ...]:
    """Sort key under which "demo_10" comes after "demo_2"."""
    parts = re.findall(r"\d+|\D+", text)
    # Python refuses to convert numbers of more than 4,300 digits.
    return tuple((int(part[:_MOST_DIGITS]), "") if part.isdecimal() else (-1, part) for part in parts)


def match_labels(pattern: str, labels: Iterable[str]) -> list[str]:
    """The labels that match a pattern with wildcards, or a regular expression after "re:"."""
    if pattern.startswith("re:"):
        expression = re.compile(pattern.removeprefix("re:"))
        return [label for label in labels if expression.fullmatch(label)]
    return [label for label in labels if fnmatchcase(label, pattern)]


def choose_complete_labels(choices: Sequence[Sequence[str]], labels: Iterable[str]) -> list[str]:
    """The labels of the first choice that is complete, else of the first of which some are there."""
    ordered = sorted(labels, key=natural_key)
    matches = [[match_labels(pattern, ordered) for pattern in choice] for choice in choices]
    best = next((parts for parts in matches if all(parts)), None) or next(filter(any, matches), [])
    return [label for part in best for label in part]


def match_last_part(keys: Collection[str], names: Iterable[str]) -> str:
    """The key that ends with the first of some names that occurs; "" for none."""
    return next((key for name in names for key in keys if key.rpartition("/")[2].lower() == name), "")


def _matching_keys(keys: Collection[str], names: tuple[str, ...], parts: tuple[str, ...]) -> tuple[str, ...]:
    """The key that ends with the first of the names that occurs, else all keys of the first pattern that matches."""
    if key := match_last_part(keys, names):
        return (key,)
    for pattern in parts:
        matches = tuple(key for key in keys if re.fullmatch(pattern, key.lower()))
        if matches:
            return matches
    return ()
