"""What a command prints: JSON, rows, text, tables, and one-line errors of the argument parser."""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from app.cli.gone import GONE_OPTIONS
from ares.console import ignoring_lost_stderr, visible, visible_lines
from ares.episode import Json
from ares.errors import AresError, FilterError
from ares.registry import did_you_mean

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable


_EXIT_REFUSED = 2


class CommandParser(argparse.ArgumentParser):
    """A parser that refuses abbreviated options, suggests the nearest name, and says what is wrong in one line."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **{**options, "allow_abbrev": False})
        self._is_intermixed = False

    def set_examples(self, *examples: str) -> None:
        """Show commands at the end of the help."""
        self.epilog = "\n".join(["examples:", *(f"  {example}" for example in examples)])

    def print_help(self, file: Any = None) -> None:
        """Write the help; unlike in argparse, an output that cannot be written is an error."""
        (file or sys.stdout).write(visible_lines(self.format_help()))

    def error(self, message: str) -> NoReturn:
        """Print what is wrong as one line and exit with status 2."""
        from ares.console import write_stderr

        text = " ".join(message.split())
        separator = "" if text.endswith("?") else ";"
        write_stderr(f"{self.prog}: {text}{separator} see `{self.prog} --help`")
        raise SystemExit(_EXIT_REFUSED)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse all arguments; an unknown one is refused by the command that it was given to."""
        arguments = list(sys.argv[1:] if args is None else args)
        parsed, extras = self.parse_known_args(arguments, namespace)
        if extras:
            command = self._command_of(arguments)
            command.error(command._describe_unknown(extras))
        return parsed

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse what is known; a positional that stands behind an option is parsed, too."""
        parsed, extras = super().parse_known_args(args, namespace)
        is_positional = extras and not any(text.startswith("-") for text in extras)
        if not is_positional or self._is_intermixed or self.actions_by_name():
            return parsed, extras
        self._is_intermixed = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_intermixed = False

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = [str(choice) for choice in action.choices]
            kind = (action.metavar if isinstance(action.metavar, str) else action.dest).lower()
            hint = f"{did_you_mean(str(value), names)}there are: {', '.join(names)}"
            raise argparse.ArgumentError(None, f"no {kind} {value!r}: {hint}")

    def actions_by_name(self) -> dict[str, CommandParser]:
        """Parsers of the commands or actions below this one."""
        return {
            name: parser
            for action in self._actions
            if isinstance(action, argparse._SubParsersAction)
            for name, parser in action.choices.items()
        }

    def options_by_flag(self) -> dict[str, argparse.Action]:
        """Options by each of their flags."""
        return {flag: action for action in self._actions for flag in action.option_strings}

    def _command_of(self, arguments: Sequence[str]) -> CommandParser:
        """The innermost parser that the arguments name."""
        parser = self
        for argument in arguments:
            parser = parser.actions_by_name().get(argument, parser)
        return parser

    def _describe_unknown(self, extras: Sequence[str]) -> str:
        option = next((text for text in extras if text.startswith("-")), "").partition("=")[0]
        if not option:
            return f"{extras[0]!r} is an argument too many"
        if replacement := GONE_OPTIONS.get(f"{self.prog} {option}"):
            return f"{option} is gone: {replacement}"
        known = [flag for flag in self.options_by_flag() if flag.startswith("--")]
        longer = [name for name in known if name.startswith(option)] if option.startswith("--") else []
        hint = f"did you mean {longer[0]!r}?" if longer else did_you_mean(option, known).strip()
        return f"no option {option!r}" + (f": {hint}" if hint else "")


# Control characters that JSON leaves as they are, and those that change the direction of a text.
_UNSAFE_IN_JSON = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
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
        cells = [[_cell_text(value) for value in row] for row in self._lines()]
        if not cells:
            return ""
        widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
        padded = [
            "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)) for row in cells
        ]
        return "\n".join(line.rstrip() for line in padded)

    def _lines(self) -> list[Sequence[object]]:
        return [self.header, *self.rows] if self.header else [*self.rows]


# A line, several lines, or a table.
Block = str | tuple[str, ...] | OutputTable


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


def make_makers_table(makers: dict[str, Any]) -> OutputTable:
    """The makers of every annotator, and which of them fill the columns."""
    rows = [
        (
            annotator,
            maker["maker_id"],
            maker["kind"],
            maker["model"] or f"version {maker['version']}",
            maker["annotations"],
            _column_use(maker, members),
            _differing_settings(maker, members),
        )
        for annotator, members in makers.items()
        for maker in members
    ]
    return OutputTable(rows, ("makers of", "maker", "kind", "model", "annotations", "used", "settings"))


def _column_use(maker: dict[str, Any], members: list[dict[str, Any]]) -> str:
    """Whether the values of a maker fill the columns: people and a consensus come first unless another is pinned."""
    if any(member["pinned"] for member in members):
        return "pinned" if maker["pinned"] else ""
    return "newest" if maker["current"] else "first" if maker["kind"] in ("person", "consensus") else ""


def _differing_settings(maker: dict[str, Any], members: list[dict[str, Any]]) -> str:
    """The version, prompts and settings of a maker that another maker of its annotator has not."""
    details = [_maker_details(member) for member in members]
    own = {
        name: value
        for name, value in _maker_details(maker).items()
        if any(x.get(name) != value for x in details)
    }
    return ", ".join(f"{name}={value}" for name, value in own.items())


def _maker_details(maker: dict[str, Any]) -> dict[str, Any]:
    return {"version": maker["version"], "prompts": maker["prompt_hash"], **maker["settings"]}
