"""Answers that are lists, written row by row: JSON lines, and CSV that a spreadsheet opens without running it."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping
from itertools import chain, islice
from typing import TextIO

from app.cli.parser import visible

# Control characters that JSON leaves as they are, and those that change the direction of a text.
_UNSAFE_IN_JSON = re.compile(r"[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
# With these a spreadsheet takes a text for a formula (OWASP, "CSV Injection").
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def printable_json(text: str) -> str:
    """The same JSON with control characters as escapes, so that data does not control a terminal."""
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def write_json_lines(rows: Iterable[Mapping[str, object]], file: TextIO) -> None:
    """Write each row as one line of JSON."""
    file.writelines(printable_json(json.dumps(row, ensure_ascii=False)) + "\n" for row in rows)


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
