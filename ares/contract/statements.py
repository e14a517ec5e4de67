"""What a person names with `--convert`: a target, a value that is stated and its target, or a change of dimensions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import cast, get_args

from ares.contract.contracts import VALUES, GroupKind, PropertyName
from ares.contract.conversions import GRIPPER_CONVENTIONS
from ares.errors import RequestError
from ares.registry import did_you_mean

ORDER, CHANGE, PERMUTATION, SAME_AS = "order", "change", "permutation", "same_as"
_TARGET_UNITS = ("rad", "deg", "m", "mm")
_TARGET_MODES = ("absolute", "delta")
_TARGET_ROTATIONS: Mapping[str, str] = {
    "euler": "euler",
    "axis-angle": "axis-angle",
    "xyzw": "quaternion xyzw",
    "wxyz": "quaternion wxyz",
}
_CONVERSION_TARGETS = (*_TARGET_UNITS, *GRIPPER_CONVENTIONS, *_TARGET_MODES, *_TARGET_ROTATIONS, ORDER)
_SIGNAL = re.compile(
    r"(?:(?P<dataset>.+)/)?(?P<signal>state|action)(?:\.(?P<kind>\w+)|\[(?P<dimensions>.+)\])?"
)
_CHANGE = re.compile(r"(?:times\s+(?P<factor>\S+))?\s*(?:plus\s+(?P<offset>\S+))?")
_FORMS = 'for example "state.arm: deg -> rad", "DATASET/state.arm: deg -> rad" or "state[elbow]: times -1"'


@dataclass(frozen=True, slots=True)
class NamedConversion:
    """One conversion of an export.

    Attributes:
        signal: Signal group, such as "action.gripper"; "state" or "action" for the order and for dimensions.
        aspect: Property that is converted: "unit", "gripper", "mode" or "rotation"; "order"; "change" for a factor and
            an offset; "permutation" for dimensions that get the values of others; "same_as" for what is signed.
        target: Its value afterwards; the name of a gripper convention or of a dataset, or "".
        dataset: The one dataset that it is for, "" for each.
        source: Its value before, as a person states it; "" for what is known.
        dimensions: Names of the dimensions that a change or a place is of; () for those of the group.
        sources: Names of the dimensions whose values go there.
        factor: What values are multiplied by.
        offset: What is then added.
    """

    signal: str
    aspect: str
    target: str
    dataset: str = ""
    source: str = ""
    dimensions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    factor: float = 1.0
    offset: float = 0.0


def parse_conversions(texts: Sequence[str]) -> tuple[NamedConversion, ...]:
    """Conversions of texts "SIGNAL=TARGET" or "[DATASET/]SIGNAL: STATEMENT".

    Raises RequestError for an unknown signal or target, or two for one.
    """
    conversions = tuple(map(_parse_conversion, texts))
    keys = [(part.dataset, part.signal, part.dimensions, part.aspect) for part in conversions]
    for key in keys:
        if keys.count(key) > 1:
            raise RequestError("two conversions are named for one signal", f"{key[3]} of {key[1]}")
    return conversions


def _parse_conversion(text: str) -> NamedConversion:
    signal, colon, statement = text.rpartition(": ")
    if colon:
        return _parse_statement(text, signal.strip(), statement.strip())
    signal, equals, target = text.partition("=")
    if not equals:
        raise RequestError(f"a conversion is SIGNAL=TARGET, not {text!r}", "for example action.gripper=open1")
    return _target_conversion(signal, target)


def _target_conversion(signal: str, target: str) -> NamedConversion:
    if target not in _CONVERSION_TARGETS:
        raise RequestError(
            f"no conversion to {target!r}",
            f"{did_you_mean(target, _CONVERSION_TARGETS)}there are: {', '.join(_CONVERSION_TARGETS)}",
        )
    _check_signal(signal, target)
    if target == ORDER:
        return NamedConversion(signal, ORDER, "")
    if target in _TARGET_ROTATIONS:
        return NamedConversion(signal, "rotation", _TARGET_ROTATIONS[target])
    name = "unit" if target in _TARGET_UNITS else "mode" if target in _TARGET_MODES else "gripper"
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
        names = GRIPPER_CONVENTIONS if is_gripper else (*_TARGET_UNITS, *_TARGET_MODES, *_TARGET_ROTATIONS)
        raise RequestError(f"{signal} cannot be converted to {target}", f"there are: {', '.join(names)}")
    if target in _TARGET_ROTATIONS and kind != "rotation":
        raise RequestError(f"{signal} is no rotation", f"{target} is for state.rotation and action.rotation")


def _parse_statement(text: str, subject: str, statement: str) -> NamedConversion:
    """A conversion of "[DATASET/]SIGNAL" and what follows the colon."""
    match = _SIGNAL.fullmatch(subject)
    kind = match["kind"] if match else None
    if match is None or (kind is not None and kind not in get_args(GroupKind)):
        raise RequestError(f"no signal {subject!r} for a conversion", _FORMS)
    dataset, signal = match["dataset"] or "", match["signal"] + (f".{kind}" if kind else "")
    dimensions = _split_names(match["dimensions"] or "")
    if "->" in statement:
        return _stated_conversion(text, dataset, signal, statement)
    if statement.startswith("as in ") and kind:
        return NamedConversion(signal, SAME_AS, statement.removeprefix("as in ").strip(), dataset)
    if statement.startswith("from ") and dimensions:
        sources = _split_names(statement.removeprefix("from "))
        if sorted(sources) != sorted(dimensions):
            raise RequestError(f"{text!r} does not name the same dimensions twice", _FORMS)
        return NamedConversion(signal, PERMUTATION, "", dataset, dimensions=dimensions, sources=sources)
    factor, offset = _parse_change(text, statement)
    if not (dimensions or kind):
        raise RequestError(f"{text!r} names no dimensions", _FORMS)
    return NamedConversion(signal, CHANGE, "", dataset, dimensions=dimensions, factor=factor, offset=offset)


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _parse_change(text: str, statement: str) -> tuple[float, float]:
    match = _CHANGE.fullmatch(statement)
    if not statement or match is None:
        raise RequestError(f"no conversion {statement!r}", _FORMS)
    try:
        factor, offset = float(match["factor"] or 1), float(match["offset"] or 0)
    except ValueError as error:
        raise RequestError(f"{text!r} has no number where one belongs", _FORMS) from error
    if not (isfinite(factor) and isfinite(offset) and factor):
        raise RequestError(f"{text!r} has no usable factor and offset", "a factor is finite and not 0")
    return factor, offset


def _stated_conversion(text: str, dataset: str, signal: str, statement: str) -> NamedConversion:
    """ "SOURCE -> TARGET": both are values of one property, such as "deg -> rad"."""
    source, _, target = (part.strip() for part in statement.partition("->"))
    if "." not in signal:
        raise RequestError(f"{text!r} names no kind of dimensions", _FORMS)
    plain = _target_conversion(signal, target)
    source = _TARGET_ROTATIONS.get(source, source)
    if plain.aspect == "gripper":
        if source not in GRIPPER_CONVENTIONS:
            names = ", ".join(GRIPPER_CONVENTIONS)
            raise RequestError(
                f"no gripper convention {source!r}",
                f"{did_you_mean(source, GRIPPER_CONVENTIONS)}there are: {names}",
            )
    elif source not in VALUES[cast("PropertyName", plain.aspect)]:
        values = VALUES[cast("PropertyName", plain.aspect)]
        raise RequestError(
            f"no {plain.aspect} {source!r}", f"{did_you_mean(source, values)}there are: {', '.join(values)}"
        )
    return NamedConversion(signal, plain.aspect, plain.target, dataset, source)
