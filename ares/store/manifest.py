"""The manifest of a workspace, workspace.json: whether there is one, and what it says."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from ares.errors import RequestError, StoreError, storage_error
from ares.io import describe_os_error, is_url, local_file_path, parse_path, translate_remote_errors
from ares.settings import Settings

# The layout of the workspace; `ares.store.stores` has a step for every earlier one.
FORMAT = 3
_NAME = "workspace.json"
_KEYS = {"format", "workspace_id", "annotations"}
# Files that a desktop leaves in every folder that it shows.
_DESKTOP_FILES = {".ds_store", "thumbs.db", "desktop.ini", ".directory"}


def workspace_exists(path: str) -> bool:
    """Return whether a folder or URI holds a workspace. Raises StoreError when the object store cannot be reached."""
    with _store_errors(path):
        return (parse_path(path) / _NAME).exists()


def read_or_create(path: str, settings: Settings) -> dict[str, object]:
    """Return the manifest of a workspace, creating it in an empty or new folder.

    Raises:
        RequestError: The folder holds something else, or an object store is to be used without MongoDB.
        StoreError: A newer version wrote the workspace, or its location cannot be reached or written.
    """
    path = local_file_path(path)
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
            not entry.name.startswith(_NAME) and entry.name.lower() not in _DESKTOP_FILES
            for entry in folder.iterdir()
        )
        is_no_folder = folder.exists() and not folder.is_dir()
        is_other_content = (has_other_files or is_no_folder) and not (folder / _NAME).exists()
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
        with _partial_manifest(folder, text) as partial:
            try:
                os.link(partial, folder / _NAME)
            except FileExistsError:
                pass
            except OSError:  # a file system without hard links
                partial.replace(folder / _NAME)
    except NotADirectoryError:
        raise RequestError(
            f"there can be no workspace at {str(folder)!r}", "a part of it is a file"
        ) from None
    except OSError as error:
        raise storage_error(error) from None


@contextmanager
def _partial_manifest(folder: Path, text: str) -> Iterator[Path]:
    """A file beside the manifest with what it is to hold; deleted at the end, also where it cannot be written."""
    partial = folder / f"{_NAME}.{uuid.uuid4().hex}.tmp"
    try:
        partial.write_text(text)
        yield partial
    finally:
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
        with _partial_manifest(Path(path), text) as partial:
            partial.replace(Path(path) / _NAME)


@contextmanager
def _store_errors(path: str) -> Iterator[None]:
    """Turn errors of file systems and object stores into a StoreError."""
    try:
        with translate_remote_errors(path):
            yield
    except OSError as error:
        raise StoreError("the workspace cannot be reached", f"{path}: {describe_os_error(error)}") from None
