"""`ares rubric`: show and check rubrics."""

from __future__ import annotations

import argparse
from typing import Any

from app.cli.common import add_common, answer, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    shown = actions.add_parser("show", help="the criteria of a rubric")
    check = actions.add_parser("check", help="read a rubric and print the hash that its grades will carry")
    for one in (shown, check):
        one.add_argument(
            "rubric", nargs="?", default="caption", metavar="RUBRIC", help="a shipped name or a YAML file"
        )
        add_common(one)


def run(args: argparse.Namespace) -> int:
    """Show or check. Raises RequestError naming the first field that is wrong."""
    from annotators.rubrics import load_rubric

    rubric = load_rubric(args.rubric)
    document: dict[str, Any] = {**rubric.model_dump(mode="json"), "hash": rubric.hash}
    head = f"{rubric.id} {rubric.version}  {rubric.hash}"
    if args.action == "check":
        kept = {key: document[key] for key in ("id", "version", "hash")}
        answer(args, {**kept, "criteria": len(rubric.criteria)}, lambda: head)
        return 0
    rows = [(one.id, one.category, one.applies_when, one.text) for one in rubric.criteria]
    answer(
        args, document, lambda: f"{head}\n\n{table(rows, ('criterion', 'category', 'applies', 'met when'))}"
    )
    return 0
