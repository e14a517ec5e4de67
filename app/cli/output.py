"""What a command prints: JSON, rows, text, tables, and errors in one line."""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TextIO

from ares.console import count_of, ignoring_lost_stderr, visible, visible_lines
from ares.episode import Json
from ares.errors import AresError, FilterError
from ares.workspace import ResultTable, align_rows

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

    from ares.jobs import UnreadFile


# Control characters that JSON leaves as they are, and those that change the direction of a text.
_UNSAFE_IN_JSON = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
# Kinds of files that were not read that are listed; the JSON has all.
_LISTED_UNREAD = 20
# With these a spreadsheet takes a text for a formula (OWASP, "CSV Injection").
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def escape_json_controls(text: str) -> str:
    """The same JSON with control characters as escapes, so that data does not control a terminal."""
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def write_json_lines(rows: Iterable[Mapping[str, object]], file: TextIO) -> None:
    """Write each row as one line of JSON."""
    file.writelines(escape_json_controls(json.dumps(row, ensure_ascii=False)) + "\n" for row in rows)


def write_csv(rows: Iterable[Mapping[str, object]], file: TextIO) -> None:
    """Write rows as CSV with the names of the first as its header.

    A list or an object is written as JSON. A text that a spreadsheet would take for a formula gets an apostrophe in
    front. On a terminal control characters are written as escapes.
    """
    remaining = iter(rows)
    first = list(islice(remaining, 1))
    writer = csv.writer(file, lineterminator="\n")
    if first:
        writer.writerow(first[0])
    is_terminal = file.isatty()
    writer.writerows(
        [_csv_cell(row.get(name), is_terminal) for name in first[0]] for row in chain(first, remaining)
    )


def _csv_cell(value: object, is_terminal: bool) -> object:
    if value is None or isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if text.startswith(_FORMULA_STARTS):
        text = f"'{text}"
    return visible(text) if is_terminal else text


# Values of --output: for every command, and for commands whose answer is a list. The first is the default.
DOCUMENT_FORMATS = ("table", "json")
ROW_FORMATS = (*DOCUMENT_FORMATS, "jsonl", "csv")


@dataclass(frozen=True, slots=True)
class OutputTable:
    """Rows and their header, printed as aligned columns.

    Attributes:
        rows: Values of each row; None is an empty cell, a float has three decimals.
        header: Names of the columns, or empty.
    """

    rows: Sequence[Sequence[object]]
    header: Sequence[str] = ()

    def __str__(self) -> str:
        """Aligned plain text; the last column is not padded."""
        return align_rows([[_cell_text(value) for value in row] for row in self._lines()])

    def _lines(self) -> list[Sequence[object]]:
        return [self.header, *self.rows] if self.header else [*self.rows]


# A line, several lines, or a table.
Block = str | tuple[str, ...] | OutputTable


# Columns of a table: the cell of a row, by header.
Columns = Mapping[str, Callable[[Any], object]]


def make_table(columns: Columns, rows: Iterable[object]) -> OutputTable:
    """A table with the header and the cells that the columns have."""
    return OutputTable([tuple(cell(row) for cell in columns.values()) for row in rows], tuple(columns))


def short_text(text: str, most: int = 100) -> str:
    """A text of a cell, cut where it is longer; --json has it in full."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


class OutputLostError(Exception):
    """Standard output cannot be written: its disk is full, or its reader has gone.

    Args:
        error: What the operating system says.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


def answer(
    args: argparse.Namespace,
    document: Json | Mapping[str, object] | Sequence[Mapping[str, Json]],
    build_text: Callable[[], Block | Iterable[Block]],
    rows: Iterable[Mapping[str, object]] = (),
) -> None:
    """Print the document with `--output json`, the rows with `jsonl` and `csv`, else the text for people.

    Args:
        args: Parsed arguments.
        document: What `--output json` prints; an iterator among its values is printed as a list while it is read.
        build_text: Returns the text for people: a line, a tuple of lines, a table, or several of them. Control
            characters in them, line breaks too, are written as escapes.
        rows: The list as rows with the same names, for a command that declares `rows`; printed while they are read.

    Raises:
        OutputLostError: Standard output cannot be written.
    """
    args.has_answered = True
    try:
        _print_answer(args.output, document, build_text, rows)
        sys.stdout.flush()
    except OSError as error:
        if error.filename is not None:  # of a file that was read for the answer
            raise
        raise OutputLostError(error) from None


