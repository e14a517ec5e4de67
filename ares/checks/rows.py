"""Rows: each episode stands once with its signals, and no vector stands without its episode and its fact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ares.checks.finding import REPAIR, Finding
from ares.store import filters

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store.scratch import Scratch
    from ares.workspace import Workspace

_CHUNK = 10_000
EXTRA = """
SELECT _rowid, {key} AS id FROM (
    SELECT _rowid, {key}, row_number() OVER (PARTITION BY {key} ORDER BY _rowid) AS nth FROM "{table}"
) WHERE nth > 1 ORDER BY _rowid
"""
_WITHOUT = """
SELECT _rowid, a.episode_id AS id FROM "{one}" a ANTI JOIN "{other}" b ON a.episode_id = b.episode_id ORDER BY _rowid
"""


def lay_out(ws: Workspace, scratch: Scratch, table: str, columns: list[str]) -> None:
    """Put columns of a Lance table, and the id of each row, into the scratch."""
    dataset = ws.tables.dataset(table)
    if dataset is not None:
        with filters.failures(table):
            reader = dataset.scanner(columns=columns, with_row_id=True).to_reader()
            scratch.put(table, reader.schema, reader)


def check_rows(ws: Workspace, scratch: Scratch, repair: bool) -> Iterator[Finding]:
    """Episodes and signals, one of each."""
    _ = ws.tables.episodes.count(), ws.tables.trajectories.count()  # makes them where they are not there
    for table in ("episodes", "trajectories"):
        lay_out(ws, scratch, table, ["episode_id"])
        extra = scratch.ask(EXTRA.format(table=table, key="episode_id"))
        yield from remove(ws, table, extra, f"each episode stands once in {table}", repair)
    orphans = scratch.ask(_WITHOUT.format(one="trajectories", other="episodes"))
    yield from remove(ws, "trajectories", orphans, "no signals without an episode", repair)
    silent = scratch.ask(_WITHOUT.format(one="episodes", other="trajectories"))
    if silent.num_rows:
        yield Finding(
            check="each episode has its signals",
            count=silent.num_rows,
            example=f"episode {silent['id'][0].as_py()}",
            repaired=False,
            remedy="ingest the source again into a new workspace",
        )


def check_vectors(ws: Workspace, scratch: Scratch, repair: bool) -> Iterator[Finding]:
    """Vectors against episodes and against the facts of the log, which the scratch holds as "embedded"."""
    for space in ws.tables.spaces():
        table = f"vectors_{space}"
        lay_out(ws, scratch, table, ["episode_id"])
        strays = scratch.ask(_WITHOUT.format(one=table, other="episodes"))
        yield from remove(ws, table, strays, f"no vectors without an episode in {space}", repair)
        # Vectors of an annotator whose facts do not name their space cannot be judged.
        mine = f"(SELECT * FROM embedded WHERE space = {filters.literal(space)})"
        if not scratch.has("embedded") or not scratch.ask(f"FROM {mine} LIMIT 1").num_rows:
            continue
        known = f'SELECT _rowid, v.episode_id AS id FROM "{table}" v SEMI JOIN episodes USING (episode_id)'
        untold = scratch.ask(f"{known} ANTI JOIN {mine} USING (episode_id) ORDER BY _rowid")
        yield from remove(ws, table, untold, f"each vector has the fact that it was made, in {space}", repair)
        lost = scratch.ask(
            f'SELECT episode_id AS id FROM {mine} m ANTI JOIN "{table}" USING (episode_id) WHERE frames > 0'
        )
        if lost.num_rows:
            yield Finding(
                check=f"each fact of an embedding has its vectors, in {space}",
                count=lost.num_rows,
                example=f"episode {lost['id'][0].as_py()}",
                repaired=False,
                remedy="restore lance/ from a backup, or embed with another --model",
            )


def remove(ws: Workspace, table: str, rows: pa.Table, check: str, repair: bool) -> Iterator[Finding]:
    """Delete rows that nothing is lost with, by their row ids, and tell of them."""
    if not rows.num_rows:
        return
    if repair:
        writer = ws.tables.find(table)
        assert writer is not None  # its rows were just read
        with filters.failures(table):
            for at in range(0, rows.num_rows, _CHUNK):
                ids = ", ".join(map(str, rows["_rowid"].slice(at, _CHUNK).to_pylist()))
                writer.delete(f"_rowid IN ({ids})")
    first = rows["id"][0].as_py()
    yield Finding(check=check, count=rows.num_rows, example=str(first), repaired=repair, remedy=REPAIR)
