"""Slices of features, with a name for each number; the state and the action are made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ingest.rlds.features import Feature
from ingest.signals import numbered_names

if TYPE_CHECKING:
    from ingest.dataset_spec import SliceSpec

# Begin of the warning that a spec is not used.
MISFIT = "the spec's {} does not fit"


class Misfit(NamedTuple):
    """What a spec says and a dataset does not have.

    Attributes:
        field: Field of the spec: "state".
        key: The feature that it names.
        reason: Why it does not fit.
        warning: How it is told where the spec is not the user's own; "" for not at all.
    """

    field: str
    key: str
    reason: str
    warning: str = ""


class FeatureSlice(NamedTuple):
    """Numbers [start, stop) of a feature, and their names."""

    feature: Feature
    start: int
    stop: int
    names: tuple[str, ...]


def full_feature_slices(features: Iterable[Feature]) -> tuple[FeatureSlice, ...]:
    """A slice for each feature with all its numbers, named after the feature."""
    return tuple(
        FeatureSlice(feature, 0, feature.size or 0, _names_of_numbers((feature.name,), feature.size or 0))
        for feature in features
    )


def slices_of_spec(
    slices: Sequence[SliceSpec], signals: Sequence[Feature], role: str, misfits: list[Misfit]
) -> tuple[FeatureSlice, ...] | None:
    """The slices of a spec; None when there are none, or when they do not fit the features.

    Args:
        slices: From the spec, in order.
        signals: Numeric features of the steps.
        role: "state" or "action", for the message.
        misfits: Why the spec does not fit is appended here.
    """
    if not slices:
        return None
    by_key = {feature.key: feature for feature in signals}
    result: list[FeatureSlice] = []
    for spec_slice in slices:
        reason = _reason_misfit(spec_slice, by_key.get(spec_slice.key))
        if reason:
            misfits.append(_signal_misfit(role, spec_slice.key, reason))
            return None
        feature = by_key[spec_slice.key]
        stop = spec_slice.stop or feature.size or 0
        _append_merged(
            result,
            FeatureSlice(
                feature, spec_slice.start, stop, _names_of_numbers(spec_slice.names, stop - spec_slice.start)
            ),
        )
    names = [name for feature_slice in result for name in feature_slice.names]
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        misfits.append(_signal_misfit(role, duplicate, f"two numbers are named {duplicate}"))
        return None
    return tuple(result)


def _signal_misfit(role: str, key: str, reason: str) -> Misfit:
    return Misfit(role, key, reason, f"{MISFIT.format(role)} ({reason}), chosen by name instead")


def _reason_misfit(spec_slice: SliceSpec, feature: Feature | None) -> str:
    if feature is None:
        return f"{spec_slice.key} does not exist"
    size = feature.size or 0
    if (spec_slice.stop or spec_slice.start + 1) > size:
        return f"{spec_slice.key} has {size} numbers"
    if spec_slice.stop is None and len(spec_slice.names) not in (1, size - spec_slice.start):
        return f"{spec_slice.key} has {size} numbers, {len(spec_slice.names)} are named"
    return ""


def _append_merged(slices: list[FeatureSlice], new_slice: FeatureSlice) -> None:
    """Append a slice, merged with the last one where it continues it: fewer slices are faster to read."""
    last = slices[-1] if slices else None
    if last and last.feature == new_slice.feature and last.stop == new_slice.start:
        slices[-1] = FeatureSlice(last.feature, last.start, new_slice.stop, (*last.names, *new_slice.names))
    else:
        slices.append(new_slice)


def _names_of_numbers(names: tuple[str, ...], width: int) -> tuple[str, ...]:
    if len(names) == width:
        return names
    return numbered_names(names[0], width)
