"""The conversions that a user names for an export: "action.gripper=open1", "state.arm=rad", "action=order"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from ares.errors import RequestError
from ares.quality.contract.conversions import GRIPPER_CONVENTIONS
from ares.quality.contract.terms import GroupKind
from ares.registry import did_you_mean

ORDER = "order"
_UNITS = ("rad", "deg", "m", "mm")
_MODES = ("absolute", "delta")
_ROTATIONS: Mapping[str, str] = {
    "euler": "euler",
    "axis-angle": "axis-angle",
    "xyzw": "quaternion xyzw",
    "wxyz": "quaternion wxyz",
}
_TARGETS = (*_UNITS, *GRIPPER_CONVENTIONS, *_MODES, *_ROTATIONS, ORDER)


@dataclass(frozen=True, slots=True)
class NamedConversion:
    """One conversion of an export.

    Attributes:
        signal: Signal group, such as "action.gripper"; "state" or "action" for the order.
        aspect: Property that is converted: "unit", "gripper", "mode", "rotation" or "order".
        target: Its value afterwards; the name of a gripper convention, or "" for the order.
    """

    signal: str
    aspect: str
    target: str


def parse_conversions(texts: Sequence[str]) -> tuple[NamedConversion, ...]:
    """Conversions of texts "SIGNAL=TARGET". Raises RequestError for an unknown signal or target, or two for one."""
    conversions = tuple(map(_parse, texts))
    pairs = [(conversion.signal, conversion.aspect) for conversion in conversions]
    for pair in pairs:
        if pairs.count(pair) > 1:
            raise RequestError("two conversions are named for one signal", f"{pair[1]} of {pair[0]}")
    return conversions


def _parse(text: str) -> NamedConversion:
    signal, equals, target = text.partition("=")
    if not equals:
        raise RequestError(f"a conversion is SIGNAL=TARGET, not {text!r}", "for example action.gripper=open1")
    if target not in _TARGETS:
        raise RequestError(
            f"no conversion to {target!r}",
            f"{did_you_mean(target, _TARGETS)}there are: {', '.join(_TARGETS)}",
        )
    _check_signal(signal, target)
    if target == ORDER:
        return NamedConversion(signal, ORDER, "")
    if target in _ROTATIONS:
        return NamedConversion(signal, "rotation", _ROTATIONS[target])
    name = "unit" if target in _UNITS else "mode" if target in _MODES else "gripper"
    return NamedConversion(signal, name, target)


def _check_signal(signal: str, target: str) -> None:
    plain, _, kind = signal.partition(".")
    is_known = plain in ("state", "action") and (
        kind in get_args(GroupKind) or (not kind and target == ORDER)
    )
    if not is_known or (kind and target == ORDER):
        example = "state=order" if target == ORDER else f"action.arm={target}"
        raise RequestError(f"no signal {signal!r} for a conversion", f"for example {example}")
    is_gripper = kind == "gripper"
    if (target in GRIPPER_CONVENTIONS) != is_gripper and target != ORDER:
        names = GRIPPER_CONVENTIONS if is_gripper else (*_UNITS, *_MODES, *_ROTATIONS)
        raise RequestError(f"{signal} cannot be converted to {target}", f"there are: {', '.join(names)}")
    if target in _ROTATIONS and kind != "rotation":
        raise RequestError(f"{signal} is no rotation", f"{target} is for state.rotation and action.rotation")
