"""Part: a stretch of one feature's numbers with their names; a state or an action is a row of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ingest.rlds_features import Feature
from ingest.spec import SliceSpec

# How the warning begins that a spec was not used.
MISFIT = "the spec's {} does not fit"


class Part(NamedTuple):
    """Numbers [start, stop) of a feature."""

    feature: Feature
    start: int
    stop: int
    names: tuple[str, ...]


def found_parts(features: Iterable[Feature]) -> tuple[Part, ...]:
    """Whole features, named after their keys."""
    return tuple(
        Part(feature, 0, feature.size or 0, _numbered((feature.name,), feature.size or 0))
        for feature in features
    )


def spec_parts(
    slices: Sequence[SliceSpec], signals: Sequence[Feature], what: str, warnings: list[str]
) -> tuple[Part, ...] | None:
    """What a spec says, or None when it says nothing or does not fit the features; the latter is told.

    Args:
        slices: From the spec, in order.
        signals: Number features of the steps.
        what: "state" or "action", for the warning.
        warnings: Where to say that it does not fit.
    """
    if not slices:
        return None
    by_key = {feature.key: feature for feature in signals}
    made: list[Part] = []
    for each in slices:
        fault = _misfit(each, by_key.get(each.key))
        if fault:
            warnings.append(f"{MISFIT.format(what)} ({fault}), found by names instead")
            return None
        feature = by_key[each.key]
        stop = each.stop or feature.size or 0
        _append(made, Part(feature, each.start, stop, _numbered(each.names, stop - each.start)))
    names = [name for part in made for name in part.names]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        warnings.append(
            f"the spec's {what} does not fit (two numbers are named {twice}), found by names instead"
        )
        return None
    return tuple(made)


def _misfit(wanted: SliceSpec, feature: Feature | None) -> str:
    if feature is None:
        return f"{wanted.key} is not there"
    size = feature.size or 0
    if (wanted.stop or wanted.start + 1) > size:
        return f"{wanted.key} has {size} numbers"
    if wanted.stop is None and len(wanted.names) not in (1, size - wanted.start):
        return f"{wanted.key} has {size} numbers, {len(wanted.names)} are named"
    return ""


def _append(parts: list[Part], part: Part) -> None:
    """Add a part; to the last one where it goes on, so that reading takes no longer for being told more."""
    last = parts[-1] if parts else None
    if last and last.feature == part.feature and last.stop == part.start:
        parts[-1] = Part(last.feature, last.start, part.stop, (*last.names, *part.names))
    else:
        parts.append(part)


def _numbered(names: tuple[str, ...], width: int) -> tuple[str, ...]:
    if len(names) == width:
        return names
    return tuple(f"{names[0]}_{number}" for number in range(width))
