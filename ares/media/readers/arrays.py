"""Reads Zarr stores, and frames that are rows of their arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.errors import AresError, MediaError, SourceError
from ares.imports import missing_extra, needs_extra
from ares.input import (
    input_budgets,
    open_zip,
    parse_json,
    prepare_input_file,
    read_input,
    read_zip_entry,
)
from ares.io import is_url

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import MediaRef


_ARRAY_FILES = (".zarray", "zarr.json")
_JPEGXL = "imagecodecs_jpegxl"
# A damaged or hostile shape could otherwise claim all memory.
_MAX_CHUNK_BYTES = 2**30


class ZarrStore(NamedTuple):
    """An open store: its path, its root group, and its zip file where it is one."""

    path: str
    root: Any
    archive: zipfile.ZipFile | None

    def names(self, group: str = "") -> list[str]:
        """Sorted names of the groups and arrays in a group, without opening them."""
        if self.archive is None:
            folder = Path(self.path, group)
            return (
                sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []
            )
        prefix = f"{group}/" if group else ""
        inside = (name[len(prefix) :] for name in self.archive.namelist() if name.startswith(prefix))
        return sorted({name.partition("/")[0] for name in inside if "/" in name})

    def has_array(self, key: str) -> bool:
        """Whether an array has this key, by its metadata alone."""
        with translate_zarr_errors(f"{key!r} of {self.path}"):
            document = parse_json(self._array_metadata(key), key)
            return "shape" in document

    def claimed_rows(self, key: str) -> int:
        """Rows that the metadata of an array claims; 0 for what is no array, or has no metadata that can be read."""
        with suppress(AresError, OSError, ValueError, RecursionError, AttributeError):
            shape = parse_json(self._array_metadata(key), key).get("shape")
            if isinstance(shape, list) and shape and isinstance(shape[0], int):
                return max(shape[0], 0)
        return 0

    def array(self, key: str) -> Any:
        """An array of the store.

        Raises:
            SourceError: There is no such array, it is stored by pickle, or one chunk would take more than 1 GiB.
            RequestError: It needs the library imagecodecs, which is not installed.
        """
        import zarr

        where = f"{key!r} of {self.path}"
        with translate_zarr_errors(where):
            self._check_codecs(key, where)
            array = self.root.get(key)
            if not isinstance(array, zarr.Array):
                raise SourceError("Zarr store has no such array", where)
            chunk_bytes = array.dtype.itemsize
            for size in array.chunks:
                chunk_bytes *= size
        if chunk_bytes > _MAX_CHUNK_BYTES:
            raise SourceError("a chunk of the array is too large", f"{where}: {chunk_bytes} bytes")
        return array

    def _check_codecs(self, key: str, where: str) -> None:
        """Refuse codecs that run code of the file, and name the extra of those that are not installed."""
        codecs = set(_codec_names(parse_json(self._array_metadata(key), key)))
        if any("pickle" in codec for codec in codecs):
            raise SourceError("array is stored by pickle, which can run code", where)
        if any(_JPEGXL in codec for codec in codecs) and find_spec("imagecodecs") is None:
            raise missing_extra("imagecodecs", "jpegxl")

    def _array_metadata(self, key: str) -> bytes:
        for name in _ARRAY_FILES:
            if self.archive is None:
                if (path := Path(self.path, key, name)).is_file():
                    return read_input(str(path))
            elif f"{key}/{name}" in self.archive.NameToInfo:
                return read_zip_entry(self.archive, f"{key}/{name}", input_budgets().text_bytes)
        return b"{}"


@contextmanager
def translate_zarr_errors(where: str) -> Iterator[None]:
    """Turn what zarr and its codecs raise for damaged data into a SourceError; wrap calls of zarr only."""
    try:
        yield
    except AresError:
        raise
    except Exception as error:  # codecs of many libraries, each with other exceptions
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        raise SourceError("Zarr store is cut or damaged", f"{where}: {text}") from None


@contextmanager
def open_zarr(path: str) -> Iterator[ZarrStore]:
    """A Zarr store (version 2 or 3) in a folder or a zip file, open for reading.

    Raises:
        SourceError: The store is missing, remote or cut, or holds no group at its root.
        RequestError: The library zarr is not installed.
    """
    with needs_extra("zarr"):
        import zarr
        import zarr.storage
    if is_url(path):
        raise SourceError("Zarr stores are read from local disks only", f"{path}: copy it first")
    if not Path(path).exists():
        raise SourceError("file is missing", path)
    _register_jpegxl()
    with ExitStack() as stack:
        with translate_zarr_errors(path):
            archive = stack.enter_context(open_zip(path)) if Path(path).is_file() else None
            files: Any = zarr.storage.ZipStore(path, mode="r") if archive else _open_folder(path)
            stack.callback(_close_store_files, files)
            root = zarr.open_group(files, mode="r")
        yield ZarrStore(path, root, archive)


def _close_store_files(files: Any) -> None:
    # The zip store of a file that has vanished since it was checked was never opened, and cannot be closed.
    with suppress(AttributeError):
        files.close()


def _open_folder(path: str) -> Any:
    """A store of zarr that checks each file of a folder before it is opened."""
    from zarr.storage import LocalStore

    class CheckedFolder(LocalStore):
        async def get(self, key: str, *arguments: Any, **options: Any) -> Any:
            self._check(key)
            return await super().get(key, *arguments, **options)

        def get_sync(self, key: str, *arguments: Any, **options: Any) -> Any:
            self._check(key)
            return super().get_sync(key, *arguments, **options)

        async def get_partial_values(self, prototype: Any, key_ranges: Any) -> list[Any]:
            return [await self.get(key, prototype, span) for key, span in key_ranges]

        def _check(self, key: str) -> None:
            # A missing chunk is one of fill values.
            with suppress(FileNotFoundError, IsADirectoryError, NotADirectoryError):
                prepare_input_file(f"{self.root}/{key}")

    return CheckedFolder(path, read_only=True)


def _codec_names(value: Any) -> Iterator[str]:
    """Every text under the keys "id" and "name" of a JSON document, and every codec of objects."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("id", "name") and isinstance(item, str):
                yield item.lower()
            else:
                yield from _codec_names(item)
    elif isinstance(value, list):
        for item in value:
            yield from _codec_names(item)


