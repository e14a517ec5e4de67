"""Rows: each episode stands once with its signals, and no vector stands without its episode and its fact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ares.checks.finding import REPAIR, Finding
from ares.store import filters

if TYPE_CHECKING:
    from ares.store.scratch import Scratch
    from ares.workspace import Workspace

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
        extra = EXTRA.format(table=table, key="episode_id")
        yield from remove(ws, scratch, table, extra, f"each episode stands once in {table}", repair)
    orphans = _WITHOUT.format(one="trajectories", other="episodes")
    yield from remove(ws, scratch, "trajectories", orphans, "no signals without an episode", repair)
    yield from without_remedy(
        scratch,
        _WITHOUT.format(one="episodes", other="trajectories"),
        "each episode has its signals",
        "ingest the source again into a new workspace",
    )


def check_vectors(ws: Workspace, scratch: Scratch, repair: bool) -> Iterator[Finding]:
    """Vectors against episodes and against the facts of the log, which the scratch holds as "embedded"."""
    for space in ws.tables.spaces():
        table = f"vectors_{space}"
        lay_out(ws, scratch, table, ["episode_id"])
        strays = _WITHOUT.format(one=table, other="episodes")
        yield from remove(ws, scratch, table, strays, f"no vectors without an episode in {space}", repair)
        # Vectors of an annotator whose facts do not name their space cannot be judged.
        mine = f"(SELECT * FROM embedded WHERE space = {filters.literal(space)})"
        if not scratch.has("embedded") or not scratch.ask(f"FROM {mine} LIMIT 1").num_rows:
            continue
        known = f'SELECT _rowid, v.episode_id AS id FROM "{table}" v SEMI JOIN episodes USING (episode_id)'
        untold = f"{known} ANTI JOIN {mine} USING (episode_id)"
        check = f"each vector has the fact that it was made, in {space}"
        yield from remove(ws, scratch, table, untold, check, repair)
        yield from without_remedy(
            scratch,
            f'SELECT episode_id AS id FROM {mine} m ANTI JOIN "{table}" USING (episode_id) WHERE frames > 0',
            f"each fact of an embedding has its vectors, in {space}",
            "restore lance/ from a backup, or embed with another --model",
        )


def without_remedy(scratch: Scratch, query: str, check: str, remedy: str) -> Iterator[Finding]:
    """Tell of episodes that a query names as `id`, with which nothing can be done here."""
    count = scratch.make("wrong", query)
    if count:
        first = scratch.ask("SELECT min(id) AS id FROM wrong")["id"][0].as_py()
        yield Finding(check=check, count=count, example=f"episode {first}", repaired=False, remedy=remedy)


def remove(
    ws: Workspace, scratch: Scratch, table: str, query: str, check: str, repair: bool
) -> Iterator[Finding]:
    """Delete rows that nothing is lost with, which a query names by `_rowid` and `id`, and tell of them."""
    count = scratch.make("wrong", query)
    if not count:
        return
    if repair:
        writer = ws.tables.find(table)
        assert writer is not None  # its rows were just read
        with filters.failures(table):
            for batch in scratch.stream("SELECT _rowid FROM wrong ORDER BY _rowid"):
                writer.delete(f"_rowid IN ({', '.join(map(str, batch['_rowid'].to_pylist()))})")
    first = scratch.ask("SELECT id FROM wrong ORDER BY _rowid LIMIT 1")["id"][0].as_py()
    yield Finding(check=check, count=count, example=str(first), repaired=repair, remedy=REPAIR)
