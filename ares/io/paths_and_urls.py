"""Local paths and URLs of object stores: opened, listed and examined through the same functions."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from ares.errors import RequestError
from ares.imports import EXTRA_MODULES, missing_extra

if TYPE_CHECKING:
    from typing_extensions import Buffer


# Optional extra of this package that installs the library for a URL scheme.
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "hf": "hf", "http": "http", "https": "http"}
# An unreachable server is reported within seconds. FSSPEC_S3_CONFIG_KWARGS overrides these numbers.
_S3_OPTIONS = {
    "config_kwargs": {"connect_timeout": 5, "read_timeout": 60, "retries": {"max_attempts": 2}},
    "use_listings_cache": False,  # files that another process writes must be visible
}
_FILESYSTEM_OPTIONS: dict[str, dict[str, Any]] = {"s3": _S3_OPTIONS, "s3a": _S3_OPTIONS}
_REMOTE_BLOCK_BYTES = 2**20
_REMOTE_READAHEAD_BYTES = 2**14
_HASHED_BYTES = 2**20
# Entries of a listing that identify the version of an object, the most reliable first.
_VERSION_KEYS = (
    "ETag",
    "etag",
    "md5Hash",
    "generation",
    "crc32c",
    "mtime",
    "LastModified",
    "last_modified",
    "created",
)


class FileState(NamedTuple):
    """Size and version of a file; at least one of them changes when its content does.

    Attributes:
        size: Bytes.
        version: Time of the last change in nanoseconds, or the version that an object store reports.
    """

    size: int
    version: str


def is_url(path: str) -> bool:
    """Whether a path is a URL rather than a local path."""
    return "://" in path


def local_file_path(path: str) -> str:
    """The path that a URL of a local file names; any other path and URL as it is."""
    scheme, separator, local_path = path.partition("://")
    return local_path if separator and scheme in ("file", "local") else path


def parse_path(path: str) -> Path:
    """A local path as Path, or a URL as UPath, which has the same methods.

    Raises RequestError for a URL of an unknown kind, or one whose library is not installed.
    """
    path = local_file_path(path)
    if not is_url(path):
        return Path(path)
    scheme = path.partition("://")[0]
    from upath import UPath

    try:
        with translate_remote_errors(path):
            url_path = UPath(path.rstrip("/"), **_FILESYSTEM_OPTIONS.get(scheme, {}))
            url_path.fs  # noqa: B018 - opened here, so that a missing library raises inside this block
    except ImportError as error:
        raise _library_error(scheme, error) from None
    except ValueError:
        raise RequestError(f"{scheme}:// is not a supported URL scheme", repr(path)) from None
    return cast("Path", url_path)  # it has every method of Path that we use


def _library_error(scheme: str, error: ImportError) -> Exception:
    """The error for a URL scheme whose library is not installed; a broken library keeps its error."""
    cause = error.__cause__ or error
    if not isinstance(cause, ModuleNotFoundError):
        return error
    extra = _EXTRAS.get(scheme, "")
    if cause.name in EXTRA_MODULES.get(extra, ()):
        return missing_extra(str(cause.name), extra)
    return RequestError(f"{scheme}:// needs a library that is not installed", str(error))


def expanded_path(path: str | os.PathLike[str]) -> str:
    """The path with a leading "~" as the user's folder, as a shell expands it. Raises RequestError for bytes."""
    if isinstance(path, bytes):
        raise RequestError("a path is a str or a Path", f"got bytes {path!r}; give os.fsdecode(...)")
    return os.path.expanduser(os.fspath(path))  # noqa: PTH111  # a Path would change URLs


def local_output(path: str | os.PathLike[str]) -> Path:
    """The path of a file or folder that is to be written, with "~" expanded. Raises RequestError for a URL."""
    text = expanded_path(path)
    # A Path of a URL has lost one of the two slashes.
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", text):
        raise RequestError("this is written to a local path", f"{text!r}; name a local path, and copy it")
    return Path(text)


def absolute_path(path: str) -> Path:
    """The absolute path without `..`; a URL is not changed. Raises RequestError like `parse_path`."""
    return parse_path(path) if is_url(path) else Path(os.path.normpath(Path(path).absolute()))


def existing_path(path: str) -> Path:
    """The absolute path of a file or folder that exists.

    Raises RequestError when it does not exist, or its server cannot be reached.
    """
    absolute = absolute_path(path)
    try:
        with translate_remote_errors(path):
            exists = absolute.exists()
    except OSError as error:
        raise RequestError("the path cannot be reached", f"{path}: {describe_os_error(error)}") from None
    if not exists:
        raise RequestError("there is no such file or folder", repr(path))
    return absolute


def folder_name(folder: Path) -> str:
    """Name of a folder; for the root of a bucket, the name of the bucket."""
    return folder.name or str(folder).rstrip("/").rpartition("/")[2]