def _register_jpegxl() -> None:
    """Enter the codec of UMI's images in numcodecs, for decoding; nothing where imagecodecs is not installed."""
    import numcodecs.registry
    from numcodecs.abc import Codec

    try:
        import imagecodecs
    except ModuleNotFoundError:
        return

    class JpegXl(Codec):  # type: ignore[misc]
        codec_id = _JPEGXL

        def __init__(self, **settings: Any) -> None:
            """Settings of the encoder are not needed for decoding."""

        def encode(self, buf: Any) -> Any:
            raise TypeError("Zarr stores are only read")

        def decode(self, buf: Any, out: Any = None) -> Any:
            return imagecodecs.jpegxl_decode(bytes(buf), out=out)

    numcodecs.registry.register_codec(JpegXl)


_CHANNELS = (1, 3, 4)


def has_zarr_images(array: Any) -> bool:
    """Whether an array holds images: (N, H, W, C) or (N, C, H, W) of uint8 or floats, with 1, 3 or 4 channels."""
    if (
        array.ndim != 4
        or array.dtype.kind not in "uf"
        or (array.dtype.kind == "u" and array.dtype.itemsize > 1)
    ):
        return False
    return bool(min(array.shape[1:]) > 0 and (_is_last(array) or array.shape[1] in _CHANNELS))


def _is_last(array: Any) -> bool:
    return bool(array.shape[3] in _CHANNELS and min(array.shape[1:3]) > 4)


def image_size(array: Any) -> tuple[int, int]:
    """Height and width of the images of an array."""
    height, width = array.shape[1:3] if _is_last(array) else array.shape[2:4]
    return int(height), int(width)


def find_zarr_pixel_scale(array: Any) -> float:
    """What a pixel is multiplied with to lie in 0 to 255: floats may lie in 0 to 1, as the array's samples tell."""
    if array.dtype.kind == "u" or not array.shape[0]:
        return 1.0
    brightest = max(float(array[row].max()) for row in {0, array.shape[0] // 2, array.shape[0] - 1})
    return 255.0 if brightest <= 1.0 else 1.0


def read_zarr_image(array: Any, row: int, scale: float) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 RGB of a row: grey is repeated, alpha is dropped."""
    import numpy as np

    image: NDArray[Any] = np.asarray(array[row])
    if not _is_last(array):
        image = np.moveaxis(image, 0, -1)
    if image.dtype != np.uint8:
        image = np.clip(np.nan_to_num(image * scale), 0, 255).round().astype(np.uint8)
    return np.repeat(image, 3, axis=-1) if image.shape[-1] == 1 else np.ascontiguousarray(image[..., :3])


def read_zarr_frames(ref: MediaRef, frame_numbers: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
    """Yield the frames of rising numbers, (H, W, 3) uint8 RGB. Raises MediaError."""
    first_row = round(ref.start_seconds * ref.rate_hz)
    try:
        with open_zarr(ref.uri) as store:
            array = store.array(ref.key)
            if not has_zarr_images(array) or first_row + ref.num_frames > array.shape[0]:
                raise MediaError("store has no such images", f"{ref.key!r} in {ref.uri}: {array.shape}")
            with translate_zarr_errors(f"{ref.uri} {ref.key}"):
                scale = find_zarr_pixel_scale(array)
            for row in (first_row + number for number in frame_numbers):
                with translate_zarr_errors(f"{ref.uri} {ref.key} row {row}"):
                    frame = read_zarr_image(array, row, scale)
                yield frame
    except SourceError as error:
        raise MediaError(error.reason, error.detail) from None
