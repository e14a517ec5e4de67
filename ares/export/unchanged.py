"""What an export has in common with an earlier one: such files are linked, and not written once more."""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.curation import carried_split
from ares.errors import RequestError
from ares.export.base import MANIFEST_FILE, TIMES_FILE, ExportReport, ExportRequest
from ares.export.dataset_card import CARD_FILE, write_dataset_card
from ares.export.staging import MARKER, staging_folder

if TYPE_CHECKING:
    from ares.store import Stores


# People and trainers edit texts in place, and a file that is linked is the same in both folders.
_COPIED = (".json", ".jsonl", ".md", ".yaml", ".txt", ".csv")


def check_link_folder(folder: Path) -> None:
    """Raise RequestError for a folder that is no export."""
    if not (folder / MANIFEST_FILE).is_file():
        raise RequestError("files can be linked to an export alone", f"{folder} has no {MANIFEST_FILE}")


def hash_state(request: ExportRequest, stores: Stores) -> str:
    """Hash of all that decides what an export has: the members, what was asked, and what the workspace holds."""
    episodes = stores.tables.connection.newest_version("episodes").version
    members = (request.set.name, request.set.ids_hash, request.set.num_members)
    content = replace(request, destination=Path())
    split = [row.to_json() for row in carried_split(stores.annotations, request.set)]
    plan = request.plan.model_dump_json() if request.plan else ""
    requested = (request.format, members, content.options, plan, request.files_hash)
    state = (*requested, split, version("ares-curation"), stores.annotations.position(), episodes)
    return hashlib.sha256(repr(state).encode()).hexdigest()


def note_state(folder: Path, state: str) -> None:
    """Note in an export that is complete by what it was decided, and which files it has; else it is never linked."""
    with suppress(OSError):
        times = json.loads((folder / TIMES_FILE).read_text(encoding="utf-8"))
        _write_json(folder / TIMES_FILE, {**times, "state": state, "files": _hash_files(folder)})


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    partial = path.with_name(f"{path.name}.tmp")
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    try:
        partial.write_text(text + "\n", encoding="utf-8")
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def _hash_files(folder: Path) -> str:
    """Hash of the names, sizes and times of all files of an export but those that say when it was made."""
    digest = hashlib.sha256()
    for path in _list_files(folder):
        stat, name = path.stat(), path.relative_to(folder).as_posix()
        digest.update(f"{name} {stat.st_size} {stat.st_mtime_ns}|".encode())
    return digest.hexdigest()


def _list_files(folder: Path) -> Iterator[Path]:
    varying = {folder / name for name in (MANIFEST_FILE, TIMES_FILE, CARD_FILE, MARKER)}
    yield from sorted(path for path in folder.rglob("*") if path.is_file() and path not in varying)


def repeat_export(request: ExportRequest, earlier: Path, state: str) -> ExportReport | None:
    """Write an export that has all that an earlier one has: its files are linked, unless it is that one.

    Args:
        request: The export.
        earlier: The earlier one.
        state: The state by which this one is decided, see `hash_state`.

    Returns:
        Its report; None where something has changed, or the earlier one lacks episodes or is not as it was written.

    Raises:
        RequestError: The destination is not empty.
        StoreError: The disk is full.
    """
    started, earlier = time.monotonic(), earlier.resolve()
    try:
        times, document = (
            json.loads((earlier / name).read_text(encoding="utf-8")) for name in (TIMES_FILE, MANIFEST_FILE)
        )
    except (OSError, ValueError) as error:
        raise RequestError("the export to link to cannot be read", f"{earlier}: {error}") from None
    if times.get("state") != state or times["files"] != _hash_files(earlier):
        return None
    report = ExportReport(
        **{**document["counts"], "left_out": tuple(document["counts"]["left_out"])},
        set=request.set.label,
        path=request.destination,
        seconds=time.monotonic() - started,
        unchanged_since=str(earlier),
    )
    if earlier == request.destination.resolve():
        return report
    if report.failed:
        return None
    selection = request.set.to_json()
    with staging_folder(request.destination) as folder:
        for path in _list_files(earlier):
            _link_file(path, folder / path.relative_to(earlier))
        document["set"] = {
            name: value for name, value in selection.items() if name not in ("created", "person")
        }
        write_dataset_card(folder, document)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        _write_json(folder / TIMES_FILE, {"created": now, "set_created": selection["created"]})
        _write_json(folder / MANIFEST_FILE, document)
        note_state(folder, state)
    return report


def link_equal_files(folder: Path, earlier: Path) -> None:
    """Replace the files of an export by links to equal ones of an earlier one; texts stay files of their own."""
    for path in _list_files(folder):
        twin = earlier / path.relative_to(folder)
        if path.suffix in _COPIED or not twin.is_file() or not filecmp.cmp(path, twin, shallow=False):
            continue
        linked = path.with_name(f"{path.name}.tmp")
        try:
            os.link(twin, linked)
        except OSError:
            return  # another file system, or one without links
        linked.replace(path)


def _link_file(source: Path, target: Path) -> None:
    """Link a file that nobody edits; copy any other, and where links cannot be."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix not in _COPIED:
        try:
            os.link(source, target)
        except OSError:
            pass
        else:
            return
    shutil.copy2(source, target)
