"""Local paths and URLs of object stores, opened, listed and examined through the same functions."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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


def parse_path(path: str) -> Path:
    """A local path as Path, or a URL as UPath, which has the same methods.

    Raises RequestError for a URL of an unknown kind, or one whose library is not installed.
    """
    if not is_url(path):
        return Path(path)
    scheme = path.partition("://")[0]
    if scheme in ("file", "local"):
        return Path(path.partition("://")[2])
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
    """The error for a URL scheme whose library is not installed; a broken library keeps its own error."""
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
            own = hashlib.blake2b()
            while block := file.read(_HASHED_BYTES):
                own.update(block)
        digest.update(own.digest())
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


def is_disk_full(error: OSError) -> bool:
    """Whether there was no room: on the disk, in a quota, or below the limit of the size of files."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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
