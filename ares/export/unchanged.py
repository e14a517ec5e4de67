"""What an export has in common with the last one of its set: such files are linked, and not written once more."""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ares.curation import EXPORTS, carried_split
from ares.export.base import MANIFEST_FILE, TIMES_FILE, ExportReport, ExportRequest
from ares.export.dataset_card import CARD_FILE, write_dataset_card
from ares.export.resume import staging_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ares.store import Stores


# People and trainers edit texts in place, and a file that is linked is the same in both folders.
_COPIED = (".json", ".jsonl", ".md", ".yaml", ".txt", ".csv")


class EarlierExport(NamedTuple):
    """The last export of a set that is still there.

    Attributes:
        folder: Where it is.
        episodes: How many it has.
        state: Hash of what decided what was written, see `hash_state`.
        files: Hash of its files, see `hash_files_of`.
        failed: How many episodes it lacks.
        number: Grows with each export of the set, whatever the clock says.
    """

    folder: Path
    episodes: int
    state: str
    files: str
    failed: int
    number: int


def find_earlier_exports(stores: Stores, set_name: str) -> list[EarlierExport]:
    """The exports of a set by its name, the newest first, whether or not they are still there."""
    documents = [
        cast("dict[str, Any]", document) for _, document in stores.annotations.find_documents(EXPORTS)
    ]
    of_set = [
        item for item in documents if str(item["set"]).partition("@")[0] == set_name and "state" in item
    ]
    of_set.sort(key=lambda item: int(item["number"]), reverse=True)
    return [
        EarlierExport(
            Path(item["path"]),
            item["episodes"],
            item["state"],
            item["files"],
            len(item["failed"]),
            item["number"],
        )
        for item in of_set
    ]


def hash_state(request: ExportRequest, stores: Stores) -> str:
    """Hash of all that decides what an export has: the members, what was asked, and what the workspace holds."""
    episodes = stores.tables.connection.newest_version("episodes").version
    content = replace(request, destination=Path(), min_kept=None, min_precision=None, least_episodes=0)
    members = (request.set.name, request.set.ids_hash, request.set.num_members)
    split = [row.to_json() for row in carried_split(stores.annotations, request.set)]
    options = {**content.options, "refuted": request.refuted, "files": request.files_hash}
    state = (
        request.format,
        members,
        options,
        version("ares-curation"),
        stores.annotations.position(),
        episodes,
        *((split,) if split else ()),
    )
    return hashlib.sha256(repr(state).encode()).hexdigest()


def hash_files_of(folder: Path) -> str:
    """Hash of the names, sizes and times of all files of an export but those that say when it was made."""
    digest = hashlib.sha256()
    for path in _list_files(folder):
        stat = path.stat()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _list_files(folder: Path) -> Iterator[Path]:
    varying = {folder / name for name in (MANIFEST_FILE, TIMES_FILE, CARD_FILE)}
    yield from sorted(path for path in folder.rglob("*") if path.is_file() and path not in varying)


def repeat_export(
    request: ExportRequest, stores: Stores, earlier: list[EarlierExport]
) -> ExportReport | None:
    """Write an export of which nothing has changed since an earlier one: its files are linked.

    Args:
        request: The export.
        stores: Stores of the workspace.
        earlier: Earlier exports of its set.

    Returns:
        Its report; None where something has changed, or nothing is left of the earlier ones as it was written.

    Raises:
        RequestError: The destination is not empty.
        StoreError: The disk is full.
    """
    state, started = hash_state(request, stores), time.monotonic()
    same = (item for item in earlier if item.state == state and not item.failed and item.folder.is_dir())
    before = next((item for item in same if hash_files_of(item.folder) == item.files), None)
    if before is None or request.destination.expanduser().resolve() == before.folder:
        return None
    document: dict[str, Any] = json.loads((before.folder / MANIFEST_FILE).read_text(encoding="utf-8"))
    with staging_folder(request.destination, "unchanged", state) as staged:
        for path in _list_files(before.folder):
            _link(path, staged.folder / path.relative_to(before.folder))
        selection = request.set.to_json()
        document["set"] = {
            name: value for name, value in selection.items() if name not in ("created", "person")
        }
        write_dataset_card(staged.folder, document)
        times = {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "set_created": selection["created"],
        }
        for name, content in ((TIMES_FILE, times), (MANIFEST_FILE, document)):
            text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
            (staged.folder / name).write_text(text + "\n", encoding="utf-8")
    return ExportReport(
        **{**document["counts"], "left_out": tuple(document["counts"]["left_out"])},
        set=request.set.label,
        path=request.destination,
        seconds=time.monotonic() - started,
        unchanged_since=str(before.folder),
    )


def link_equal_files(folder: Path, earlier: list[EarlierExport]) -> None:
    """Replace the files of an export by links to equal ones of the last export that is still there."""
    before = next((item.folder for item in earlier if item.folder.is_dir() and item.folder != folder), None)
    for path in _list_files(folder) if before else ():
        twin = cast("Path", before) / path.relative_to(folder)
        if path.suffix in _COPIED or not twin.is_file() or not filecmp.cmp(path, twin, shallow=False):
            continue
        linked = path.with_name(f"{path.name}.tmp")
        try:
            os.link(twin, linked)
        except OSError:
            return  # another file system, or one without links
        linked.replace(path)


def _link(source: Path, target: Path) -> None:
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
