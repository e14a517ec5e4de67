"""The folder that an export is written in: it has the name of the export once it is whole."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ares.errors import RequestError, StoreError, is_disk_full

# In the folder of an unfinished export: whoever stopped it, the folder is of ARES.
MARKER = ".ares-export"


@contextmanager
def staging_folder(destination: Path) -> Iterator[Path]:
    """Yield a folder to write into, which is renamed to the destination on success and removed on failure.

    What a killed export left beside the destination is removed. `finish_export` takes the marker out of the folder.

    Args:
        destination: The folder of the export.

    Raises:
        RequestError: The destination is not empty, cannot be created, or another process writes it.
        StoreError: The disk is full.
    """
    destination = destination.expanduser().resolve()
    with hold_destination(destination):
        try:
            partial = _open_partial(destination)
        except OSError as error:
            raise RequestError("the export folder cannot be created", f"{destination}: {error}") from None
        try:
            yield partial
            partial.replace(destination)
        except BaseException as error:
            shutil.rmtree(partial, ignore_errors=True)
            if is_disk_full(error):
                detail = f"nothing is left of the export to {destination}"
                raise StoreError("the disk is full", detail) from error
            raise


def finish_export(folder: Path) -> None:
    """Take the marker out of an export that is complete; without this the next one takes it for a stopped one."""
    (folder / MARKER).unlink(missing_ok=True)


@contextmanager
def hold_destination(destination: Path) -> Iterator[None]:
    """Keep other processes from writing an export: they would take its folder for one that was stopped."""
    import fcntl

    path = destination.with_name(f"{destination.name}.tmp.lock")
    missing = [folder for folder in path.parents if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise RequestError("the export folder cannot be created", f"{destination}: {error}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RequestError(
                "another process writes this export",
                f"{destination}; wait for its end, or name another folder",
            ) from None
        except OSError:
            pass  # a file system without locks
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            with suppress(OSError):  # they have an export
                for folder in missing:
                    folder.rmdir()


def _open_partial(destination: Path) -> Path:
    """The folder beside the destination, empty but for the marker. Raises OSError."""
    partial = destination.with_name(destination.name + ".tmp")
    if (destination / MARKER).is_file() and not partial.exists():
        destination.replace(partial)  # it was complete, and about to be finished
    # A device such as /dev/null is no file, and no folder either.
    if any(destination.iterdir()) if destination.is_dir() else destination.exists():
        raise RequestError("the export folder is not empty", f"{destination}; name a new or an empty folder")
    left = list(partial.iterdir()) if partial.exists() else []
    if left and not (partial / MARKER).is_file():
        raise RequestError("the folder for the unfinished export exists already", f"{partial}; move it away")
    # The marker goes last: without it the rest would be of nobody.
    for path in left:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARKER:
            path.unlink()
    partial.mkdir(parents=True, exist_ok=True)
    (partial / MARKER).touch()
    return partial
