"""Exports to a URL: written to a local folder, then uploaded whole; the manifest goes last."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ares.annotation import short_hash
from ares.console import print_message
from ares.errors import RequestError, StoreError
from ares.export.base import MANIFEST_FILE, ExportRequest
from ares.export.staging import MARKER, hold_destination
from ares.formats import INFO_PATH
from ares.io import describe_os_error, relative_path, translate_remote_errors
from ares.store import batched

if TYPE_CHECKING:
    from ares.store import Stores


_UPLOADED_AT_ONCE = 64
# What a new repository of the hub has.
_HUB_FILES = frozenset({".gitattributes", "README.md"})


class _Prefix:
    """A prefix of a bucket.

    Files are uploaded below PREFIX.tmp/OWNER and copied from there by the store. The manifest is written last and
    removed first: an export that has it is whole, and stays. While the marker is in PREFIX.tmp, what is below PREFIX
    without a manifest is of an unfinished export. The upload that began last has the marker.

    Args:
        fs: Its file system, of fsspec.
        root: The prefix, with the bucket.
    """

    def __init__(self, fs: Any, root: str) -> None:
        # Content of the marker, which tells two exports to one prefix apart.
        self._owner = uuid.uuid4().hex
        self._fs, self._root, self._temporary = fs, root, f"{root}.tmp"
        self._staged, self._marker = f"{self._temporary}/{self._owner}", f"{self._temporary}/{MARKER}"
        self._manifest = f"{root}/{MANIFEST_FILE}"
        # That of an export that was whole when its process was killed.
        self.earlier_manifest = ""

    def claim(self, request: ExportRequest) -> None:
        """Prepare it. Raises OSError, or RequestError where it is not empty."""
        if "/" not in self._root.lstrip("/"):
            raise RequestError("an export needs a folder in the bucket", f"got {self._root!r}")
        self._fs.invalidate_cache()
        self.earlier_manifest = self._read(self._manifest)
        is_free = self._read(self._marker) or not any(map(self._fs.find, (self._root, self._temporary)))
        if is_free:
            self._fs.pipe_file(self._marker, self._owner.encode())
            # Whoever had it has nothing left to copy, so that no manifest is written from here on.
            self._remove(self._temporary, kept=self._marker)
        if not is_free:
            raise self._other_export_error()
        self._check_owner()
        self.earlier_manifest = self._read(self._manifest)
        if not self.earlier_manifest:
            self._remove(self._root)
        elif not _is_of(self.earlier_manifest, request):
            self.clean(is_whole=False)
            raise self._other_export_error()

    def _other_export_error(self) -> RequestError:
        return RequestError("the export folder is not empty", f"{self._root}; name a new folder")

    def upload(self, folder: Path, names: Sequence[str], advance: Callable[[int], None]) -> None:
        """Write the files of a local folder, the last name last; nothing where the same export is there already.

        Raises OSError, or RequestError.
        """
        if self.earlier_manifest:
            if (folder / MANIFEST_FILE).read_text(encoding="utf-8") != self.earlier_manifest:
                raise self._other_export_error()
            advance(len(names))
            return
        for batch in batched(names, _UPLOADED_AT_ONCE):
            self._check_owner()
            self._fs.put([str(folder / name) for name in batch], [f"{self._staged}/{name}" for name in batch])
            advance(len(batch))
        for batch in (*batched(names[:-1], _UPLOADED_AT_ONCE), [names[-1]]):
            self._check_owner()
            self._fs.copy(
                [f"{self._staged}/{name}" for name in batch], [f"{self._root}/{name}" for name in batch]
            )

    def clean(self, is_whole: bool) -> None:
        """Remove the temporary files of this upload, and of one that is not whole all that it wrote. Raises OSError."""
        is_owner = self._read(self._marker) == self._owner
        if is_owner and not is_whole and not self.earlier_manifest:
            self._remove(self._root)
        self._remove(self._temporary if is_owner else self._staged)

    def _check_owner(self) -> None:
        if self._read(self._marker) != self._owner:
            raise RequestError("another process writes this export", f"{self._root}; name another folder")

    def _read(self, path: str) -> str:
        """The content of a file, "" without one. Raises OSError."""
        try:
            return bytes(self._fs.cat_file(path)).decode(errors="replace")
        except FileNotFoundError:
            return ""

    def _remove(self, folder: str, kept: str = "") -> None:
        """Remove all files of a folder but one: the manifest first, and the marker last."""

        def order(path: str) -> int:
            return (path == self._marker) - (path == self._manifest)

        removed = sorted((path for path in self._fs.find(folder) if path != kept), key=order)
        for _, paths in groupby(removed, key=order):
            for batch in batched(paths, 1000):
                self._fs.rm(batch)


def _is_of(manifest: str, request: ExportRequest) -> bool:
    """Whether a manifest is that of the same set with the same options."""
    with suppress(ValueError, LookupError, TypeError):
        document = json.loads(manifest)
        return (document["set"]["ids_hash"], document["export"]) == (request.set.ids_hash, request.options)
    return False


@dataclass(frozen=True, slots=True)
class _HubRepository:
    """A dataset of the Hugging Face hub, which one commit fills; a new one is private.

    Attributes:
        name: OWNER/NAME.
    """

    name: str
    earlier_manifest: ClassVar = ""

    def claim(self, request: ExportRequest) -> None:
        """Create it. Raises OSError, or RequestError where it is not empty."""
        from huggingface_hub import HfApi

        HfApi().create_repo(self.name, repo_type="dataset", private=True, exist_ok=True)
        if files := set(HfApi().list_repo_files(self.name, repo_type="dataset")) - _HUB_FILES:
            raise RequestError("the repository is not empty", f"{self.name} has {min(files)}; name a new one")

    def upload(self, folder: Path, names: Sequence[str], advance: Callable[[int], None]) -> None:
        from huggingface_hub import HfApi

        HfApi().upload_folder(repo_id=self.name, repo_type="dataset", folder_path=folder)
        if INFO_PATH in names:
            # lerobot looks for a tag of the version of the format.
            info = json.loads((folder / INFO_PATH).read_text(encoding="utf-8"))
            HfApi().create_tag(self.name, tag=info["codebase_version"], repo_type="dataset", exist_ok=True)
        advance(len(names))

    def clean(self, is_whole: bool) -> None:
        """Without a commit nothing was written."""


def _remote_folder(url: Any) -> _Prefix | _HubRepository:
    """The folder of a URL. Raises RequestError for a URL of the hub that names no dataset."""
    root = url.path.rstrip("/")
    if url.protocol != "hf":
        return _Prefix(url.fs, root)
    kind, _, name = root.partition("/")
    if kind != "datasets" or name.count("/") != 1:
        raise RequestError("a dataset of the hub is hf://datasets/OWNER/NAME", f"got {str(url)!r}")
    return _HubRepository(name)


@contextmanager
def local_destination(request: ExportRequest, stores: Stores, quiet: bool) -> Iterator[ExportRequest]:
    """Yield the request with a local folder; at the end of the block its files are uploaded to the URL.

    A request of a local folder is not changed. The local folder of an upload that failed stays: the same command then
    links its files and encodes nothing again.

    Args:
        request: The export.
        stores: Stores of the workspace, whose folder or cache has the local folder meanwhile.
        quiet: Show no progress of the upload.

    Raises:
        RequestError: The URL is not empty, or another process writes to it.
        StoreError: It cannot be written.
    """
    if isinstance(request.destination, Path):
        yield request
        return
    url, remote = str(request.destination), _remote_folder(request.destination)
    work = stores.folder / "uploads" / short_hash(url)
    written, earlier = work / "new", work / "whole"
    with hold_destination(work):
        _reach_url(url, remote, lambda: remote.claim(request))
        is_whole = False
        try:
            if (written / MANIFEST_FILE).is_file() and not (written / MARKER).exists():
                shutil.rmtree(earlier, ignore_errors=True)
                written.replace(earlier)
            link = request.link_dest or (earlier if earlier.is_dir() else None)
            yield replace(request, destination=written, link_dest=link)
            _reach_url(
                url, remote, lambda: _upload_folder(remote, written, f"upload {request.set.name}", quiet)
            )
            is_whole = True
        finally:
            try:
                with translate_remote_errors(url):
                    remote.clean(is_whole)
            except OSError:
                if is_whole:  # what stays of one that is not, the next export to this URL removes
                    print_message(
                        f"the export is whole; its temporary files stay below {url}.tmp: delete them"
                    )
        shutil.rmtree(work, ignore_errors=True)


def _reach_url(url: str, remote: _Prefix | _HubRepository, action: Callable[[], None]) -> None:
    """Do something with a URL. Raises StoreError where it cannot be reached or written."""
    try:
        with translate_remote_errors(url):
            action()
    except OSError as error:
        left = "an earlier export is there, " if remote.earlier_manifest else ""
        detail = f"{url}: {describe_os_error(error)}; {left}run the same command again"
        raise StoreError("the export cannot be written", detail) from None


def _upload_folder(remote: _Prefix | _HubRepository, folder: Path, label: str, quiet: bool) -> None:
    import sys
    from contextlib import closing

    from ares.jobs import Progress

    names = sorted(relative_path(path, folder) for path in folder.rglob("*") if path.is_file())
    names.append(names.pop(names.index(MANIFEST_FILE)))
    with closing(Progress(label, len(names), None if quiet else sys.stderr)) as progress:
        remote.upload(folder, names, progress.advance)
