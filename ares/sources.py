"""Sources: the files that episodes were read from, held against their stamps, and followed when they have moved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ares import files
from ares.errors import AresError, RequestError
from ares.media.stamp import difference, stamp
from ares.store.filters import chunks
from ares.store.scratch import Scratch

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.workspace import Workspace

# Most of the time is spent waiting for a disk or a server.
_ASKERS = 16
_ON_THEIR_WAY = 2_000
_COLUMNS = ("source", "cameras")
_STAMPS = ("source_stamp", "camera_stamps")
T = TypeVar("T")
Answer = TypeVar("Answer")


@dataclass(slots=True)
class Wrong:
    """Files with which the same thing is wrong.

    Attributes:
        count: How many.
        first: What is wrong with the first of them.
    """

    count: int
    first: AresError


@dataclass(slots=True)
class Relocated:
    """What became of the files under the old places.

    Attributes:
        moved: How many were followed.
        example: Old and new uri of the first of them.
        refused: Why the others were left as they are, or None when there are none.
        held: Files there that no episode needs any more: the workspace has copies of their videos.
    """

    moved: int = 0
    example: tuple[str, str] = ("", "")
    refused: Wrong | None = None
    held: int = 0


def in_use(ws: Workspace) -> Iterator[tuple[str, str]]:
    """Every file outside the workspace that an episode needs, sorted, each once with its stamp ("" if not known)."""
    import pyarrow as pa

    there = ws.tables.episodes.columns()
    columns = [*_COLUMNS, *(name for name in _STAMPS if name in there)]
    schema = pa.schema([("uri", pa.string()), ("mark", pa.string())])
    scanned = ws.tables.episodes.scan(columns)
    with Scratch() as scratch:
        named = (_distinct(*pairs) for batch in scanned for pairs in (_sources(batch), _media(batch)))
        scratch.put("files", schema, (batch for table in named for batch in table.to_batches()))
        for batch in scratch.stream("SELECT DISTINCT uri, mark FROM files ORDER BY uri, mark"):
            yield from zip(batch["uri"].to_pylist(), batch["mark"].to_pylist(), strict=True)


def _named(ws: Workspace, moves: Sequence[tuple[str, str]]) -> int:
    """How many files under old places episodes were read from, whether or not they need them still."""
    with Scratch() as scratch:
        schema = ws.tables.episodes.schema(["source"])
        scratch.put("named", schema, ws.tables.episodes.scan(["source"]))
        sources = scratch.stream("SELECT DISTINCT source FROM named")
        return sum(bool(_moved_to(one, moves)) for batch in sources for one in batch["source"].to_pylist())


def examined(ws: Workspace) -> dict[str, Wrong]:
    """What is wrong with the files that episodes need, by reason; each file is asked for once."""
    wrong: dict[str, Wrong] = {}
    for _, error in _asked(lambda pair: difference(*pair), in_use(ws)):
        if error:
            wrong.setdefault(error.reason, Wrong(0, error)).count += 1
    return wrong


def relocate(ws: Workspace, moves: Sequence[tuple[str, str]]) -> Relocated:
    """Tell a workspace that files under some folders or URLs are under others now.

    A file is followed only when the one at the new place has the content that was ingested; where no stamp tells
    that (the workspace is older than stamps), when it is there. Killed, it can be run again.

    Args:
        ws: Whose sources moved.
        moves: Old and new place of each folder (or file); the first that fits counts.

    Raises:
        RequestError: A new place is not there.
    """
    absolute = [(str(files.absolute(old)), str(files.reached(new))) for old, new in moves]
    with ws.writing("ares doctor --relocate"), Scratch() as scratch:
        done = _verified(ws, absolute, scratch)
        if done.moved:
            _rewrite(ws, scratch)
        elif done.refused is None:
            done.held = _named(ws, absolute)
    return done


def parse_move(text: str) -> tuple[str, str]:
    """OLD=NEW taken apart; where several "=" stand in it, NEW is what is there.

    Raises RequestError when there is no "=".
    """
    places = [number for number, letter in enumerate(text) if letter == "="]
    if not places:
        raise RequestError("--relocate needs OLD=NEW", repr(text))
    for number in places if len(places) > 1 else ():
        try:
            files.reached(text[number + 1 :])
        except RequestError:
            continue
        return text[:number], text[number + 1 :]
    return text[: places[0]], text[places[0] + 1 :]


def _asked(question: Callable[[T], Answer], asked: Iterable[T]) -> Iterator[tuple[T, Answer]]:
    """Answers in their order, several questions at the same time, some thousands on their way."""
    with ThreadPoolExecutor(_ASKERS) as askers:
        for chunk in chunks(asked, _ON_THEIR_WAY):
            yield from zip(chunk, askers.map(question, chunk), strict=True)


def _verified(ws: Workspace, moves: Sequence[tuple[str, str]], scratch: Scratch) -> Relocated:
    """Look at the files that moved; the scratch holds those to follow as "moved" then: uri, new, mark."""
    import pyarrow as pa

    done = Relocated()
    schema = pa.schema([(name, pa.string()) for name in ("uri", "new", "mark")])
    scratch.put("found", schema, [])
    scratch.put("refused", schema, [])
    wanted = ((uri, mark, new) for uri, mark in in_use(ws) if (new := _moved_to(uri, moves)))
    for answers in chunks(_asked(_same, wanted), _ON_THEIR_WAY):
        errors = [found for _, found in answers if isinstance(found, AresError)]
        if errors and done.refused is None:
            done.refused = Wrong(0, errors[0])
        for table, kept in (("found", False), ("refused", True)):
            rows = [
                (uri, new, str(found))
                for (uri, _, new), found in answers
                if isinstance(found, AresError) == kept
            ]
            columns = [pa.array([row[at] for row in rows], pa.string()) for at in range(3)]
            scratch.put(table, schema, [pa.record_batch(columns, schema=schema)])
    # Ingested twice, and changed in between: neither is followed.
    done.moved = scratch.make(
        "moved",
        "SELECT uri, new, any_value(mark) AS mark FROM found ANTI JOIN refused USING (uri) GROUP BY ALL",
    )
    for row in scratch.ask("SELECT uri, new FROM moved ORDER BY uri LIMIT 1").to_pylist():
        done.example = row["uri"], row["new"]
    if done.refused:
        done.refused.count = scratch.ask("SELECT count(DISTINCT uri) AS n FROM refused")["n"][0].as_py()
    return done


def _same(wanted: tuple[str, str, str]) -> str | AresError:
    """The stamp of a file at its new place, or why it is not the one that was ingested."""
    _, mark, new = wanted
    wrong = difference(new, mark)
    if wrong:
        return wrong
    try:
        return stamp(new)
    except OSError as error:
        return RequestError("file cannot be read", f"{new}: {files.words(error)}")
    except AresError as error:
        return error


def _moved_to(uri: str, moves: Sequence[tuple[str, str]]) -> str:
    """Where a file is now, or "" when it is under none of the old places: whole names count, not letters."""
    for old, new in moves:
        if uri == old or uri.startswith(old.rstrip("/") + "/"):
            return new.rstrip("/") + uri[len(old.rstrip("/")) :]
    return ""


def _rewrite(ws: Workspace, scratch: Scratch) -> None:
    import pyarrow as pa

    there = ws.tables.episodes.columns()
    columns = ["episode_id", *_COLUMNS, *(name for name in _STAMPS if name in there)]
    for batch in ws.tables.episodes.scan(columns):
        moved = _moved(batch, scratch)
        rows = _rewritten(batch, moved) if moved else None
        if rows is not None and rows.num_rows:
            ws.tables.episodes.set_values(pa.Table.from_batches([rows]))


def _moved(batch: pa.RecordBatch, scratch: Scratch) -> dict[str, tuple[str, str]]:
    """New uri and stamp of each file that moved and that a batch names."""
    import pyarrow as pa

    named = pa.chunked_array([batch["source"], _media(batch)[0]]).unique()
    scratch.drop("named")
    asked = pa.record_batch(
        [named.combine_chunks() if isinstance(named, pa.ChunkedArray) else named], ["uri"]
    )
    scratch.put("named", asked.schema, [asked])
    found = scratch.ask("SELECT uri, new, mark FROM moved SEMI JOIN named USING (uri)")
    return {row["uri"]: (row["new"], row["mark"]) for row in found.to_pylist()}


def _rewritten(batch: pa.RecordBatch, moved: Mapping[str, tuple[str, str]]) -> pa.RecordBatch:
    """The rows of a batch that name a file that moved, with its new place and stamp."""
    import numpy as np
    import pyarrow as pa

    cameras = batch["cameras"]
    sources, source_marks = _plain(batch)
    uris, marks = _media(batch)
    parents = _parents(cameras)
    changed = np.zeros(batch.num_rows, bool)
    changed[_among(sources, moved)] = True
    changed[parents[_among(uris, moved)]] = True
    offsets = pa.array(np.searchsorted(parents, np.arange(batch.num_rows + 1)), pa.int32())
    kind = cameras.type.value_type
    values = cameras.flatten()
    told = [
        _mapped(uris, uris, moved, 0) if name == "uri" else values.field(name)
        for name in (each.name for each in kind)
    ]
    structs = pa.StructArray.from_arrays(told, fields=list(kind))
    made = pa.RecordBatch.from_pydict(
        {
            "episode_id": batch["episode_id"],
            "source": _mapped(sources, sources, moved, 0),
            "cameras": pa.ListArray.from_arrays(offsets, structs, type=cameras.type),
            "source_stamp": _mapped(sources, source_marks, moved, 1),
            "camera_stamps": pa.ListArray.from_arrays(offsets, _mapped(uris, marks, moved, 1)),
        }
    )
    return made.filter(pa.array(changed))


def _among(uris: pa.Array, moved: Mapping[str, tuple[str, str]]) -> NDArray[np.bool_]:
    import pyarrow as pa
    import pyarrow.compute as pc

    found: NDArray[np.bool_] = pc.is_in(uris, pa.array(list(moved), pa.string())).to_numpy(
        zero_copy_only=False
    )
    return found


def _mapped(uris: pa.Array, values: pa.Array, moved: Mapping[str, tuple[str, str]], part: int) -> pa.Array:
    """The new uri (part 0) or stamp (part 1) of the uris that moved, and the values of the others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    coded = uris.dictionary_encode()
    new = [moved[uri][part] if uri in moved else None for uri in coded.dictionary.to_pylist()]
    return pc.coalesce(pc.take(pa.array(new, pa.string()), coded.indices), values)


