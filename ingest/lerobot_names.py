"""Names of the dimensions and cameras of a LeRobot dataset, from info.json and GR00T's modality.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_MAIN = {"state": "observation.state", "action": "action"}


def flat_names(names: object) -> tuple[str, ...]:
    """The names of a feature in order, out of lists in lists, {"motors": [...]} or {name: index}."""
    if isinstance(names, str):
        return (names,)
    if isinstance(names, Mapping):
        if names and all(isinstance(value, int) for value in names.values()):
            return tuple(str(name) for name in sorted(names, key=lambda name: names[name]))
        return tuple(name for value in names.values() for name in flat_names(value))
    if isinstance(names, list | tuple):
        return tuple(name for value in names for name in flat_names(value))
    return ()


def nested_too_deep(names: object) -> bool:
    """Whether a list of names stands in another list."""
    return isinstance(names, list) and any(isinstance(one, list) for one in names)


def dimension_names(base: str, told: tuple[str, ...], width: int) -> tuple[str, ...]:
    """As many different names as there are dimensions: those told where they fit, else numbered ones."""
    if len(told) == width and len(set(told)) == width:
        return told
    return (base,) if width == 1 else tuple(f"{base}_{number}" for number in range(width))


def short_name(key: str) -> str:
    """A feature's own name: without `observation.`, and for a camera without `images.`."""
    return key.removeprefix("observation.").removeprefix("images.").removeprefix("image.") or key


def part_names(
    modality: Mapping[str, Any], key: str, told: tuple[str, ...], width: int
) -> tuple[str, ...] | None:
    """Names of a column by the parts that modality.json cuts it into, or None when it does not speak of it.

    A part of one dimension has the part's name, others are numbered; dimensions in no part keep the name told.
    """
    base = dimension_names(short_name(key), told, width)
    names: list[str | None] = [None] * width
    for part, start, stop in _slices(modality, key):
        for at in range(start, min(stop, width)):
            names[at] = names[at] or (part if stop - start == 1 else f"{part}_{at - start}")
    if not any(names):
        return None
    merged = tuple(name or usual for name, usual in zip(names, base, strict=True))
    return merged if len(set(merged)) == width else base


def _slices(modality: Mapping[str, Any], key: str) -> Iterator[tuple[str, int, int]]:
    for group, main in _MAIN.items():
        for part, place in _parts(modality, group):
            start, stop = place.get("start"), place.get("end")
            if (
                (place.get("original_key") or main) == key
                and isinstance(start, int)
                and isinstance(stop, int)
            ):
                yield part, max(start, 0), stop


def _parts(modality: Mapping[str, Any], group: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    parts = modality.get(group)
    for name, place in parts.items() if isinstance(parts, dict) else ():
        if isinstance(place, dict):
            yield str(name), place


def modality_columns(modality: Mapping[str, Any], group: str) -> tuple[str, ...]:
    """Columns that the parts of "state" or "action" are cut from, in order."""
    return tuple(
        dict.fromkeys(str(place.get("original_key") or _MAIN[group]) for _, place in _parts(modality, group))
    )


def camera_names(modality: Mapping[str, Any]) -> dict[str, str]:
    """Name of a camera by its key, where modality.json names it."""
    return {
        str(place["original_key"]): name
        for name, place in _parts(modality, "video")
        if place.get("original_key")
    }


def annotation_keys(modality: Mapping[str, Any]) -> tuple[str, ...]:
    """Columns that hold numbers of texts."""
    return tuple(
        str(place.get("original_key") or f"annotation.{name}")
        for name, place in _parts(modality, "annotation")
    )
