"""Names of dimensions, and the file modality.json of GR00T datasets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ares.formats import (
    ACTION_KEY,
    STATE_KEY,
)
from ares_ingest.signals import numbered_names

# Column that a part of modality.json belongs to where it names none.
_DEFAULT_COLUMNS = {"state": STATE_KEY, "action": ACTION_KEY}


def flatten_names(names: object) -> tuple[str, ...]:
    """The names of a feature in order, from nested lists, {"motors": [...]} or {name: index}."""
    if isinstance(names, str):
        return (names,)
    if isinstance(names, Mapping):
        if names and all(isinstance(value, int) for value in names.values()):
            return tuple(str(name) for name in sorted(names, key=lambda name: names[name]))
        return tuple(name for value in names.values() for name in flatten_names(value))
    if isinstance(names, list | tuple):
        return tuple(name for value in names for name in flatten_names(value))
    return ()


def has_nested_lists(names: object) -> bool:
    """Whether a list of names contains another list."""
    return isinstance(names, list) and any(isinstance(value, list) for value in names)


def dimension_names(
    base: str, declared: tuple[str, ...], width: int, shape: tuple[int, ...] = ()
) -> tuple[str, ...]:
    """Unique names of `width` dimensions: the declared names where they fit, else numbered names."""
    if len(declared) == width and len(set(declared)) == width:
        return declared
    return numbered_names(base, width, shape)


def short_name(key: str) -> str:
    """The key of a feature without `observation.` and, for a camera, without `images.`."""
    return key.removeprefix("observation.").removeprefix("images.").removeprefix("image.") or key


def read_modality_part_names(
    modality: Mapping[str, Any], key: str, declared: tuple[str, ...], width: int
) -> tuple[str, ...] | None:
    """Names of a column's dimensions by the parts that modality.json cuts it into; None when it names no part of it.

    A part of one dimension has the part's name, wider parts are numbered. Dimensions in no part keep the declared
    name.
    """
    base = dimension_names(short_name(key), declared, width)
    names: list[str | None] = [None] * width
    for part, start, stop in _part_slices(modality, key):
        for index in range(start, min(stop, width)):
            names[index] = names[index] or (part if stop - start == 1 else f"{part}_{index - start}")
    if not any(names):
        return None
    merged = tuple(name or default for name, default in zip(names, base, strict=True))
    return merged if len(set(merged)) == width else base


def _part_slices(modality: Mapping[str, Any], key: str) -> Iterator[tuple[str, int, int]]:
    for group, default in _DEFAULT_COLUMNS.items():
        for part, description in _modality_parts(modality, group):
            start, stop = description.get("start"), description.get("end")
            if (
                (description.get("original_key") or default) == key
                and isinstance(start, int)
                and isinstance(stop, int)
            ):
                yield part, max(start, 0), stop


def _modality_parts(modality: Mapping[str, Any], group: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    parts = modality.get(group)
    for name, description in parts.items() if isinstance(parts, dict) else ():
        if isinstance(description, dict):
            yield str(name), description


def find_wrong_modality_parts(
    modality: Mapping[str, Any], widths: Mapping[str, int | None]
) -> Iterator[tuple[str, int]]:
    """Parts of modality.json whose column is not there, or ends before they do, with how many dimensions they lack.

    Args:
        modality: The document.
        widths: Dimensions of each feature of info.json; None for one without a plain width.
    """
    defaults = {**_DEFAULT_COLUMNS, "video": "", "annotation": ""}
    for group, default in defaults.items():
        for part, description in _modality_parts(modality, group):
            column = str(description.get("original_key") or default or f"{group}.{part}")
            if column not in widths:
                if group != "video" or description.get("original_key"):
                    yield f"{group}.{part}", 1
                continue
            start, stop, width = description.get("start"), description.get("end"), widths[column]
            if isinstance(start, int) and isinstance(stop, int) and width is not None:
                lacking = max(stop - width, 0) or int(not 0 <= start < stop)
                if lacking:
                    yield f"{group}.{part}", lacking


def list_modality_columns(modality: Mapping[str, Any], group: str) -> tuple[str, ...]:
    """Columns that modality.json cuts the parts of "state" or "action" from, in order."""
    return tuple(
        dict.fromkeys(
            str(description.get("original_key") or _DEFAULT_COLUMNS[group])
            for _, description in _modality_parts(modality, group)
        )
    )


def camera_names(modality: Mapping[str, Any]) -> dict[str, str]:
    """Name of each camera by its key, for cameras that modality.json names."""
    return {
        str(description["original_key"]): name
        for name, description in _modality_parts(modality, "video")
        if description.get("original_key")
    }


def list_modality_task_columns(modality: Mapping[str, Any]) -> tuple[str, ...]:
    """Columns that hold task indices by modality.json."""
    return tuple(
        str(description.get("original_key") or f"annotation.{name}")
        for name, description in _modality_parts(modality, "annotation")
    )
