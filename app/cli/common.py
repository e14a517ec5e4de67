"""Common: arguments that every command takes, and the one way to print an answer."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from ares.episode import Json
from ares.longjson import pieces

if TYPE_CHECKING:
    from ares.workspace import Workspace


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add --workspace and --json."""
    parser.add_argument(
        "-w",
        "--workspace",
        metavar="PATH",
        help="workspace: a folder, or a URI such as s3://bucket/name (default: $ARES_WORKSPACE or ./ares-workspace)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")


def number_of_episodes(text: str) -> int:
    """The value of --limit: a whole number from 0 on."""
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of episodes; give a whole number from 0 on")
    return int(text)


def open_workspace(args: argparse.Namespace, create: bool = False) -> Workspace:
    """The workspace that was asked for, open until the command ends.

    Args:
        args: Parsed arguments.
        create: Make it when it is not there; a command that only reads must not leave an empty workspace behind.

    Raises:
        RequestError: There is no workspace, or the folder holds something else.
    """
    from ares.errors import RequestError
    from ares.manifest import exists
    from ares.settings import from_environment
    from ares.workspace import open_workspace as open_at

    settings = from_environment()
    path = args.workspace or settings.workspace
    if not create and not exists(path):
        raise RequestError(
            f"there is no workspace at {path!r}", "`ares ingest` makes one; -w chooses another"
        )
    opened = open_at(path, settings)
    args.opened = opened  # `main` closes it
    return opened


def add_question(parser: argparse.ArgumentParser) -> None:
    """Declare what a search is asked beside its text."""
    parser.add_argument(
        "--image",
        default="",
        metavar="FILE",
        help="find moments that look like this image, or like EPISODE_ID/CAMERA@SECONDS",
    )
    parser.add_argument("--like", default="", metavar="EPISODE_ID", help="find episodes like this one")
    parser.add_argument(
        "--by",
        default="",
        metavar="WAY[=WEIGHT],...",
        help="compare frames, captions, meaning, state or action (default: the first three)",
    )


def answer(
    args: argparse.Namespace, document: Json | Mapping[str, object], text: Callable[[], str | Iterator[str]]
) -> None:
    """Print the document as JSON when asked for, else the text for people.

    Args:
        args: Parsed arguments.
        document: What `--json` prints; an iterator among its values is printed as a list while it is read.
        text: Gives the text for people, or its lines.
    """
    if not args.json:
        said = text()
        for line in [said] if isinstance(said, str) else said:
            print(line)
    elif isinstance(document, Mapping):
        sys.stdout.writelines(chain(pieces(document), "\n"))
    else:
        print(json.dumps(document, indent=1, ensure_ascii=False))


def table(rows: Sequence[Sequence[object]], head: Sequence[str] = ()) -> str:
    """Rows as aligned columns, the last one as long as it is; control characters in data are made visible."""
    cells = [[_cell(value) for value in row] for row in ([head, *rows] if head else rows)]
    if not cells:
        return ""
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = ["  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)) for row in cells]
    return "\n".join(line.rstrip() for line in lines)


def tallies(report: Mapping[str, Json], what: str) -> str:
    """Failures or warnings of a report, one reason a line with its count and first example."""
    rows = report.get(what) or []
    assert isinstance(rows, list)
    return "".join(
        f"\n  {row['count']:>6}  {_cell(row['reason'])}\n          first: {_cell(row['example'])}"
        for row in rows
        if isinstance(row, dict)
    )


def _cell(value: object) -> str:
    text = "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
