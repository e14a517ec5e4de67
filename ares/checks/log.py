"""Log: what the index shows is what the annotation log says, compared value by value without building it anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ares.checks.finding import REPAIR, Finding
from ares.checks.rows import EXTRA, lay_out, remove
from ares.store.index import Changes, applied_sequence, changes_until, forget_log
from ares.store.segments import segment_schema
from ares.store.values import arrow_type

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store.scratch import Scratch
    from ares.workspace import Workspace

# Rows written at once: each write goes through the ids of the whole table.
_CHUNK = 100_000
_GRADE = ("acceptable", "grade", "score")
# The last word on each episode: what the newest batch says, a missing value too.
_LATEST = 'SELECT {key}, unnest(arg_max(struct_pack({packed}), batch)) FROM "{table}" GROUP BY {key}'


def check_applied(ws: Workspace, repair: bool) -> Iterator[Finding]:
    """The index knows the whole log, and nothing beyond its end."""
    last, applied = ws.annotations.last_sequence(), applied_sequence(ws.tables)
    if applied == last:
        return
    if repair:
        if applied > last:
            # The log was brought back from an older copy.
            forget_log(ws.tables)
        ws.sync()
    check = (
        "the index has applied every annotation" if applied < last else "the index is no newer than the log"
    )
    yield Finding(
        check=check,
        count=abs(last - applied),
        example=f"the index is at sequence {applied}, the log at {last}",
        repaired=repair,
        remedy=REPAIR,
    )


def gather(ws: Workspace, scratch: Scratch) -> Iterator[Finding]:
    """Lay out what the log says in the scratch: a table per column, captions, grades, embeddings; tell of strangers."""
    import pyarrow as pa

    strangers: dict[str, str] = {}
    scratch.put("captions", pa.schema([*_captions(), ("batch", pa.int64())]), [])
    scratch.put("grades", pa.schema([*_grades(), ("batch", pa.int64())]), [])
    for at, changes in enumerate(changes_until(ws.tables, ws.annotations, ws.annotations.last_sequence())):
        strangers.update(changes.strangers)
        for table, schema, rows in _laid_out(changes):
            rows = [{**row, "batch": at} for row in rows]
            schema = pa.schema([*schema, ("batch", pa.int64())])
            scratch.put(table, schema, pa.Table.from_pylist(rows, schema=schema).to_batches())
    for maker_id, example in list(strangers.items())[:1]:
        yield Finding(
            check="each fact says what made it",
            count=len(strangers),
            example=f"maker {maker_id} of {example} is unknown",
            repaired=False,
            remedy="restore the annotations from a backup",
        )


def check_values(ws: Workspace, scratch: Scratch, repair: bool) -> Iterator[Finding]:
    """Columns that annotators declare, episode by episode."""
    import pyarrow as pa

    there = ws.tables.episodes.columns()
    kinds = {
        column.name: column.type for maker in ws.annotations.makers().values() for column in maker.columns
    }
    for name, kind in sorted(kinds.items()):
        table, told = f"column {name}", scratch.has(f"column {name}")
        if there.get(name, kind) != kind or not (told or name in there):
            continue
        expected = _LATEST.format(key="episode_id", packed="value := value", table=table)
        nothing = f"SELECT ''::VARCHAR AS episode_id, NULL::{_SQL[kind]} AS value WHERE false"
        seen = ws.tables.episodes.schema(["episode_id", *([name] if name in there else [])])
        scratch.put(f"seen {name}", seen, ws.tables.episodes.scan(seen.names))
        shown = f'"{name}"' if name in there else "NULL"
        wrong = scratch.make(
            "wrong",
            f'SELECT s.episode_id, e.value AS "{name}" FROM "seen {name}" s'
            f" LEFT JOIN ({expected if told else nothing}) e USING (episode_id)"
            f" WHERE {shown} IS DISTINCT FROM e.value",
        )
        if wrong:
            schema = pa.schema([("episode_id", pa.string()), (name, arrow_type(kind))])
            yield from _mended(
                ws.tables.episodes.set_values if repair else None,
                scratch,
                schema,
                f"column {name} shows what the log says",
                f"episode {{episode_id}}: the log says {{{name}!r}}",
            )
        scratch.drop(f"seen {name}", table)


def check_segments(ws: Workspace, scratch: Scratch, repair: bool) -> Iterator[Finding]:
    """Segments against the captions of the log and their latest grades."""
    names = segment_schema().names
    _ = ws.tables.segments.count()  # makes it where it is not there
    lay_out(ws, scratch, "segments", names)
    twice = EXTRA.format(table="segments", key="annotation_id")
    yield from remove(ws, scratch, "segments", twice, "each caption stands once in segments", repair)
    strays = "SELECT _rowid, s.annotation_id AS id FROM segments s ANTI JOIN captions USING (annotation_id)"
    yield from remove(ws, scratch, "segments", strays, "no segments without a caption in the log", repair)
    graded = _LATEST.format(
        key="annotation_id", packed=", ".join(f"{name} := {name}" for name in _GRADE), table="grades"
    )
    told = (
        "SELECT c.* EXCLUDE (batch), g.* EXCLUDE (annotation_id)"
        f" FROM captions c LEFT JOIN ({graded}) g USING (annotation_id)"
    )
    differs = " OR ".join(f"s.{name} IS DISTINCT FROM e.{name}" for name in names)
    wrong = scratch.make(
        "wrong",
        f"SELECT {', '.join(f'e.{name}' for name in names)} FROM ({told}) e"
        f" LEFT JOIN segments s USING (annotation_id) WHERE {differs}",
    )
    if wrong:
        yield from _mended(
            ws.tables.segments.upsert if repair else None,
            scratch,
            segment_schema(),
            "segments are the captions of the log with their grades",
            "caption {annotation_id} of episode {episode_id}",
        )


def _mended(
    write: Callable[[pa.Table], None] | None, scratch: Scratch, schema: pa.Schema, check: str, told: str
) -> Iterator[Finding]:
    """Tell of rows that the scratch holds as "wrong", written as they should be where that was asked."""
    import pyarrow as pa

    key = schema.names[0]
    first = scratch.ask(f'SELECT * FROM wrong ORDER BY "{key}" LIMIT 1').to_pylist()[0]
    for batch in scratch.stream(f'SELECT * FROM wrong ORDER BY "{key}"', _CHUNK) if write else ():
        assert write is not None
        write(pa.Table.from_batches([batch]).cast(schema))
    yield Finding(
        check=check,
        count=scratch.ask("SELECT count(*) AS n FROM wrong")["n"][0].as_py(),
        example=told.format(**first),
        repaired=write is not None,
        remedy=REPAIR,
    )


_SQL = {
    "bool": "BOOLEAN",
    "int64": "BIGINT",
    "float64": "DOUBLE",
    "string": "VARCHAR",
    "list<string>": "VARCHAR[]",
    "timestamp": "TIMESTAMPTZ",
}


def _captions() -> list[pa.Field]:
    return [field for field in segment_schema() if field.name not in _GRADE]


def _grades() -> list[pa.Field]:
    return [field for field in segment_schema() if field.name in ("annotation_id", *_GRADE)]


def _laid_out(changes: Changes) -> Iterator[tuple[str, list[Any], list[dict[str, Any]]]]:
    """Rows that a batch of facts adds to each table of the scratch."""
    import pyarrow as pa

    columns: dict[str, list[dict[str, Any]]] = {}
    for episode_id, values in changes.values.items():
        for name, value in values.items():
            columns.setdefault(name, []).append({"episode_id": episode_id, "value": value})
    for name, rows in columns.items():
        yield (
            f"column {name}",
            [("episode_id", pa.string()), ("value", arrow_type(changes.types[name]))],
            rows,
        )
    if changes.captions:
        yield "captions", _captions(), list(changes.captions.values())
    if changes.grades:
        yield "grades", _grades(), list(changes.grades.values())
    if changes.embedded:
        schema = [("space", pa.string()), ("episode_id", pa.string()), ("frames", pa.int64())]
        yield (
            "embedded",
            schema,
            [
                {"space": space, "episode_id": episode_id, "frames": frames}
                for (space, episode_id), frames in changes.embedded.items()
            ],
        )
