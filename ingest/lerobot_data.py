"""Rows of one episode from LeRobot data files: whole files, or few large blocks of files that hold many episodes."""

from __future__ import annotations

import functools
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ares import files
from ares.errors import SourceError
from ares.files import State
from ingest.lerobot_meta import seekable
from ingest.lerobot_values import Rows, Values, cut, decoded, joined

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

# lerobot writes a row group for each episode: read one by one they cost more than their bytes.
_BLOCK_ROWS = 16_384
# Decoded blocks that are kept for the episodes that follow; at least one is, however large.
_KEPT_BYTES = 128 * 2**20

_lock = threading.Lock()


def stamp(path: str) -> State | None:
    """What changes when a file does, or None when there is none."""
    try:
        return files.state(path)
    except OSError:
        return None


def whole_file(path: str, columns: tuple[str, ...]) -> Rows | None:
    """A file that holds one episode; None when there is no such file. Raises SourceError when it cannot be read."""
    if stamp(path) is None:
        return None
    with _opened(path) as file:
        table = _read(path, file, None, columns)
    return cut(decoded(table), columns, 0, table.num_rows)


def of_shared_file(path: str, episode: int, columns: tuple[str, ...]) -> Rows | None:
    """The rows of an episode in a file that holds many; None when there is no such file or it is not in it.

    A block of rows is decoded once for all its episodes, whoever asks first. Raises SourceError when the file
    cannot be read or the episode's rows do not stand together.
    """
    found = stamp(path)
    if found is None:
        return None
    with _lock:
        file = _shared(path, found)
        if episode in file.scattered:
            raise SourceError("rows of the episode do not stand together", f"{path}: episode {episode}")
        if episode not in file.spans:
            return None
        start, stop = file.spans[episode]
        try:
            parts = [_cut_block(file, number, columns, start, stop) for number in file.blocks_of(start, stop)]
        except SourceError:
            # A broken row group must not cost the other episodes of its block.
            groups = file.groups_of(start, stop)
            first = file.starts[groups.start]
            block = decoded(_read(path, file.parquet, groups, columns))
            parts = [cut(block, columns, start - first, stop - first)]
    return replace(parts[0] if len(parts) == 1 else joined(parts), first=start)


def _cut_block(file: _Shared, number: int, columns: tuple[str, ...], start: int, stop: int) -> Rows:
    first, last = file.bounds[number], file.bounds[number + 1]
    block = _blocks.get(file, number, columns)
    return cut(block, columns, max(start, first) - first, min(stop, last) - first)


@functools.lru_cache(maxsize=8)
def file_of_episode(paths: tuple[str, ...]) -> Mapping[int, str]:
    """In which of some files each episode is; files that cannot be read are passed over."""
    made: dict[int, str] = {}
    for path in paths:
        found = stamp(path)
        try:
            with _lock:
                episodes = _shared(path, found).spans if found else {}
        except SourceError:
            continue
        made |= dict.fromkeys(episodes, path)
    return made


@dataclass(frozen=True, slots=True)
class _Shared:
    """An open file with many episodes.

    Attributes:
        parquet: The file.
        spans: First row and row after the last of each episode.
        scattered: Episodes whose rows stand in several places.
        groups: Row groups of each block, half open.
        bounds: First row of each block, and the number of rows.
        starts: First row of each row group, and the number of rows.
    """

    path: str
    stamp: State
    parquet: pq.ParquetFile
    spans: Mapping[int, tuple[int, int]]
    scattered: frozenset[int]
    groups: tuple[tuple[int, int], ...]
    bounds: tuple[int, ...]
    starts: tuple[int, ...]

    def groups_of(self, start: int, stop: int) -> range:
        """Numbers of the row groups that hold some rows."""
        return _holding(self.starts, start, stop)

    def blocks_of(self, start: int, stop: int) -> range:
        """Numbers of the blocks that hold some rows."""
        return _holding(self.bounds, start, stop)


def _holding(bounds: tuple[int, ...], start: int, stop: int) -> range:
    return range(bisect_right(bounds, start) - 1, bisect_right(bounds, stop - 1))


class _Blocks:
    """Decoded blocks, those used last; to be asked under the lock."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Any, ...], dict[str, Values]] = OrderedDict()
        self._bytes = 0

    def get(self, file: _Shared, number: int, columns: tuple[str, ...]) -> dict[str, Values]:
        key = (file.path, file.stamp, number, columns)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        first, last = file.groups[number]
        block = decoded(_read(file.path, file.parquet, range(first, last), columns))
        self._kept[key] = block
        self._bytes += _size(block)
        while self._bytes > _KEPT_BYTES and len(self._kept) > 1:
            self._bytes -= _size(self._kept.popitem(last=False)[1])
        return block


_blocks = _Blocks()


def _size(block: Mapping[str, Values]) -> int:
    return sum(values.nbytes for values in block.values())


def _opened(path: str) -> pq.ParquetFile:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(seekable(path))
    except (pa.ArrowException, OSError) as error:
        raise SourceError("data file cannot be read", f"{path}: {error}") from None


def _read(path: str, file: pq.ParquetFile, groups: range | None, columns: tuple[str, ...]) -> pa.Table:
    import pyarrow as pa

    there = set(file.schema_arrow.names)
    wanted = [name for name in columns if name in there]
    try:
        return file.read(wanted) if groups is None else file.read_row_groups(list(groups), wanted)
    except (pa.ArrowException, OSError) as error:
        raise SourceError("data file cannot be read", f"{path}: {error}") from None


@functools.lru_cache(maxsize=4)  # the footer of a file with thousands of row groups takes 20 MB
def _shared(path: str, stamp: State) -> _Shared:
    import numpy as np

    file = _opened(path)
    if "episode_index" not in file.schema_arrow.names:
        raise SourceError("data file has no column episode_index", path)
    table = _read(path, file, range(file.metadata.num_row_groups), ("episode_index",))
    episodes = decoded(table)["episode_index"].flat
    starts = (
        np.flatnonzero(np.diff(episodes, prepend=episodes[:1] - 1)) if len(episodes) else np.empty(0, int)
    )
    stops = [*starts[1:].tolist(), len(episodes)]
    spans: dict[int, tuple[int, int]] = {}
    scattered: set[int] = set()
    for number, start, stop in zip(episodes[starts].tolist(), starts.tolist(), stops, strict=False):
        if number in spans:
            scattered.add(number)
        spans[number] = (start, stop)
    sizes = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
    groups, bounds = _blocked(sizes)
    return _Shared(path, stamp, file, spans, frozenset(scattered), groups, bounds, (0, *accumulate(sizes)))


def _blocked(sizes: list[int]) -> tuple[tuple[tuple[int, int], ...], tuple[int, ...]]:
    """Neighbouring row groups taken together, up to about _BLOCK_ROWS rows."""
    groups: list[tuple[int, int]] = []
    bounds = [0]
    first = rows = 0
    for number, size in enumerate(sizes, start=1):
        rows += size
        if rows >= _BLOCK_ROWS or number == len(sizes):
            groups.append((first, number))
            bounds.append(bounds[-1] + rows)
            first, rows = number, 0
    return tuple(groups), tuple(bounds)
