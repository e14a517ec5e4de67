"""Roles of the columns of a table of signals, by their names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Role = Literal["state", "action", "reward", "time", "order", "extra"]

_TIME = re.compile(
    r"(time|timestamps?|stamps?|ts|t|secs?|seconds|elapsed|time_stamp)(_?(ns|us|ms|s|secs?|seconds|nanoseconds|microseconds|milliseconds))?"
)
_ORDER = re.compile(r"(step|frame|index|idx|row|id|unnamed)?(_?(index|idx|id|number|num|nr|no|0))?")
_REWARD = re.compile(r"rewards?")
_REST = r"([._/\[ ].*|\d*)"
_ACTION = re.compile(rf"(.*[._/])?(actions?|act|cmd|commands?|commanded|targets?|desired|goal){_REST}")
_STATE = re.compile(
    r"((obs|observations?)[._/])?"
    rf"(states?|qpos|q|joints?|arm|ee|eef|tcp|gripper|pos|position|pose|proprio){_REST}"
)
_PART = re.compile(r"[._/\[ ]?(\d+|q?[xyzw]|r[xyz]|roll|pitch|yaw)\]?$")


@dataclass(frozen=True, slots=True)
class ColumnRoles:
    """Columns of a table by role, each in the order of the table.

    Attributes:
        time: Column of the seconds, or "".
        state: Columns of the state.
        action: Columns of the action.
        reward: Column of the reward, or "".
        order: Columns that only number the rows.
        extra: Other columns by the signal that they are parts of.
    """

    time: str = ""
    state: tuple[str, ...] = ()
    action: tuple[str, ...] = ()
    reward: str = ""
    order: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = field(default_factory=dict)


def column_roles(names: Iterable[str], time: str = "") -> ColumnRoles:
    """Give each numeric column its role.

    Args:
        names: The columns, in order.
        time: The column of the times, where a spec names it; "" to choose it by its name.
    """
    by_role: dict[Role, list[str]] = {"time": [time]} if time else {}
    extra: dict[str, list[str]] = {}
    for name in names:
        if name == time:
            continue
        role = _role(_normalise(name))
        if role in ("time", "reward") and role in by_role:
            role = "extra"
        by_role.setdefault(role, []).append(name)
        if role == "extra":
            extra.setdefault(_PART.sub("", name) or name, []).append(name)
    return ColumnRoles(
        time=next(iter(by_role.get("time", ())), ""),
        state=tuple(by_role.get("state", ())),
        action=tuple(by_role.get("action", ())),
        reward=next(iter(by_role.get("reward", ())), ""),
        order=tuple(by_role.get("order", ())),
        extra={signal: tuple(columns) for signal, columns in extra.items()},
    )


def _role(name: str) -> Role:
    if _TIME.fullmatch(name):
        return "time"
    if _REWARD.fullmatch(name):
        return "reward"
    if _ORDER.fullmatch(name):
        return "order"
    if _ACTION.fullmatch(name):
        return "action"
    return "state" if _STATE.fullmatch(name) else "extra"


def _normalise(name: str) -> str:
    return re.sub(r"[ \-()]+", "_", name.strip().lower()).strip("_")
