"""The tree of an HDF5 file as Python values: its datasets, children, attributes and small arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ares.episode import Json
from ares.errors import SourceError
from ares.input import (
    input_budgets,
    is_hard_link,
    open_hdf5_object,
    parse_json,
    require_own_storage,
    translate_hdf5_errors,
)

LONGEST_TEXT = 1000
LONGEST_LIST = 64
_SMALL_BYTES = 2**24


def find_datasets(group: Any) -> dict[str, Any]:
    """Every dataset in or below a group by its path relative to the group. Raises SourceError."""
    import h5py  # type: ignore[import-untyped]

    datasets: dict[str, Any] = {}

    def add_dataset(name: str | bytes, child: Any) -> None:
        label = _require_utf8(name)
        # A damaged type raises only when dtype is read.
        if isinstance(child, h5py.Dataset) and child.dtype:
            datasets[label] = child

    with translate_hdf5_errors(f"{group.file.filename} {group.name}"):
        group.visititems(add_dataset)
    return datasets


def read_child_classes(group: Any) -> dict[str, Any]:
    """The h5py class of each child of a group by name; None for a broken link. Raises SourceError."""
    where = f"{group.file.filename} {group.name}"
    with translate_hdf5_errors(where):
        limit = input_budgets().members
        if len(group) > limit:
            raise SourceError("HDF5 group holds too many names", f"{where}: {len(group)} of {limit}")
        return {_require_utf8(name): _class_of_child(group, name) for name in group}


def _class_of_child(group: Any, name: str) -> Any:
    if is_hard_link(group, name):
        return group.get(name, getclass=True)
    try:
        child = open_hdf5_object(group, name)
    except SourceError:
        return None
    return None if child is None else type(child)


def read_attributes(group: Any) -> dict[str, Any]:
    """The attributes of a group as Python values. Raises SourceError."""
    where = f"{group.file.filename} {group.name}"
    with translate_hdf5_errors(where):
        limit = input_budgets().members
        if len(group.attrs) > limit:
            raise SourceError(
                "HDF5 group holds too many attributes", f"{where}: {len(group.attrs)} of {limit}"
            )
        return {_require_utf8(name): to_plain_value(value) for name, value in group.attrs.items()}


def to_plain_value(value: Any) -> Any:
    """Convert a value of h5py or JSON to bool, number, valid UTF-8 text, list, dict or None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [to_plain_value(part) for part in value]
    if isinstance(value, dict):
        return {to_plain_value(name): to_plain_value(part) for name, part in value.items()}
    return value if isinstance(value, bool | int | float) else None


def parse_json_object(text: object) -> dict[str, Any] | None:
    """Parse text as a JSON object; None when it is not one."""
    try:
        parsed = parse_json(text, "attribute") if isinstance(text, str) else None
    except (ValueError, SourceError):
        return None
    return to_plain_value(parsed) if isinstance(parsed, dict) else None


TOO_LONG = "too long for the metadata"


def keep_small_values(values: Mapping[str, Any]) -> dict[str, Json]:
    """The values that are finite and small enough for an episode's metadata."""
    return {name: value for name, value in values.items() if not explain_unfit_value(value)}


def explain_unfit_value(value: Any) -> str:
    """Why an episode's metadata cannot hold a Python value; "" where it can."""
    import math

    if isinstance(value, list):
        return (
            TOO_LONG if len(value) > LONGEST_LIST else next(filter(None, map(explain_unfit_value, value)), "")
        )
    if isinstance(value, str):
        return "an empty text" if not value else TOO_LONG if len(value) > LONGEST_TEXT else ""
    if isinstance(value, float) and not math.isfinite(value):
        return "not finite"
    return "" if isinstance(value, bool | int | float) else "neither a number nor a text"


def read_small(dataset: Any) -> Any:
    """All values of a dataset as Python values. Raises SourceError above 16 MiB, or when they are in another file."""
    where = f"{dataset.file.filename} {dataset.name}"
    if dataset.nbytes > _SMALL_BYTES:
        raise SourceError(
            "HDF5 dataset is too large", f"{where}: {dataset.nbytes} bytes, at most {_SMALL_BYTES}"
        )
    with translate_hdf5_errors(where):
        return to_plain_value(require_own_storage(dataset)[()])


def _require_utf8(name: str | bytes) -> str:
    """The name as text; h5py returns names that are not UTF-8 as bytes. Raises ValueError for these."""
    if isinstance(name, bytes):
        raise ValueError(f"name {name!r} is not UTF-8")
    return name


class RowsOfDataset:
    """The rows of one episode in a dataset that holds those of several.

    Args:
        dataset: The dataset.
        rows: First row, and end of the rows.
    """

    def __init__(self, dataset: Any, rows: tuple[int, int]) -> None:
        self._dataset, self._rows = dataset, range(*rows)
        self.shape = (len(self._rows), *dataset.shape[1:])
        self.size = math.prod(self.shape)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, rows: Any) -> Any:
        """A row by its number, or rows by a slice without step."""
        if isinstance(rows, slice):
            rows = self._rows[rows]
            return self._dataset[rows.start : rows.stop]
        return self._dataset[self._rows[rows]]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)
