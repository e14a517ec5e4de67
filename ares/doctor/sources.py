"""The source files that episodes were read from: listed from the tables, and compared with their stamps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ares.errors import AresError
from ares.media import stamp_mismatch
from ares.store import TempDatabase
from ares.store.filters import batched

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.store import Stores

# Most of the time is spent waiting for a disk or a server.
_THREADS = 16
_CHUNK = 2_000
_URI_COLUMNS = ("source", "cameras")
_STAMP_COLUMNS = ("source_stamp", "camera_stamps")
T = TypeVar("T")
Result = TypeVar("Result")


@dataclass(slots=True)
class FileProblem:
    """Files that share a problem.

    Attributes:
        count: Number of files.
        first: Error of the first file.
    """

    count: int
    first: AresError


def find_problems(stores: Stores) -> dict[str, FileProblem]:
    """Compare every source file that an episode needs with its stamp.

    Returns:
        Problems by reason; each file counts once.
    """
    problems: dict[str, FileProblem] = {}
    for _, error in map_in_threads(lambda pair: stamp_mismatch(*pair), source_files(stores)):
        if error:
            problems.setdefault(error.reason, FileProblem(0, error)).count += 1
    return problems


def source_files(stores: Stores) -> Iterator[tuple[str, str]]:
    """Yield every file outside the workspace that an episode needs, with its stamp.

    Returns:
        (URI, stamp) sorted, each once; the stamp is "" where none was stored.
    """
    import pyarrow as pa

    schema = pa.schema([("uri", pa.string()), ("stamp", pa.string())])
    batches = stores.tables.episodes.scan(source_columns(stores))
    with TempDatabase() as database:
        tables = (
            _external_files(*pairs)
            for batch in batches
            for pairs in (_needed_sources(batch), camera_files(batch))
        )
        database.insert("files", schema, (batch for table in tables for batch in table.to_batches()))
        for batch in database.stream("SELECT DISTINCT uri, stamp FROM files ORDER BY uri, stamp"):
            yield from zip(batch["uri"].to_pylist(), batch["stamp"].to_pylist(), strict=True)


def map_in_threads(function: Callable[[T], Result], items: Iterable[T]) -> Iterator[tuple[T, Result]]:
    """Yield items with their results, in order; several are computed at the same time."""
    with ThreadPoolExecutor(_THREADS) as executor:
        for chunk in batched(items, _CHUNK):
            yield from zip(chunk, executor.map(function, chunk), strict=True)


def source_columns(stores: Stores) -> list[str]:
    """Return the columns with URIs and stamps; an old workspace has no columns for stamps."""
    columns = stores.tables.episodes.columns()
    return [*_URI_COLUMNS, *(name for name in _STAMP_COLUMNS if name in columns)]


def episode_sources(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """Return the source URI of each row and its stamp, both (rows,) string."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if "source_stamp" not in batch.schema.names:
        return batch["source"], pa.array([""] * batch.num_rows, pa.string())
    return batch["source"], pc.fill_null(batch["source_stamp"], "")


def camera_files(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """Return the media URI of each camera of the rows and its stamp, both (cameras,) string."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    uris = pc.struct_field(batch["cameras"].flatten(), "uri")
    if "camera_stamps" not in batch.schema.names:
        return uris, pa.array([""] * len(uris), pa.string())
    # A row written before stamps existed has an empty list of them, not one per camera.
    stamps = batch["camera_stamps"]
    stamp_counts = pc.fill_null(pc.list_value_length(stamps), 0).to_numpy(zero_copy_only=False)
    rows = row_numbers(batch["cameras"])
    camera_numbers = np.arange(len(rows)) - np.searchsorted(rows, rows)
    starts = np.concatenate([[0], np.cumsum(stamp_counts)])[:-1]
    has_stamp = camera_numbers < stamp_counts[rows]
    offsets = pa.array(np.where(has_stamp, starts[rows] + camera_numbers, 0), mask=~has_stamp)
    return uris, pc.fill_null(pc.take(stamps.flatten(), offsets), "")


def row_numbers(lists: pa.ListArray) -> NDArray[np.int64]:
    """Return the row number of each list element, int64 (elements,)."""
    import pyarrow.compute as pc

    rows: NDArray[np.int64] = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    return rows


def _needed_sources(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """Sources and stamps of the rows that need them.

    A row whose cameras are all copied into the workspace no longer needs its source.
    """
    import numpy as np
    import pyarrow as pa

    sources, stamps = episode_sources(batch)
    uris, _ = camera_files(batch)
    rows = row_numbers(batch["cameras"])
    has_cameras = np.bincount(rows, minlength=batch.num_rows) > 0
    has_external = np.bincount(rows[_is_external(uris)], minlength=batch.num_rows) > 0
    needed = pa.array(has_external | ~has_cameras)
    return sources.filter(needed), stamps.filter(needed)


def _is_external(uris: pa.Array) -> NDArray[np.bool_]:
    """Mask of the files outside the workspace; the workspace's own have relative paths."""
    import pyarrow.compute as pc

    mask = pc.or_(pc.starts_with(uris, "/"), pc.match_substring(uris, "://"))
    external: NDArray[np.bool_] = mask.to_numpy(zero_copy_only=False)
    return external


def _external_files(uris: pa.Array, stamps: pa.Array) -> pa.Table:
    """Distinct pairs of URI and stamp of the files outside the workspace."""
    import pyarrow as pa

    external = pa.array(_is_external(uris))
    pairs = pa.table({"uri": uris.filter(external), "stamp": stamps.filter(external)})
    return pairs.group_by(["uri", "stamp"]).aggregate([])