def _plain(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """The source of each row and its stamp."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if "source_stamp" not in batch.schema.names:
        return batch["source"], pa.array([""] * batch.num_rows, pa.string())
    return batch["source"], pc.fill_null(batch["source_stamp"], "")


def _sources(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """Sources and stamps of the rows that need them: those of pixels that are all in the workspace do not."""
    import numpy as np
    import pyarrow as pa

    sources, marks = _plain(batch)
    uris, _ = _media(batch)
    parents = _parents(batch["cameras"])
    held = np.bincount(parents, minlength=batch.num_rows) > 0
    outside = np.bincount(parents[_outside(uris)], minlength=batch.num_rows) > 0
    needed = pa.array(outside | ~held)
    return sources.filter(needed), marks.filter(needed)


def _media(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """The uri of each camera of the rows and its stamp."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    uris = pc.struct_field(batch["cameras"].flatten(), "uri")
    if "camera_stamps" not in batch.schema.names:
        return uris, pa.array([""] * len(uris), pa.string())
    # A row written before stamps has none, not as many as cameras.
    stamps = batch["camera_stamps"]
    counts = pc.fill_null(pc.list_value_length(stamps), 0).to_numpy(zero_copy_only=False)
    parents = _parents(batch["cameras"])
    place = np.arange(len(parents)) - np.searchsorted(parents, parents)
    starts = np.concatenate([[0], np.cumsum(counts)])[:-1]
    known = place < counts[parents]
    marks = pc.take(stamps.flatten(), pa.array(np.where(known, starts[parents] + place, 0), mask=~known))
    return uris, pc.fill_null(marks, "")


def _parents(lists: pa.ListArray) -> NDArray[np.int64]:
    """Number of the row that each element of the lists stands in."""
    import pyarrow.compute as pc

    rows: NDArray[np.int64] = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    return rows


def _outside(uris: pa.Array) -> NDArray[np.bool_]:
    """Which files are not the workspace's own, whose paths are relative to it."""
    import pyarrow.compute as pc

    outside: NDArray[np.bool_] = pc.or_(pc.starts_with(uris, "/"), pc.match_substring(uris, "://")).to_numpy(
        zero_copy_only=False
    )
    return outside


def _distinct(uris: pa.Array, marks: pa.Array) -> pa.Table:
    """Files outside the workspace and their stamps, each pair once."""
    import pyarrow as pa

    outside = pa.array(_outside(uris))
    pairs = pa.table({"uri": uris.filter(outside), "mark": marks.filter(outside)})
    return pairs.group_by(["uri", "mark"]).aggregate([])
