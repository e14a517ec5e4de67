"""Which groups of an HDF5 file are its episodes, and which masks list each."""

from __future__ import annotations

import re
from string import digits
from typing import TYPE_CHECKING, Any

from ares.input import open_hdf5, open_hdf5_object, translate_hdf5_errors
from ares_ingest.array_roles import natural_key
from ares_ingest.episode_ends import EpisodeEnds, count_array_rows, read_episode_ends
from ares_ingest.hdf5.values import find_datasets, read_child_classes, read_small

if TYPE_CHECKING:
    from ares_ingest.spec import DatasetSpec, LayoutSpec


def list_episodes(file: Any, layout: LayoutSpec) -> dict[str, tuple[str, ...]]:
    """The groups of a file that are episodes, in natural order, with the masks that list each; "" for the file.

    Raises SourceError when the file is damaged.
    """
    if not layout.episodes:
        return {"": ()}
    folder, slash, _ = layout.episodes.rpartition("/")
    masks: dict[str, list[str]] = {name: [] for name in _list_names(file, layout)}
    for mask, members in read_masks(file, layout).items():
        for name in members:
            if name in masks:
                masks[name].append(mask)
    return {f"{folder}{slash}{name}": tuple(of_name) for name, of_name in masks.items()}


def _list_names(file: Any, layout: LayoutSpec) -> list[str]:
    """The names of the episodes in the group that holds them, in natural order. Raises SourceError."""
    import h5py  # type: ignore[import-untyped]

    folder, slash, pattern = layout.episodes.rpartition("/")
    parent = open_hdf5_object(file, folder)
    if not isinstance(parent, h5py.Group):
        return []
    parts = (
        "[^/]*" if part == "*" else r"\d{1,18}" if part == "{number}" else re.escape(part)
        for part in re.split(r"(\*|\{number\})", pattern)
    )
    expression = re.compile("".join(parts))
    # A broken link has the class None: an episode that is missing.
    names = (
        name
        for name, cls in read_child_classes(parent).items()
        if cls in (h5py.Group, None)
        and expression.fullmatch(name)
        and f"{folder}{slash}{name}" != layout.masks
    )
    return sorted(names, key=natural_key)


def read_masks(file: Any, layout: LayoutSpec) -> dict[str, list[str]]:
    """The names of episodes in each list of the masks. Raises SourceError."""
    import h5py

    group = open_hdf5_object(file, layout.masks) if layout.masks else None
    if not isinstance(group, h5py.Group):
        return {}
    classes = read_child_classes(group)
    values = {
        mask: read_small(open_hdf5_object(group, mask))
        for mask, cls in classes.items()
        if cls is h5py.Dataset
    }
    return {
        mask: [name for name in names if isinstance(name, str)]
        for mask, names in values.items()
        if isinstance(names, list)
    }


def list_unknown_episode_groups(path: str) -> list[str]:
    """The groups of a file that are its episodes: numbered, and all that it holds; [""] for one episode."""
    import h5py

    with open_hdf5(path) as file:
        classes = read_child_classes(file)
    names = sorted(classes, key=natural_key)
    prefixes = {name.rstrip(digits) for name in names}
    is_numbered = all(name[-1] in digits for name in names) and len(prefixes) == 1
    is_groups = bool(names) and all(classes[name] is h5py.Group for name in names)
    return names if is_groups and is_numbered else [""]


def find_episode_ends(path: str, spec: DatasetSpec | None) -> EpisodeEnds:
    """Where the episodes of a file of no known family end. Raises SourceError where it cannot be read."""
    with open_hdf5(path) as file, translate_hdf5_errors(path):
        arrays = find_datasets(file)
        key = spec.episode_ends if spec else ""
        return read_episode_ends(arrays, count_array_rows(arrays), path, key, spec)
