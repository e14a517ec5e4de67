"""Files: local paths and URLs of object stores, opened, listed and looked at in the same way."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from ares.errors import RequestError

if TYPE_CHECKING:
    from typing_extensions import Buffer

# Extra of the package that brings the library of a kind of URL.
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "hf": "hf", "http": "http", "https": "http"}
# A server that cannot be reached is told of in seconds; whoever needs other numbers sets FSSPEC_S3_CONFIG_KWARGS.
_S3_OPTIONS = {
    "config_kwargs": {"connect_timeout": 5, "read_timeout": 60, "retries": {"max_attempts": 2}},
    "use_listings_cache": False,  # what another process writes is seen
}
_OPTIONS: dict[str, dict[str, Any]] = {"s3": _S3_OPTIONS, "s3a": _S3_OPTIONS}
_REMOTE_BLOCK_BYTES = 2**20
_REMOTE_RECORD_BYTES = 2**14
# What a listing says of the version of an object, the most telling first.
_VERSIONS = (
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


class State(NamedTuple):
    """What changes when a file does.

    Attributes:
        size: Bytes.
        version: Nanoseconds of the last change, or what an object store says of its version.
    """

    size: int
    version: str


def is_url(path: str) -> bool:
    """Whether a path is a URL and no path of this machine."""
    return "://" in path


def place(path: str) -> Path:
    """A path of this machine, or a URL that answers like one (a UPath).

    Raises RequestError for a URL of an unknown kind, or one whose library is not installed.
    """
    if not is_url(path):
        return Path(path)
    scheme = path.partition("://")[0]
    if scheme in ("file", "local"):
        return Path(path.partition("://")[2])
    from upath import UPath

    try:
        with failing_as_os_error(path):
            made = UPath(path.rstrip("/"), **_OPTIONS.get(scheme, {}))
            made.fs  # noqa: B018 - made here, where its library may be missing
    except ImportError as error:
        needed = f"pip install 'ares-curation[{_EXTRAS[scheme]}]'" if scheme in _EXTRAS else str(error)
        raise RequestError(f"{scheme}:// needs a library that is not installed", needed) from None
    except ValueError:
        raise RequestError(f"{scheme}:// is no kind of place that can be read", repr(path)) from None
    return cast("Path", made)  # it has all of a Path that is used of it


def absolute(path: str) -> Path:
    """The absolute place of a path, without `..`; a URL as it is. Raises RequestError like `place`."""
    return place(path) if is_url(path) else Path(os.path.normpath(Path(path).absolute()))


def reached(path: str) -> Path:
    """The absolute place of a path that is there.

    Raises RequestError when there is nothing, or the server that should have it cannot be asked.
    """
    found = absolute(path)
    try:
        with failing_as_os_error(path):
            there = found.exists()
    except OSError as error:
        raise RequestError("the place cannot be reached", f"{path}: {words(error)}") from None
    if not there:
        raise RequestError("there is no such file or folder", repr(path))
    return found


def title(folder: Path) -> str:
    """Name of a folder; of a whole bucket the bucket's."""
    return folder.name or str(folder).rstrip("/").rpartition("/")[2]


def relative(path: Path, folder: Path) -> str:
    """Path of what is in a folder, relative to it, with "/"; "." for the folder itself."""
    return path.relative_to(folder).as_posix()


def walk(folder: Path, follow: bool = False) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Like os.walk, also of a URL: each folder with the names of its folders, which may be changed, and files."""
    if isinstance(folder, Path):
        yield from (
            (Path(where), below, files) for where, below, files in os.walk(folder, followlinks=follow)
        )
        return
    with failing_as_os_error(str(folder)):
        entries = folder.fs.ls(folder.path, detail=True)
    here = folder.path.rstrip("/")
    # A "folder" of an object store may be an empty object of its own.
    inside = sorted(
        (one["name"].rstrip("/"), one["type"]) for one in entries if one["name"].rstrip("/") != here
    )
    below = [name.rpartition("/")[2] for name, kind in inside if kind == "directory"]
    yield folder, below, [name.rpartition("/")[2] for name, kind in inside if kind != "directory"]
    for name in below:
        yield from walk(folder / name)


def opened(path: str, *, records: bool = False) -> BinaryIO:
    """A file to read bytes from; of a URL only the blocks that are read are fetched.

    Args:
        path: Path or URL.
        records: Whether few long stretches will be read, each at once, and not many small ones.

    Raises OSError; so do the reads.
    """
    if not is_url(path):
        return Path(path).open("rb")
    kind = ("readahead", _REMOTE_RECORD_BYTES) if records else ("blockcache", _REMOTE_BLOCK_BYTES)
    with failing_as_os_error(path):
        at = place(path)
        file = at.fs.open(at.path, "rb", cache_type=kind[0], block_size=kind[1])  # type: ignore[attr-defined]
    return cast("BinaryIO", _Remote(file, path))


def copy(path: str, to: Path) -> None:
    """Copy a file, or what is at a URL, to this machine. Raises OSError."""
    if not is_url(path):
        shutil.copyfile(path, to)
        return
    with opened(path, records=True) as source, to.open("wb") as made:
        shutil.copyfileobj(source, made, _REMOTE_BLOCK_BYTES)


def state(path: str) -> State:
    """Size and version of a file. Raises OSError when it is not there."""
    if not is_url(path):
        found = os.stat(path)  # noqa: PTH116 - of thousands of files, some in each second
        return State(found.st_size, str(found.st_mtime_ns))
    with failing_as_os_error(path):
        at = place(path)
        info: dict[str, Any] = at.fs.info(at.path)  # type: ignore[attr-defined]
    if info.get("type") == "directory":
        raise IsADirectoryError(21, "is a folder", path)
    version = next((str(info[name]) for name in _VERSIONS if info.get(name)), "")
    return State(int(info.get("size") or 0), version.strip('"').replace(":", "."))


@contextmanager
def failing_as_os_error(path: str) -> Iterator[None]:
    """Turn what libraries of object stores raise into an OSError; their programming errors stay as they are."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        home = type(error).__module__.partition(".")[0]
        if home not in (
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


def words(error: OSError) -> str:
    """What an OSError says, in one line."""
    text = str(error.strerror or error) or type(error).__name__
    return " ".join(text.split())


class _Remote(io.RawIOBase):
    """A file of an object store whose failures are OSErrors."""

    def __init__(self, file: Any, path: str) -> None:
        self._file, self.name = file, path

    def __repr__(self) -> str:
        return self.name  # h5py names a file by this

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def read(self, size: int | None = -1) -> bytes:
        with failing_as_os_error(self.name):
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