def relative_path(path: Path, folder: Path) -> str:
    """Path relative to a folder, with "/" as separator; "." for the folder itself."""
    return path.relative_to(folder).as_posix()


def open_file(path: str, *, long_reads: bool = False) -> BinaryIO:
    """Open a file for reading bytes; of a URL only the blocks that are read are fetched.

    Args:
        path: Path or URL.
        long_reads: Whether the caller makes few large reads rather than many small ones.

    Raises OSError, also when reading.
    """
    if not is_url(path):
        _check_no_null(path)
        return Path(path).open("rb")
    cache, block_size = (
        ("readahead", _REMOTE_READAHEAD_BYTES) if long_reads else ("blockcache", _REMOTE_BLOCK_BYTES)
    )
    with translate_remote_errors(path):
        url = parse_path(path)
        file = url.fs.open(url.path, "rb", cache_type=cache, block_size=block_size)  # type: ignore[attr-defined]
    return cast("BinaryIO", _RemoteFile(file, path))


def hash_files(paths: Iterable[str]) -> str:
    """A hash of what some files hold, 16 hex digits. Raises RequestError for one that does not exist."""
    digest = hashlib.blake2b(digest_size=8)
    for path in paths:
        existing_path(path)
        with open_file(path) as file:
            file_digest = hashlib.blake2b()
            while block := file.read(_HASHED_BYTES):
                file_digest.update(block)
        digest.update(file_digest.digest())
    return digest.hexdigest()


def _check_no_null(path: str) -> None:
    """Raise FileNotFoundError for a path with a null byte: no file has such a name, and Python raises ValueError."""
    if "\0" in path:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def copy_file(path: str, destination: Path) -> None:
    """Copy a local file or the content of a URL to a local path. Raises OSError."""
    if not is_url(path):
        shutil.copyfile(path, destination)
        return
    with open_file(path, long_reads=True) as source, destination.open("wb") as target:
        shutil.copyfileobj(source, target, _REMOTE_BLOCK_BYTES)


def file_state(path: str) -> FileState:
    """Size and version of a file. Raises OSError when it does not exist."""
    if not is_url(path):
        _check_no_null(path)
        stat = os.stat(path)  # noqa: PTH116 - called for thousands of files
        return FileState(stat.st_size, str(stat.st_mtime_ns))
    with translate_remote_errors(path):
        url = parse_path(path)
        info: dict[str, Any] = url.fs.info(url.path)  # type: ignore[attr-defined]
    if info.get("type") == "directory":
        raise IsADirectoryError(21, "is a folder", path)
    version = next((str(info[name]) for name in _VERSION_KEYS if info.get(name)), "")
    return FileState(int(info.get("size") or 0), version.strip('"').replace(":", "."))