def answer_list(
    args: argparse.Namespace,
    items: Sequence[Any],
    columns: Columns,
    empty: str,
    documents: Sequence[Mapping[str, Json]] | None = None,
) -> None:
    """Print a list: as its documents, as rows, or as a table for people.

    Args:
        args: Parsed arguments of a command that declares `rows`.
        items: What is listed.
        columns: Columns of the table.
        empty: What is said for people in place of a table without rows.
        documents: The documents of the items; by default as `to_json` has them.

    Raises:
        OutputLostError: Standard output cannot be written.
    """
    listed = [item.to_json() for item in items] if documents is None else documents
    answer(args, listed, lambda: make_table(columns, items) if items else empty, listed)


def answer_results(args: argparse.Namespace, results: ResultTable[Any]) -> None:
    """Print a list with the columns that it has in a notebook, see `answer_list`."""
    answer_list(args, results, results.shown, results.empty)


def _print_answer(
    format: str,
    document: Json | Mapping[str, object] | Sequence[Mapping[str, Json]],
    build_text: Callable[[], Block | Iterable[Block]],
    rows: Iterable[Mapping[str, object]],
) -> None:
    if format == "table":
        text = build_text()
        _print_blocks([text] if isinstance(text, str | tuple | OutputTable) else text)
    elif format == "jsonl":
        write_json_lines(rows, sys.stdout)
    elif format == "csv":
        write_csv(rows, sys.stdout)
    elif isinstance(document, Mapping):
        from ares.curation import stream_json

        sys.stdout.writelines(map(escape_json_controls, chain(stream_json(document), "\n")))
    else:
        print(escape_json_controls(json.dumps(document, indent=1, ensure_ascii=False)))


def paragraphs(blocks: Iterable[Block]) -> Iterator[Block]:
    """Blocks with an empty line between them."""
    for number, block in enumerate(blocks):
        if number:
            yield ""
        yield block


def tallies(report: Mapping[str, Json], key: str) -> Iterator[str]:
    """Failures or warnings of a report: per reason a line with its count, and one with its first example."""
    rows = report.get(key) or []
    assert isinstance(rows, list)
    for row in rows:
        if isinstance(row, dict):
            yield f"  {row['count']:>6}  {row['reason']}"
            if row["example"]:
                yield f"          first: {row['example']}"


def answer_refusal(args: argparse.Namespace, error: AresError, status: int) -> None:
    """Print an error as the JSON document of a command that was asked for one, and has not answered yet."""
    if getattr(args, "output", "") == "json" and not getattr(args, "has_answered", False):
        document = {"status": int(status), "error": {"reason": error.reason, "detail": error.detail}}
        answer(args, document, lambda: ())


def print_error(command: str, error: AresError) -> None:
    """Print an error as one line on standard error, with the position in a filter that cannot be parsed."""
    # Nobody can read an error on a standard error that is closed or full; the exit status remains.
    with ignoring_lost_stderr():
        _print_error_line(command, error)


def _print_error_line(command: str, error: AresError) -> None:
    prefix, message = f"ares {command}".rstrip() + ":", visible(" ".join(str(error).split()))
    if sys.stderr.isatty():
        from rich.text import Text

        _plain_console(sys.stderr).print(Text.assemble((prefix, "red"), f" {message}"), soft_wrap=True)
    else:
        sys.stderr.write(f"{prefix} {message}\n")
    if isinstance(error, FilterError) and error.pointer:
        sys.stderr.write(f"{visible_lines(error.pointer)}\n")
    sys.stderr.flush()


def _print_blocks(blocks: Iterable[Block]) -> None:
    console: Console | None = None
    for block in blocks:
        if isinstance(block, str):
            print(visible(block))
        elif isinstance(block, tuple):
            print(*map(visible, block), sep="\n")
        elif not sys.stdout.isatty():
            print(block)
        elif block.rows or block.header:
            console = console or _plain_console(sys.stdout)
            console.print(_rich_table(block))


def _plain_console(file: TextIO) -> Console:
    """A console that prints data as it is: no markup, no emoji codes, no highlighting."""
    from rich.console import Console

    return Console(file=file, markup=False, emoji=False, highlight=False)


def _rich_table(table: OutputTable) -> RichTable:
    from rich.table import Table
    from rich.text import Text

    drawn = Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(table.header), header_style="dim"
    )
    for name in table.header or [""] * len(table.rows[0]):
        drawn.add_column(Text(_cell_text(name)), overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(_cell_text(value)) for value in row))
    return drawn


def _cell_text(value: object) -> str:
    if isinstance(value, Mapping):
        value = json.dumps(value, ensure_ascii=False)
    return visible("" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value))


def list_unread_files(unread: Sequence[UnreadFile]) -> tuple[str, ...]:
    """Lines on files of data that were not read: their number, and the first kinds of them."""
    from ares_ingest.discovery import unread_file_lines

    lines = unread_file_lines(unread, _LISTED_UNREAD)
    return (f"not read: {count_of(len(unread), 'file')} of data", *lines)
