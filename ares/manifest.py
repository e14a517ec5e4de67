"""Manifest: workspace.json says which workspace this is; it is written once, also when two make it at once."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from ares import files
from ares.errors import RequestError, StoreError
from ares.settings import Settings

FORMAT = 1
_NAME = "workspace.json"


def exists(path: str) -> bool:
    """Whether there is a workspace. Raises StoreError when the object store cannot be asked."""
    with _reaching(path):
        return (files.place(path) / _NAME).exists()


def read_or_create(path: str, settings: Settings) -> dict[str, object]:
    """The manifest of a workspace, made where nothing is yet.

    Raises:
        RequestError: Something else lies there, or an object store is to be used without MongoDB.
        StoreError: The workspace was written by a newer version, or the object store cannot be asked.
    """
    if not exists(path):
        _check_empty(path)
        if files.is_url(path) and not settings.mongo_uri:
            raise RequestError(
                "a workspace on an object store keeps its annotations in MongoDB",
                "set ARES_MONGO_URI to a server: an SQLite file cannot live there",
            )
        _create(path, settings)
    return _read(path)


def _check_empty(path: str) -> None:
    folder = files.place(path)
    with _reaching(path):
        # Another process may be making the workspace right now.
        others = folder.is_dir() and any(not each.name.startswith(_NAME) for each in folder.iterdir())
        taken = (others or folder.is_file()) and not (folder / _NAME).exists()
    if taken:
        remedy = "give an empty or a new folder, or a workspace"
        raise RequestError(f"{path!r} is no workspace", remedy)


def _create(path: str, settings: Settings) -> None:
    """Write the manifest if there is none; of several who try at once one succeeds, and all read what it wrote."""
    document = {
        "format": FORMAT,
        "workspace_id": uuid.uuid4().hex,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "annotations": "mongo" if settings.mongo_uri else "sqlite",
    }
    text = json.dumps(document, indent=1) + "\n"
    if files.is_url(path):
        _put(path, text)
    else:
        _link(Path(path), text)


def _put(path: str, text: str) -> None:
    target = files.place(path) / _NAME
    with _reaching(path):
        fs, key = target.fs, target.path  # type: ignore[attr-defined]
        # "create" is a conditional put (If-None-Match: *): the store itself refuses the second.
        with suppress(FileExistsError):
            fs.pipe_file(key, text.encode(), mode="create")
            return
    if not exists(path):
        raise StoreError("the workspace could not be made", f"{path!r} refused {_NAME}")


def _link(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{_NAME}.{uuid.uuid4().hex}.tmp"
    partial.write_text(text)
    try:
        os.link(partial, folder / _NAME)
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links
        partial.replace(folder / _NAME)
    partial.unlink(missing_ok=True)


def _read(path: str) -> dict[str, object]:
    manifest = files.place(path) / _NAME
    try:
        with _reaching(path):
            document = json.loads(manifest.read_text())
    except ValueError as error:
        raise StoreError(f"{str(manifest)!r} cannot be read", str(error)) from None
    if document.get("format") != FORMAT:
        raise StoreError(
            f"the workspace has format {document.get('format')!r}",
            f"this version of ARES reads format {FORMAT}",
        )
    return dict(document)


@contextmanager
def _reaching(path: str) -> Iterator[None]:
    try:
        with files.failing_as_os_error(path):
            yield
    except OSError as error:
        raise StoreError("the workspace cannot be reached", f"{path}: {files.words(error)}") from None
