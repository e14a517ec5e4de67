"""Writes Zarr stores of Diffusion Policy and UMI for tests, with the libraries zarr and imagecodecs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import zarr as zarr_library
from zarr.storage import ZipStore

from ares.episode import Record
from ares_ingest.base import Source, SourceOptions
from ares_ingest.zarr import zarr

ENDS = (4, 10)


def images(count: int = 10) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """(N, 24, 32, 3) uint8: the brightness of an image is 20 times its row."""
    return np.repeat(np.arange(count, dtype=np.uint8) * 20, 24 * 32 * 3).reshape(count, 24, 32, 3)


def fill(root: Any, **arrays: Any) -> None:
    """Two episodes of 4 and 6 steps in an open group; `arrays` are further arrays of data/."""
    data, meta = root.create_group("data"), root.create_group("meta")
    steps = np.arange(10, dtype=np.float32)
    data.create_array("action", data=np.stack([steps, -steps], axis=1), chunks=(3, 2))
    data.create_array("state", data=np.stack([steps * 2, steps, steps], axis=1), chunks=(3, 3))
    for name, values in arrays.items():
        data.create_array(name, data=values, chunks=(1, *values.shape[1:]))
    meta.create_array("episode_ends", data=np.array(ENDS))


def write_store(path: Path, version: Literal[2, 3] = 2, **arrays: Any) -> Path:
    """A store in a folder."""
    fill(zarr_library.open_group(str(path), mode="w", zarr_format=version), **{"img": images(), **arrays})
    return path


def write_zip(path: Path, version: Literal[2, 3] = 2, **arrays: Any) -> Path:
    """A store in a zip file."""
    store = ZipStore(path, mode="w")
    fill(zarr_library.open_group(store, mode="w", zarr_format=version), **{"img": images(), **arrays})
    store.close()
    return path


def opened(path: Path, **options: Any) -> Source:
    """The one source of a store or folder."""
    (source,) = zarr.open(str(path), SourceOptions(**options))
    return source


def read(path: Path, **options: Any) -> list[Record]:
    """The records of a store."""
    return [item.load() for item in opened(path, **options).items]
