"""The arrays of an AgiBot World episode as a spec addresses them: every array of proprio_stats.h5, and its use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ares.episode import ArrayUse, SourceArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayUses:
    """What the arrays of an episode are used as, by their keys.

    Attributes:
        steps: Steps of the episode.
        state: Arrays that make up the state, in order.
        action: Arrays that make up the action, in order.
        extra: Name of the extra signal of an array, in the order of the signals.
        masks: Name of the extra signal that the index of commands became.
        time: Array of the times, or "".
    """

    steps: int
    state: tuple[str, ...]
    action: tuple[str, ...]
    extra: Mapping[str, str]
    masks: Mapping[str, str]
    time: str


def list_arrays(
    shapes: Mapping[str, tuple[tuple[int, ...], str]], uses: ArrayUses, warnings: Iterable[str]
) -> tuple[SourceArray, ...]:
    """Every array of a file, those of signals first and in their order.

    Args:
        shapes: Shape and type of each array, by key.
        uses: What they are used as.
        warnings: Warnings of the episode; those of an array that is not stored say why.
    """
    return (*_signal_arrays(shapes, uses), *_other_arrays(shapes, uses, tuple(warnings)))


def _signal_arrays(
    shapes: Mapping[str, tuple[tuple[int, ...], str]], uses: ArrayUses
) -> Iterator[SourceArray]:
    groups: tuple[tuple[ArrayUse, Mapping[str, str]], ...] = (
        ("state", dict.fromkeys(uses.state, "")),
        ("action", dict.fromkeys(uses.action, "")),
        ("extra", uses.extra),
        ("extra", uses.masks),
    )
    for use, names in groups:
        for key, name in names.items():
            shape, dtype = shapes[key]
            # The index of commands becomes a number for each step, and commands are repeated for each step.
            per_step = () if key in uses.masks else shape[1:]
            yield SourceArray(key=key, use=use, name=name, shape=(uses.steps, *per_step), dtype=dtype)


def _other_arrays(
    shapes: Mapping[str, tuple[tuple[int, ...], str]], uses: ArrayUses, warnings: tuple[str, ...]
) -> Iterator[SourceArray]:
    used = {*uses.state, *uses.action, *uses.extra, *uses.masks}
    for key, (shape, dtype) in shapes.items():
        if key not in used:
            use: ArrayUse = "time" if key == uses.time else "unused"
            yield SourceArray(
                key=key, use=use, shape=shape, dtype=dtype, note=_why_unused(key, shape, warnings)
            )


def _why_unused(key: str, shape: tuple[int, ...], warnings: tuple[str, ...]) -> str:
    start = f"{key} is not stored ("
    reason = next((text.removeprefix(start)[:-1] for text in warnings if text.startswith(start)), "")
    return reason or ("empty" if 0 in shape else "")
