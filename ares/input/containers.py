"""Archives and compressed bytes of foreign datasets, opened within bounds."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from ares.errors import SourceError
from ares.input.files import prepare_input_file
from ares.input.limits import input_budgets


@contextmanager
def open_zip(path: str) -> Iterator[zipfile.ZipFile]:
    """A zip archive, open for reading and closed afterwards; its entries fit the budgets.

    Raises:
        SourceError: It is damaged, holds too many entries, or one that is encrypted, too large or too compressed.
        OSError: It cannot be opened.
    """
    prepare_input_file(path)
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
