"""HDF5 files of strangers: opened within bounds, links followed within the file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ares.errors import SourceError
from ares.input.files import prepare_input_file
from ares.input.limits import input_budgets
from ares.io import describe_os_error, file_state, is_url, open_file

# Large enough that a chunk of several images is decompressed once rather than once per image.
_CHUNK_CACHE_BYTES = 64 * 2**20

# Soft links that are followed from one path; the Linux kernel allows as many symbolic ones.
_MOST_LINKS = 40

# Names on the way to one object, those in the links included.
_MOST_NAMES = 1_000


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
        prepare_input_file(path)
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
        return _follow_links(group, path)


def _follow_links(group: Any, path: str) -> Any:
    """Follow hard and soft links part by part; external ones raise SourceError before their file is opened."""
    import h5py

    child, links_left = group, _MOST_LINKS
    waiting = _reversed_parts(path)
    for _ in range(_MOST_NAMES):
        if not waiting:
            return child
        name = waiting.pop()
        if name == "/":
            child = group.file["/"]
            continue
        kind, target = _link_kind_and_target(child, name) if isinstance(child, h5py.Group) else ("", "")
        if kind == "external":
            raise SourceError("HDF5 link leads to another file", f"{group.file.filename} {path}: to {target}")
        if not kind or (kind == "soft" and not links_left):
            return None
        if kind == "soft":
            links_left -= 1
            waiting += _reversed_parts(target)
        else:
            child = child[name]
    return None


def is_hard_link(group: Any, name: str | bytes) -> bool:
    """Whether a name in a group is an object of its file, by the entry alone: a link to elsewhere is not followed.

    h5py gives a name that is no UTF-8, as in a damaged file, as bytes.
    """
    with translate_hdf5_errors(f"{group.file.filename} {group.name}"):
        return _link_kind_and_target(group, name)[0] == "hard"


def _link_kind_and_target(group: Any, name: str | bytes) -> tuple[str, str]:
    """Kind of an entry of a group, "hard", "soft", "external" or "" for none, and where a link leads.

    `Group.get(name, getlink=True)` of h5py first looks whether the target exists: it would open another file, which may
    be a pipe, and follow soft links without bound.
    """
    import h5py

    entry = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
    links = group.id.links
    if not links.exists(entry):
        return "", ""
    kind = links.get_info(entry).type
    if kind == h5py.h5l.TYPE_HARD:
        return "hard", ""
    if kind == h5py.h5l.TYPE_SOFT:
        return "soft", links.get_val(entry).decode("utf-8", "surrogateescape")
    return "external", repr(links.get_val(entry)) if kind == h5py.h5l.TYPE_EXTERNAL else "an unknown kind"


def _reversed_parts(path: str) -> list[str]:
    """The names of a path, the first one last; "/" before them for a path from the root of the file."""
    parts = [name for name in path.split("/") if name]
    return [*reversed(parts), *(["/"] if path.startswith("/") else [])]


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