@contextmanager
def translate_remote_errors(path: str) -> Iterator[None]:
    """Turn exceptions of object-store libraries into OSError; programming errors are not changed."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        library = type(error).__module__.partition(".")[0]
        if library not in (
            "botocore",
            "aiobotocore",
            "aiohttp",
            "gcsfs",
            "google",
            "httpx",
            "fsspec",
            "huggingface_hub",
        ):
            raise
        raise OSError(5, f"{type(error).__name__}: {error}", path) from None


def describe_os_error(error: OSError) -> str:
    """The message of an OSError in one line."""
    text = str(error.strerror or error) or type(error).__name__
    return " ".join(text.split())


class _RemoteFile(io.RawIOBase):
    """A file of an object store that raises OSError when reading fails."""

    def __init__(self, file: Any, path: str) -> None:
        self._file, self.name = file, path

    def __repr__(self) -> str:
        return self.name  # h5py uses the repr as the name of the file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def read(self, size: int | None = -1) -> bytes:
        with translate_remote_errors(self.name):
            return bytes(self._file.read(-1 if size is None else size))

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderEntries:
    """What lies directly in a folder.

    Attributes:
        path: The folder.
        folders: Names of its subfolders, sorted; links to folders among them.
        files: Bytes of its files by name, sorted; 0 for a link whose target is missing.
        links: Names of the subfolders and files that are symbolic links.
        missing: Names of the files that are links whose target is missing.
        special: Names of what is neither a file nor a folder: pipes, sockets, devices.
        suffixes: Suffixes of its files that are not hidden, in lower case; of "a.tar.gz" both ".gz" and ".tar.gz".
        error: Why the folder cannot be listed, or "".
    """

    path: Path
    folders: tuple[str, ...] = ()
    files: Mapping[str, int] = field(default_factory=dict)
    links: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    special: tuple[str, ...] = ()
    suffixes: frozenset[str] = frozenset()
    error: str = ""

    def has_file(self, relative: str) -> bool:
        """Whether there is a file at a relative path with "/"; the subfolder is listed only where its name is here."""
        name, _, rest = relative.partition("/")
        if not rest:
            return name in self.files
        return name in self.folders and list_folder(self.path / name).has_file(rest)


# Listings by the path of their folder, which answer in place of the disk; see `use_folder_listings`.
_KNOWN_FOLDERS: ContextVar[Mapping[str, FolderEntries] | None] = ContextVar("known_folders", default=None)


@contextmanager
def use_folder_listings(listings: Mapping[str, FolderEntries]) -> Iterator[None]:
    """Within the block, `list_folder` and `walk_folders` answer from these listings and list no folder themselves.

    Args:
        listings: By the path of each folder. A folder that is not among them counts as empty.
    """
    token = _KNOWN_FOLDERS.set(listings)
    try:
        yield
    finally:
        _KNOWN_FOLDERS.reset(token)


@contextmanager
def cache_folder_listings() -> Iterator[None]:
    """Within the block, `list_folder` and `walk_folders` list each folder at most once and remember it."""
    with use_folder_listings(_ListedOnce()):
        yield


class _ListedOnce(dict[str, FolderEntries]):
    """Listings that are made when they are first asked for."""

    def __missing__(self, path: str) -> FolderEntries:
        entries = self[path] = _read_folder(parse_path(path))
        return entries


def list_folder(folder: Path) -> FolderEntries:
    """What lies in a folder; a local folder that cannot be listed is empty and has an `error`.

    Raises OSError when a server cannot be reached.
    """
    listings = _KNOWN_FOLDERS.get()
    if isinstance(listings, _ListedOnce):
        return listings[str(folder)]
    if listings is not None:
        return listings.get(str(folder)) or FolderEntries(path=folder)
    return _read_folder(folder)


def _read_folder(folder: Path) -> FolderEntries:
    if not isinstance(folder, Path):
        return _list_remote(folder)
    try:
        return _list_local(folder)
    except OSError as error:
        return FolderEntries(path=folder, error=describe_os_error(error))


def walk_folders(folder: Path, follow_links: bool = False) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Like os.walk, also for URLs: each folder with the sorted names of its subfolders and files.

    As with os.walk, the caller may change the list of subfolders to skip some of them, and local folders that cannot
    be listed are left out. Raises as `list_folder`.
    """
    waiting = [folder]
    while waiting:
        entries = list_folder(waiting.pop())
        if entries.error:
            continue
        subfolders = list(entries.folders)
        yield entries.path, subfolders, list(entries.files)
        waiting += [
            entries.path / name for name in reversed(subfolders) if follow_links or name not in entries.links
        ]


def _list_local(folder: Path) -> FolderEntries:
    folders: list[str] = []
    files: dict[str, int] = {}
    links, missing, special = set(), set(), []
    with os.scandir(folder) as scan:
        for entry in sorted(scan, key=lambda entry: entry.name):
            is_link = entry.is_symlink()
            if is_link:
                links.add(entry.name)
            state = _stat_entry(entry)
            if state is None:
                missing.add(entry.name)
                files[entry.name] = 0
            elif stat.S_ISDIR(state.st_mode):
                folders.append(entry.name)
            elif stat.S_ISREG(state.st_mode):
                files[entry.name] = state.st_size
            else:
                special.append(entry.name)
    return FolderEntries(
        path=folder,
        folders=tuple(folders),
        files=files,
        links=frozenset(links),
        missing=frozenset(missing),
        special=tuple(special),
        suffixes=file_suffixes(files),
    )


def _stat_entry(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat()
    except OSError:
        return None


def _list_remote(folder: Any) -> FolderEntries:
    with translate_remote_errors(str(folder)):
        listed = folder.fs.ls(folder.path, detail=True)
    # An object store may list a folder as an empty object inside itself.
    entries = {entry["name"].rstrip("/"): entry for entry in listed}
    entries.pop(folder.path.rstrip("/"), None)
    children = [(path.rpartition("/")[2], entry) for path, entry in sorted(entries.items())]
    files = {name: int(entry.get("size") or 0) for name, entry in children if entry["type"] != "directory"}
    return FolderEntries(
        path=folder,
        folders=tuple(name for name, entry in children if entry["type"] == "directory"),
        files=files,
        suffixes=file_suffixes(files),
    )


def file_suffixes(names: Iterable[str]) -> frozenset[str]:
    """Suffixes of files that are not hidden, in lower case; of "a.tar.gz" both ".gz" and ".tar.gz"."""
    suffixes = set()
    for name in names:
        if name.startswith("."):
            continue
        parts = name.lower().rsplit(".", 2)
        suffixes.add(f".{parts[-1]}" if len(parts) > 1 else "")
        if len(parts) == 3:
            suffixes.add(f".{parts[1]}.{parts[2]}")
    return frozenset(suffixes)
