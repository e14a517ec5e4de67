"""Columns of an answer: those of --columns, of the members of a set, and of segments."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ares.errors import RequestError
from ares.registry import did_you_mean, suggest_column
from ares_app.cli.arguments import open_workspace
from ares_app.cli.output import Block, Columns, OutputTable, answer, short_text

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import EpisodeTable


# How --columns is declared, which `read_columns` reads.
COLUMNS_OPTION: Mapping[str, Any] = {
    "default": "",
    "metavar": "NAME,...",
    "help": "show further columns of the episodes, such as idle_share,metadata.operator, in every format",
}


# Headers under which a table shows a column already.
SHOWN_UNDER = {"episode_id": "episode", "split": "source key", "key": "source key"}
_METADATA_KEY = "metadata."
_ROWS_AT_ONCE = 5_000
_MEMBER_COLUMNS = ("dataset", "split", "key", "instruction", "duration_seconds")
# Columns of segments, of which each is a document.
SEGMENT_COLUMNS: Columns = {
    "start": itemgetter("start_seconds"),
    "end": itemgetter("stop_seconds"),
    "style": itemgetter("style"),
    "arm": lambda segment: segment.get("arm") or "",
    "author": itemgetter("author"),
    "text": lambda segment: short_text(segment["text"]),
    "grade": itemgetter("grade"),
    "by": itemgetter("annotator"),
}


def read_columns(
    args: argparse.Namespace, ids: Sequence[str], first: Sequence[str] = ()
) -> dict[str, dict[str, Json]]:
    """Values by episode of each column of --columns; `metadata` is the whole, `metadata.KEY` a value of it.

    Args:
        args: Parsed arguments.
        ids: The episodes; one that the workspace does not have has no values.
        first: Columns that are read in any case.

    Raises:
        RequestError: There is no such column, or no episode has such a key.
    """
    names = [*first, *(name.strip() for name in args.columns.split(",") if name.strip())]
    if not names:
        return {}
    from ares.store import ids_filter

    episodes = open_workspace(args).stores.tables.episodes
    keys = {name: name.removeprefix(_METADATA_KEY) for name in names if name.startswith(_METADATA_KEY)}
    stored = dict.fromkeys(["episode_id", *("metadata" if name in keys else name for name in names)])
    known = {**episodes.columns(), "metadata": "string"}
    for name in stored:
        if name not in known:
            own = f"a value of the source is in metadata: metadata.{name}; "
            hint = f"{suggest_column(name, known) or own}there are: {', '.join(known)}"
            raise RequestError(f"no column named {name!r}", hint)
    rows = episodes.read_columns([*stored], ids_filter(ids)).to_pylist()
    if "metadata" in stored:
        _read_metadata(episodes, rows, keys)
    # Times as text, as JSON has them.
    return {
        name: {
            row["episode_id"]: value.isoformat() if hasattr(value := row[name], "isoformat") else value
            for row in rows
        }
        for name in names
    }


def _read_metadata(episodes: EpisodeTable, rows: Sequence[dict[str, Any]], keys: Mapping[str, str]) -> None:
    """Parse the metadata of rows, and add values of it. Raises RequestError for a key that no episode has.

    Args:
        episodes: The table of the rows.
        rows: The rows, which are changed.
        keys: By column its key in the metadata.
    """
    for row in rows:
        row["metadata"] = json.loads(row["metadata"])
        row.update({name: row["metadata"].get(key) for name, key in keys.items()})
    known = dict.fromkeys(key for row in rows for key in row["metadata"])
    for key in keys.values():
        text = json.dumps(key).replace("'", "''")
        if key not in known and not any(episodes.scan(["episode_id"], f"contains(metadata, '{text}: ')", 1)):
            raise RequestError(
                f"no episode has {key!r} in its metadata",
                f"{did_you_mean(key, known)}there are: {', '.join(_METADATA_KEY + key for key in known) or 'none'}",
            )


def answer_members(
    args: argparse.Namespace,
    document: Mapping[str, object],
    rows: Iterable[dict[str, Json]],
    lines: Callable[[], Iterable[str]],
) -> None:
    """Print the members of a set as a document, as rows, as a table of their episodes, or with --ids as bare lines.

    With --columns the rows, and the document below `rows`, have those columns too.
    """
    wide = _with_columns(args, rows) if args.columns and args.output != "table" else rows
    body = {**document, "rows": wide} if args.columns else document
    answer(args, body, lines if args.ids else lambda: _member_tables(args, rows), wide)


def _with_columns(args: argparse.Namespace, rows: Iterable[dict[str, Json]]) -> Iterator[dict[str, Json]]:
    from ares.store import batched

    for batch in batched(rows, _ROWS_AT_ONCE):
        columns = read_columns(args, [str(row["episode_id"]) for row in batch])
        for row in batch:
            yield row | {name: values.get(str(row["episode_id"])) for name, values in columns.items()}


def _member_tables(args: argparse.Namespace, rows: Iterable[dict[str, Json]]) -> Iterator[Block]:
    """A table of members, some thousands at a time; a span has its seconds and its text."""
    from ares.store import batched

    count = 0
    for batch in batched(rows, _ROWS_AT_ONCE):
        columns = read_columns(args, [str(row["episode_id"]) for row in batch], _MEMBER_COLUMNS)
        more = [name for name in columns if name not in (*_MEMBER_COLUMNS, *SHOWN_UNDER)]
        span, last = (("start", "end"), "text") if "text" in batch[0] else ((), "instruction")
        header = ("episode", *span, "dataset", "source key", *(() if span else ("duration",)), last, *more)
        table = []
        for row in batch:
            values = {name: column.get(str(row["episode_id"])) for name, column in columns.items()}
            table.append((*_member_row(row, values), *(values[name] for name in more)))
        yield OutputTable(table, () if count else header)
        count += len(batch)
    if not count:
        yield "no episodes"


def _member_row(row: Mapping[str, Json], values: Mapping[str, Json]) -> tuple[object, ...]:
    """The first cells of a member; one whose episode was removed says so."""
    has_episode = values["dataset"] is not None
    dataset = values["dataset"] if has_episode else "removed"
    origin = (dataset, f"{values['split'] or ''} {values['key'] or ''}".strip())
    shown = short_text(str(row.get("text", values["instruction"]) or ""))
    if "text" in row:
        return (row["episode_id"], row["start_seconds"], row["stop_seconds"], *origin, shown)
    duration = f"{values['duration_seconds']:.2f} s" if has_episode else ""
    return (row["episode_id"], *origin, duration, shown)
