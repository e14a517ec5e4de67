"""Prints answers and errors: JSON, rows, plain text, or tables and colours when the output is a terminal."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, TextIO

from app.cli.parser import visible
from app.cli.rows import printable_json, write_csv, write_json_lines
from ares.episode import Json
from ares.errors import AresError, FilterError
from ares.io import stream_json
from ares.messages import ignoring_lost_stderr

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable


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
        cells = [[_cell(value) for value in row] for row in self._lines()]
        if not cells:
            return ""
        widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
        padded = [
            "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)) for row in cells
        ]
        return "\n".join(line.rstrip() for line in padded)

    def _lines(self) -> list[Sequence[object]]:
        return [self.header, *self.rows] if self.header else [*self.rows]


Block = str | OutputTable


class AnswerLost(Exception):
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
        build_text: Returns the text for people: a text, a table, or several, each on lines of its own.
        rows: The list as rows with the same names, for a command that declares `rows`; printed while they are read.

    Raises:
        AnswerLost: Standard output cannot be written.
    """
    try:
        _print_answer(args.output, document, build_text, rows)
        sys.stdout.flush()
    except OSError as error:
        if error.filename is not None:  # of a file that was read for the answer
            raise
        raise AnswerLost(error) from None


def _print_answer(
    format: str,
    document: Json | Mapping[str, object] | Sequence[Mapping[str, Json]],
    build_text: Callable[[], Block | Iterable[Block]],
    rows: Iterable[Mapping[str, object]],
) -> None:
    if format == "table":
        text = build_text()
        _print_blocks([text] if isinstance(text, Block) else text)
    elif format == "jsonl":
        write_json_lines(rows, sys.stdout)
    elif format == "csv":
        write_csv(rows, sys.stdout)
    elif isinstance(document, Mapping):
        sys.stdout.writelines(map(printable_json, chain(stream_json(document), "\n")))
    else:
        print(printable_json(json.dumps(document, indent=1, ensure_ascii=False)))


def paragraphs(blocks: Iterable[Block]) -> Iterator[Block]:
    """Blocks with an empty line between them."""
    for number, block in enumerate(blocks):
        if number:
            yield ""
        yield block


def tallies(report: Mapping[str, Json], key: str) -> str:
    """Failures or warnings of a report: per reason a line with its count, and its first example."""
    rows = report.get(key) or []
    assert isinstance(rows, list)
    return "".join(
        f"\n  {row['count']:>6}  {_cell(row['reason'])}\n          first: {_cell(row['example'])}"
        for row in rows
        if isinstance(row, dict)
    )


def print_error(command: str, error: AresError) -> None:
    """Print an error as one line on standard error, with the position in a filter that cannot be parsed."""
    # Nobody can read an error on a standard error that is closed or full; the exit status remains.
    with ignoring_lost_stderr():
        _print_error_line(command, error)


def _print_error_line(command: str, error: AresError) -> None:
    prefix, message = f"ares {command}".rstrip() + ":", visible(" ".join(str(error).split()))
    if sys.stderr.isatty():
        from rich.text import Text

        _console(sys.stderr).print(Text.assemble((prefix, "red"), f" {message}"), soft_wrap=True)
    else:
        print(f"{prefix} {message}", file=sys.stderr)
    if isinstance(error, FilterError) and error.pointer:
        print(error.pointer, file=sys.stderr)
    sys.stderr.flush()


def _print_blocks(blocks: Iterable[Block]) -> None:
    console: Console | None = None
    for block in blocks:
        if isinstance(block, str) or not sys.stdout.isatty():
            print(block)
        elif block.rows or block.header:
            console = console or _console(sys.stdout)
            console.print(_rich_table(block))


def _console(file: TextIO) -> Console:
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
        drawn.add_column(Text(_cell(name)), overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(_cell(value)) for value in row))
    return drawn


def _cell(value: object) -> str:
    return visible("" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value))
