"""HDF5 files of foreign datasets: opened read-only, with every object and its values inside that one file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ares.errors import SourceError
from ares.input.budgets import input_budgets
from ares.input.files import check_input_file
from ares.io import describe_os_error, file_state, is_url, open_file

# Large enough that a chunk of several images is decompressed once rather than once per image.
_CHUNK_CACHE_BYTES = 64 * 2**20
_LONGEST_LINK_CHAIN = 8


@contextmanager
def translate_hdf5_errors(where: str) -> Iterator[None]:
    """Turn what h5py raises for a truncated or damaged file into a SourceError; wrap calls of h5py only."""
    try:
        yield
    except MemoryError:
        raise SourceError("reading takes more memory than allowed", where) from None
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError) as error:
        message = str(error).strip("'\"") or type(error).__name__
        raise SourceError(_error_reason(message), f"{where}: {message}") from None


def _error_reason(message: str) -> str:
    """What a message of the HDF5 library means for the file."""
    if "unable to lock file" in message:
        return "HDF5 file is being written"
    # The library looks for a filter that it does not have in a folder of plug-ins.
    if "required filter" in message or "plugin" in message:
        return "HDF5 file is compressed with a filter that is not installed"
    return "HDF5 file is cut or damaged"


@contextmanager
def open_hdf5(path: str) -> Iterator[Any]:
    """An HDF5 file, open for reading and closed afterwards.

    Raises SourceError for a file that is missing, empty, truncated, being written, or not HDF5.
    """
    import h5py  # type: ignore[import-untyped]

    try:
        check_input_file(path)
        size = file_state(path).size
    except FileNotFoundError:
        raise SourceError("file is missing", path) from None
    except OSError as error:
        raise SourceError("file cannot be read", f"{path}: {describe_os_error(error)}") from None
    if not size:
        raise SourceError("HDF5 file is empty", f"{path}: 0 bytes")
    with translate_hdf5_errors(path):
        options = {"rdcc_nbytes": _CHUNK_CACHE_BYTES}
        if is_url(path):
            handle = h5py.File(open_file(path), "r", **options)
        else:
            # "best-effort": network and read-only file systems without locks are read as well.
            handle = h5py.File(path, "r", locking="best-effort", **options)
    try:
        yield handle
    finally:
        handle.close()


def open_hdf5_object(group: Any, path: str) -> Any:
    """The group or dataset at a path below a group, reached without opening any other file; None where nothing is.

    Raises SourceError where a link leads to another file or the file is damaged.
    """
    with translate_hdf5_errors(f"{group.file.filename} {path}"):
        return _follow_links(group, path, _LONGEST_LINK_CHAIN)


def _follow_links(group: Any, path: str, links_left: int) -> Any:
    """Follow hard and soft links part by part; external ones raise SourceError before their file is opened."""
    import h5py

    child = group.file["/"] if path.startswith("/") else group
    for name in filter(None, path.split("/")):
        link = child.get(name, getlink=True) if isinstance(child, h5py.Group) else None
        if link is None:
            return None
        if isinstance(link, h5py.ExternalLink):
            raise SourceError(
                "HDF5 link leads to another file", f"{group.file.filename} {path}: to {link.filename}"
            )
        if isinstance(link, h5py.SoftLink):
            if not links_left:
                return None
            child = _follow_links(child, link.path, links_left - 1)
        else:
            child = child[name]
    return child


def has_own_storage(dataset: Any) -> bool:
    """Whether the values of a dataset lie in its file: neither in external files nor in those of a virtual dataset."""
    return not dataset.external and not dataset.is_virtual


def require_own_storage(dataset: Any) -> Any:
    """The dataset. Raises SourceError for one whose values are in another file, or in chunks above the budget."""
    if not has_own_storage(dataset):
        raise SourceError("values are in another file", f"{dataset.file.filename} {dataset.name}")
    chunk_bytes = math.prod(dataset.chunks) * dataset.dtype.itemsize if dataset.chunks else 0
    limit = input_budgets().array_bytes
    if chunk_bytes > limit:
        where = f"{dataset.file.filename} {dataset.name}"
        raise SourceError("a chunk of the dataset is too large", f"{where}: {chunk_bytes} of {limit} bytes")
    return dataset
