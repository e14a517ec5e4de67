"""Writes small HDF5 files and ingests them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
from numpy.typing import NDArray

from ares.episode import Record, Signal
from ares.errors import SourceError
from ares_ingest.base import Item, Source, SourceOptions
from ares_ingest.hdf5 import hdf5


class Hdf5Files:
    """Writes HDF5 files of a few steps and reads them through the ingester."""

    steps = 9

    def __init__(self) -> None:
        self._random = np.random.default_rng(5)

    def numbers(self, *shape: int, dtype: str = "float32") -> NDArray[Any]:
        return self._random.normal(size=shape or (self.steps,)).astype(dtype)

    def pictures(self, steps: int = 9) -> NDArray[np.uint8]:
        return self._random.integers(0, 256, (steps, 24, 32, 3), np.uint8)

    def write(self, path: Path, attrs: dict[str, dict[str, Any]] | None = None, **arrays: Any) -> Path:
        """A file of arrays by path, with "__" for each slash; attributes by group."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with h5py.File(path, "w") as file:
            for name, values in arrays.items():
                file[name.replace("__", "/")] = values
            for group, named in (attrs or {}).items():
                file.require_group(group).attrs.update(named)
        return path

    def demo(self, path: Path, attrs: dict[str, dict[str, Any]] | None = None, **arrays: Any) -> Path:
        """A file of one demonstration, with actions unless they are given."""
        all_arrays = {"actions": self.numbers(self.steps, 7), **arrays}
        named = {f"data__demo_0__{name}": values for name, values in all_arrays.items() if values is not None}
        return self.write(path, attrs, **named)

    def opened(self, path: Path, **options: Any) -> Source:
        (source,) = hdf5.open(str(path), SourceOptions(**options))
        return source

    def only(self, path: Path, **options: Any) -> Record:
        (item,) = self.opened(path, **options).items
        return item.load()

    def outcome(self, item: Item) -> str:
        try:
            item.load()
        except SourceError as error:
            return error.reason
        return "good"

    def values(self, signal: Signal | None) -> NDArray[np.float32]:
        assert signal is not None and signal.values.dtype == np.float32
        return signal.values


@pytest.fixture(scope="session")
def h5() -> Hdf5Files:
    return Hdf5Files()
