"""The folder of a workspace: its manifest, and the lock of the job that writes."""

from __future__ import annotations

import errno
import json
import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from ares.console import print_message
from ares.errors import DiskFull, ReadOnlyWorkspace, RequestError, StoreError, storage_error
from ares.io import describe_os_error, is_url, parse_path, translate_remote_errors
from ares.settings import Settings

_LOCK_FILE, _JOB_FILE = ".writing.lock", ".writing"


class WorkspaceBusy(Exception):
    """Another process has the write lock, and the caller did not want to wait."""


@contextmanager
def lock_folder(folder: Path, job_name: str, wait: bool = True) -> Iterator[None]:
    """Lock a folder for writing.

    Args:
        folder: The folder of the workspace.
        job_name: Name of the job, shown to those who wait.
        wait: Whether to wait for another writer, and print its name.

    Raises:
        WorkspaceBusy: Another process writes, and `wait` is off.
        ReadOnlyWorkspace: The folder cannot be written.
        DiskFull: There is no room for the lock.
    """
    from filelock import FileLock, Timeout

    lock, job_file = FileLock(folder / _LOCK_FILE), folder / _JOB_FILE
    try:
        with _write_errors(folder):
            lock.acquire(timeout=0)
    except Timeout:
        if not wait:
            raise WorkspaceBusy(_current_job(job_file)) from None
        print_message(f"waiting: {_current_job(job_file)} is writing to {folder}")
        lock.acquire()
    try:
        with suppress(DiskFull), _write_errors(folder):  # the name is for those who wait
            job_file.write_text(job_label(job_name))
        yield
    finally:
        lock.release()  # the name stays: it is read while the lock is held


@contextmanager
def _write_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except TimeoutError:  # of a lock that another has
        raise
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise storage_error(error) from error
        raise ReadOnlyWorkspace(
            "the workspace is read-only",
            f"{folder}: {error.strerror}; make it writable for this user, or work on a copy of it",
        ) from None


def job_label(job_name: str) -> str:
    """Return a job with its process and host, as shown to those who wait."""
    return f"{job_name} (process {os.getpid()} on {socket.gethostname()})"


def _current_job(job_file: Path) -> str:
    try:
        return job_file.read_text() or "another job"
    except OSError:
        return "another job"


# The layout of the workspace; `ares.store.stores` has a step for every earlier one.
FORMAT = 3
_NAME = "workspace.json"
_KEYS = {"format", "workspace_id", "annotations"}


def workspace_exists(path: str) -> bool:
    """Return whether a folder or URI holds a workspace. Raises StoreError when the object store cannot be reached."""
    with _store_errors(path):
        return (parse_path(path) / _NAME).exists()


def read_or_create(path: str, settings: Settings) -> dict[str, object]:
    """Return the manifest of a workspace, creating it in an empty or new folder.

    Raises:
        RequestError: The folder holds something else, or an object store is to be used without MongoDB.
        StoreError: A newer version wrote the workspace, or the object store cannot be reached.
    """
    if not workspace_exists(path):
        check_may_be_created(path, settings)
        _create_manifest(path, settings)
    return _read_manifest(path)


def check_may_be_created(path: str, settings: Settings) -> None:
    """Raise RequestError where no workspace can be created: beside other content, or on an object store alone."""
    folder = parse_path(path)
    with _store_errors(path):
        # Another process may be creating the workspace right now.
        has_other_files = folder.is_dir() and any(
            not entry.name.startswith(_NAME) for entry in folder.iterdir()
        )
        is_other_content = (has_other_files or folder.is_file()) and not (folder / _NAME).exists()
    if is_other_content:
        remedy = "choose an empty folder, a new folder, or a workspace"
        raise RequestError(f"{path!r} is not a workspace", remedy)
    if is_url(path) and not settings.mongo_uri:
        raise RequestError(
            "a workspace on an object store keeps its annotations in MongoDB",
            "set ARES_MONGO_URI to a server: an SQLite file cannot be on an object store",
        )


def _create_manifest(path: str, settings: Settings) -> None:
    """Write the manifest if there is none; if several processes try, one succeeds and all read its manifest."""
    document = {
        "format": FORMAT,
        "workspace_id": uuid.uuid4().hex,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "annotations": "mongo" if settings.mongo_uri else "sqlite",
        "ares": _ares_version(),
    }
    text = json.dumps(document, indent=1) + "\n"
    if is_url(path):
        _create_remote_manifest(path, text)
    else:
        _create_local_manifest(Path(path), text)


def _create_remote_manifest(path: str, text: str) -> None:
    target = parse_path(path) / _NAME
    with _store_errors(path):
        fs, key = target.fs, target.path  # type: ignore[attr-defined]
        # "create" is a conditional put (If-None-Match: *): the object store rejects the second writer.
        with suppress(FileExistsError):
            fs.pipe_file(key, text.encode(), mode="create")
            return
    if not workspace_exists(path):
        raise StoreError("the workspace could not be created", f"{path!r} rejected {_NAME}")


def _create_local_manifest(folder: Path, text: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except NotADirectoryError:
        raise RequestError(
            f"there can be no workspace at {str(folder)!r}", "a part of it is a file"
        ) from None
    partial = folder / f"{_NAME}.{uuid.uuid4().hex}.tmp"
    partial.write_text(text)
    try:
        os.link(partial, folder / _NAME)
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links
        partial.replace(folder / _NAME)
    partial.unlink(missing_ok=True)


def _read_manifest(path: str) -> dict[str, object]:
    manifest = parse_path(path) / _NAME
    try:
        with _store_errors(path):
            document = json.loads(manifest.read_text())
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{str(manifest)!r} cannot be read", str(error)) from None
    if not isinstance(document, dict) or not _KEYS.issubset(document):
        raise StoreError(f"{str(manifest)!r} cannot be read", f"it needs {', '.join(sorted(_KEYS))}")
    layout = document["format"]
    if type(layout) is not int or not 1 <= layout <= FORMAT:
        by = f", written by ARES {document['ares']}" if isinstance(document.get("ares"), str) else ""
        raise StoreError(
            f"the workspace has format {layout!r}{by}",
            f"this is ARES {_ares_version()}, which reads formats 1 to {FORMAT}: use a newer ARES,"
            " or the copy of the workspace from before its upgrade",
        )
    return dict(document)


def _ares_version() -> str:
    from importlib.metadata import version

    return version("ares-curation")


def read_format(path: str) -> int:
    """Return the layout of an existing workspace. Raises StoreError."""
    return int(str(_read_manifest(path)["format"]))


def write_format(path: str, layout: int) -> None:
    """Store the layout of a workspace that has been migrated. Raises StoreError when it cannot be written."""
    text = json.dumps({**_read_manifest(path), "format": layout, "ares": _ares_version()}, indent=1) + "\n"
    with _store_errors(path):
        if is_url(path):
            (parse_path(path) / _NAME).write_text(text)
            return
        partial = Path(path) / f"{_NAME}.{uuid.uuid4().hex}.tmp"
        partial.write_text(text)
        partial.replace(Path(path) / _NAME)


@contextmanager
def _store_errors(path: str) -> Iterator[None]:
    """Turn errors of file systems and object stores into a StoreError."""
    try:
        with translate_remote_errors(path):
            yield
    except OSError as error:
        raise StoreError("the workspace cannot be reached", f"{path}: {describe_os_error(error)}") from None
