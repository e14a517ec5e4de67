"""Loads HDF5 files of no known family, by a spec or by the names and shapes of their datasets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod
from string import digits
from typing import TYPE_CHECKING, Any

from ares.episode import Record
from ares.errors import SourceError
from ares.input import open_hdf5, open_hdf5_object
from ingest.arrays import guess_roles
from ingest.hdf5.episode import ArrayRoles, EpisodeDetails, HDF5Entry, count_steps, make_record
from ingest.hdf5.reader import (
    HDF5EpisodeReader,
    child_classes,
    find_datasets,
    natural_key,
    read_attributes,
    small_values,
)
from ingest.signals import MAX_SIGNAL_WIDTH, resolve_rate

if TYPE_CHECKING:
    from ingest.dataset_spec import DatasetSpec

FAMILY = "unknown"
NO_FAMILY = "HDF5 file is of no known family"


def unknown_groups(path: str) -> list[str]:
    """The groups of a file that are its episodes: numbered, and all that it holds; [""] for one episode."""
    import h5py  # type: ignore[import-untyped]

    with open_hdf5(path) as file:
        classes = child_classes(file)
    names = sorted(classes, key=natural_key)
    prefixes = {name.rstrip(digits) for name in names}
    is_numbered = all(name[-1] in digits for name in names) and len(prefixes) == 1
    is_groups = bool(names) and all(classes[name] is h5py.Group for name in names)
    return names if is_groups and is_numbered else [""]


def load_unknown(entry: HDF5Entry, spec: DatasetSpec | None) -> Record:
    """Read an episode of a file of no known family; the spec is applied to its record afterwards.

    Raises SourceError when the file is damaged, or no dataset has rows.
    """
    with open_hdf5(entry.path) as file:
        group = open_hdf5_object(file, entry.group) if entry.group else file
        datasets = find_datasets(group)
        key = _steps_key(datasets, spec)
        steps = count_steps(datasets, [key], f"{entry.path} {entry.group}".strip())
        rate_hz, rate_source = resolve_rate(entry.rate_hz, None)
        reader = HDF5EpisodeReader(entry.path, entry.group, steps, rate_hz)
        if rate_source == "assumed" and not entry.time.key:
            reader.warnings.append(f"rate is not known, {rate_hz:g} Hz assumed (give --rate)")
        roles = guess_roles(_widths(datasets, steps))
        details = EpisodeDetails(rate_source=rate_source, metadata=small_values(read_attributes(group)))
        array_roles = ArrayRoles(action=roles.action, state=roles.state, reward=roles.reward)
        return make_record(entry, reader, datasets, array_roles, details)


def _widths(datasets: Mapping[str, Any], steps: int) -> dict[str, int]:
    """Numbers per step of each dataset that can be a signal."""
    widths = {
        label: prod(dataset.shape[1:])
        for label, dataset in datasets.items()
        if dataset.shape and dataset.dtype.kind in "biuf" and len(dataset) >= steps and dataset.ndim < 4
    }
    return {label: width for label, width in widths.items() if 0 < width <= MAX_SIGNAL_WIDTH}


def _steps_key(datasets: Mapping[str, Any], spec: DatasetSpec | None) -> str:
    """The dataset whose rows are the steps: the action, else the state, else one of the most frequent length."""
    rows = {
        label: len(dataset)
        for label, dataset in datasets.items()
        if dataset.shape and len(dataset) and dataset.dtype.kind in "biuf"
    }
    roles = guess_roles(dict.fromkeys(rows, 2))
    slices = (*spec.action, *spec.state) if spec else ()
    keys = [key for key in (*(part.key for part in slices), *roles.action, *roles.state) if key in rows]
    if not rows:
        raise SourceError(
            "episode holds no array with rows", f"there are {', '.join(datasets) or 'no datasets'}"
        )
    most = max(Counter(rows.values()).items(), key=lambda pair: (pair[1], pair[0]))[0]
    return keys[0] if keys else next(label for label, count in rows.items() if count == most)
