"""Whether the source files of episodes are unchanged, and where those that were moved are now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ares.errors import AresError, RequestError
from ares.io import absolute_path, describe_os_error, existing_path
from ares.media import compute_file_stamp, stamp_mismatch
from ares.store import TempDatabase, batched

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
# By URI and stamp of a file its new URI and stamp, or None where it stays.
_VerifiedFiles = dict[tuple[str, str], tuple[str, str] | None]
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


def find_source_file_problems(stores: Stores) -> dict[str, FileProblem]:
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
    """Mask of the files outside the workspace; those in it have relative paths."""
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


def _pairs_of_files(uris: pa.Array, stamps: pa.Array) -> Iterator[tuple[str, str]]:
    rows = _external_files(uris, stamps)
    return zip(rows["uri"].to_pylist(), rows["stamp"].to_pylist(), strict=True)


@dataclass(slots=True)
class RelocationReport:
    """Outcome of a relocation.

    Attributes:
        moved: Number of files that have a new URI now.
        example: Old and new URI of the first of them.
        refused: Why other files keep their URI, or None when none was refused.
    """

    moved: int = 0
    example: tuple[str, str] = ("", "")
    refused: FileProblem | None = None


def parse_relocation(text: str) -> tuple[str, str]:
    """Split OLD=NEW; with several "=" at the first one after which an existing path stands.

    Raises:
        RequestError: The text has no "=".
    """
    offsets = [offset for offset, character in enumerate(text) if character == "="]
    if not offsets:
        raise RequestError("--relocate needs OLD=NEW", repr(text))
    for offset in offsets if len(offsets) > 1 else ():
        try:
            existing_path(text[offset + 1 :])
        except RequestError:
            continue
        return text[:offset], text[offset + 1 :]
    return text[: offsets[0]], text[offsets[0] + 1 :]


def relocate_files(stores: Stores, moves: Sequence[tuple[str, str]]) -> RelocationReport:
    """Rewrite the URIs of source files under some folders or URLs.

    A file gets its new URI only when the content there is what was ingested. A file without a stamp (its workspace
    is older than stamps) needs only exist there, and gets a stamp. A relocation that was killed can be run again.

    Args:
        stores: Stores of the workspace.
        moves: Old and new path of each folder or file; the first that matches counts.

    Raises:
        RequestError: A new path does not exist.
    """
    import pyarrow as pa

    absolute = [(str(absolute_path(old)), str(existing_path(new))) for old, new in moves]
    report, verified = RelocationReport(), _VerifiedFiles()
    columns = ["episode_id", *source_columns(stores)]
    texts = [("source_stamp", pa.string()), ("camera_stamps", pa.list_(pa.string()))]
    with stores.write_lock("ares doctor --relocate"):
        fields = {field.name: field.type for field in stores.tables.episodes.schema(columns)} | dict(texts)
        for batch in stores.tables.episodes.scan(columns):
            pairs = {*_pairs_of_files(*_needed_sources(batch)), *_pairs_of_files(*camera_files(batch))}
            new = {
                pair: uri for pair in sorted(pairs - verified.keys()) if (uri := _new_uri(pair[0], absolute))
            }
            for (pair, uri), result in map_in_threads(_verify_file, new.items()):
                _note_result(report, verified, pair, uri, result)
            rows = [row for row in batch.to_pylist() if any(verified.get(pair) for pair in _row_files(row))]
            if rows:
                moved = [_moved_row(row, verified) for row in rows]
                values = pa.Table.from_pylist(moved, schema=pa.schema(fields.items()))
                stores.tables.episodes.set_values(values)
    return report


def _note_result(
    report: RelocationReport,
    verified: _VerifiedFiles,
    pair: tuple[str, str],
    new_uri: str,
    result: str | AresError,
) -> None:
    """Keep what was learned of a file: its stamp at the new URI, or why it stays."""
    if isinstance(result, AresError):
        report.refused = report.refused or FileProblem(0, result)
        report.refused.count += 1
        verified[pair] = None
        return
    report.example = report.example if report.moved else (pair[0], new_uri)
    report.moved += 1
    verified[pair] = new_uri, result


def _verify_file(file: tuple[tuple[str, str], str]) -> str | AresError:
    """Return the stamp of a file at its new URI, or why it is not the file that was ingested."""
    (_, stamp), new_uri = file
    error = stamp_mismatch(new_uri, stamp)
    if error:
        return error
    try:
        return compute_file_stamp(new_uri)
    except OSError as os_error:
        return RequestError("file cannot be read", f"{new_uri}: {describe_os_error(os_error)}")
    except AresError as ares_error:
        return ares_error


def _new_uri(uri: str, moves: Sequence[tuple[str, str]]) -> str:
    """Return the new URI of a file, or "" when it is under none of the old folders; whole path parts match."""
    for old, new in moves:
        prefix = old.rstrip("/")
        if uri == old or uri.startswith(f"{prefix}/"):
            return new.rstrip("/") + uri[len(prefix) :]
    return ""


def _row_files(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """URI and stamp of the source of a row, then of each camera; one written before stamps existed has none."""
    uris = [row["source"], *(camera["uri"] for camera in row["cameras"])]
    stamps = [row.get("source_stamp"), *(row.get("camera_stamps") or ()), *[""] * len(row["cameras"])]
    return [(uri, stamp or "") for uri, stamp in zip(uris, stamps, strict=False)]


def _moved_row(row: dict[str, Any], verified: _VerifiedFiles) -> dict[str, Any]:
    """A row of the episodes table with the new URIs and stamps."""
    (source, source_stamp), *files = [verified.get(pair) or pair for pair in _row_files(row)]
    return row | {
        "source": source,
        "source_stamp": source_stamp,
        "cameras": [camera | {"uri": uri} for camera, (uri, _) in zip(row["cameras"], files, strict=True)],
        "camera_stamps": [stamp for _, stamp in files],
    }
