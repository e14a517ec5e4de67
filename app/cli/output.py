"""Prints answers and errors: JSON, plain text, or tables and colours when the output is a terminal."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, TextIO

from ares.episode import Json
from ares.errors import AresError, FilterError
from ares.io import stream_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable


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


def answer(
    args: argparse.Namespace,
    document: Json | Mapping[str, object],
    build_text: Callable[[], Block | Iterable[Block]],
) -> None:
    """Print the document with --json, else the text for people.

    Args:
        args: Parsed arguments.
        document: What `--json` prints; an iterator among its values is printed as a list while it is read.
        build_text: Returns the text for people: a text, a table, or several, each on lines of its own.
    """
    if not args.json:
        text = build_text()
        _print_blocks([text] if isinstance(text, Block) else text)
    elif isinstance(document, Mapping):
        sys.stdout.writelines(chain(stream_json(document), "\n"))
    else:
        print(json.dumps(document, indent=1, ensure_ascii=False))


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
    prefix, message = f"ares {command}:", _visible(" ".join(str(error).split()))
    if sys.stderr.isatty():
        from rich.text import Text

        _console(sys.stderr).print(Text.assemble((prefix, "red"), f" {message}"), soft_wrap=True)
    else:
        print(f"{prefix} {message}", file=sys.stderr)
    if isinstance(error, FilterError) and error.pointer:
        print(error.pointer, file=sys.stderr)


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
    return _visible("" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value))


def _visible(text: str) -> str:
    """The text with control characters written as escapes: data must not control a terminal."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
