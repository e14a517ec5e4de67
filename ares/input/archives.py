"""Compressed data of foreign datasets: zip archives, npz files, and zlib or zstd bytes, bounded before unpacking."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ares.errors import SourceError
from ares.input.budgets import input_budgets
from ares.input.files import check_input_file

if TYPE_CHECKING:
    from numpy.typing import NDArray


@contextmanager
def open_zip(path: str) -> Iterator[zipfile.ZipFile]:
    """A zip archive, open for reading and closed afterwards; its entries fit the budgets.

    Raises:
        SourceError: It is damaged, holds too many entries, or one that is encrypted, too large or too compressed.
        OSError: It cannot be opened.
    """
    check_input_file(path)
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, RecursionError) as error:
        raise SourceError("zip archive is cut or damaged", f"{path}: {error}") from None
    with archive:
        _check_entries(archive, path)
        yield archive


def _check_entries(archive: zipfile.ZipFile, path: str) -> None:
    budgets = input_budgets()
    entries = archive.infolist()
    if len(entries) > budgets.entries:
        raise SourceError(
            "zip archive holds too many entries", f"{path}: {len(entries)} of {budgets.entries}"
        )
    for entry in entries:
        compressed = max(entry.compress_size, 1)
        is_bomb = entry.file_size > max(budgets.ratio_free_bytes, budgets.ratio * compressed)
        if entry.file_size > budgets.array_bytes or is_bomb:
            raise SourceError(
                "entry of the zip archive is too large",
                f"{path} {entry.filename!r}: {entry.file_size} bytes of {entry.compress_size} compressed",
            )


def read_zip_entry(archive: zipfile.ZipFile, name: str, max_bytes: int = 0) -> bytes:
    """The plain bytes of an entry.

    Args:
        archive: From `open_zip`.
        name: Name of the entry.
        max_bytes: Most bytes to return; 0 for those of an array.

    Raises:
        SourceError: The entry is missing, damaged, encrypted or too large.
    """
    limit, where = max_bytes or input_budgets().array_bytes, f"{archive.filename} {name!r}"
    try:
        with archive.open(name) as file:
            data = file.read(limit + 1)
    except KeyError:
        raise SourceError("zip archive has no such entry", where) from None
    except (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError, RuntimeError, EOFError) as error:
        raise SourceError("zip archive is cut or damaged", f"{where}: {error}") from None
    if len(data) > limit:
        raise SourceError("entry of the zip archive is too large", f"{where}: more than {limit} bytes")
    return data


def read_npz(path: str) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file by name, or that of an .npy file as "". Arrays of objects (pickles) are refused.

    Raises:
        SourceError: The file is damaged, holds an object array, or an array that is larger than its bytes.
        OSError: It cannot be opened.
    """
    with open_zip(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(".npy")]
        return {
            name.removesuffix(".npy"): parse_npy(read_zip_entry(archive, name), f"{path} {name!r}")
            for name in names
        }


def parse_npy(data: bytes, where: str) -> NDArray[Any]:
    """The array of the bytes of an .npy file, read-only: a view of them. Raises SourceError."""
    import io

    import numpy as np
    from numpy.lib import format as npy

    file = io.BytesIO(data)
    try:
        version = npy.read_magic(file)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, is_fortran, dtype = read_header(file)
    except Exception as error:  # numpy parses the header as Python source, and raises what its tokenizer does
        raise SourceError("array is no .npy data", f"{where}: {' '.join(str(error).split())[:200]}") from None
    if dtype.hasobject:
        raise SourceError("array is stored by pickle, which can run code", where)
    num_bytes = math.prod(shape) * dtype.itemsize
    if num_bytes != len(data) - file.tell():
        raise SourceError(
            "array does not have the size that it declares",
            f"{where}: {shape} {dtype} is {num_bytes} bytes, {len(data) - file.tell()} are there",
        )
    values: NDArray[Any] = np.frombuffer(data, dtype, offset=file.tell()) if num_bytes else np.empty(0, dtype)
    return values.reshape(shape, order="F" if is_fortran else "C")


def decompress_zlib(data: bytes, max_bytes: int, where: str) -> bytes:
    """The plain bytes of zlib data.

    Args:
        data: Compressed bytes.
        max_bytes: Most plain bytes.
        where: For messages.

    Raises:
        SourceError: The data is damaged, or there are more plain bytes.
    """
    decoder = zlib.decompressobj()
    try:
        plain = decoder.decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise SourceError("compressed data is damaged", f"{where}: {error}") from None
    return _check_plain(plain, where, max_bytes, decoder.eof)


def decompress_zstd(data: bytes, where: str, max_bytes: int = 0) -> bytes:
    """The plain bytes of a zstd frame, at most `max_bytes` (0 for those of an array). Raises SourceError."""
    import zstandard

    limit = max_bytes or input_budgets().array_bytes
    try:
        size = zstandard.frame_content_size(data)
        if size > limit:
            raise SourceError("compressed data is larger than allowed", f"{where}: {size} of {limit} bytes")
        if size >= 0:
            return zstandard.ZstdDecompressor().decompress(data, max_output_size=limit)
        decoder = zstandard.ZstdDecompressor().decompressobj(read_across_frames=False)
        parts, total = [], 0
        for start in range(0, len(data), 2**16):
            parts.append(decoder.decompress(data[start : start + 2**16]))
            total += len(parts[-1])
            if total > limit:
                raise SourceError(
                    "compressed data is larger than allowed", f"{where}: more than {limit} bytes"
                )
        if not decoder.eof:
            raise SourceError("compressed data is damaged", f"{where}: it ends early")
        return b"".join(parts)
    except (zstandard.ZstdError, MemoryError) as error:
        raise SourceError("compressed data is damaged", f"{where}: {error}") from None


def decompress_lz4(data: bytes, where: str, max_bytes: int) -> bytes:
    """The plain bytes of an lz4 frame, at most `max_bytes`. Raises SourceError."""
    import lz4.frame  # type: ignore[import-untyped]

    decoder = lz4.frame.LZ4FrameDecompressor()
    try:
        plain: bytes = decoder.decompress(data, max_bytes + 1)
    except (RuntimeError, MemoryError, EOFError, ValueError) as error:
        raise SourceError("compressed data is damaged", f"{where}: {error}") from None
    return _check_plain(plain, where, max_bytes, decoder.eof)


def _check_plain(plain: bytes, where: str, max_bytes: int, is_complete: bool) -> bytes:
    if len(plain) > max_bytes:
        raise SourceError("compressed data is larger than allowed", f"{where}: more than {max_bytes} bytes")
    if not is_complete:
        raise SourceError("compressed data is damaged", f"{where}: it ends early")
    return plain
