"""`ares rubric`: show and check rubrics."""

from __future__ import annotations

import argparse
from typing import Any

from app.cli.common import add_workspace_arguments
from app.cli.output import OutputTable, answer, paragraphs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    show = actions.add_parser("show", help="the criteria of a rubric")
    check = actions.add_parser("check", help="read a rubric and print the hash that its grades will carry")
    for action in (show, check):
        action.add_argument(
            "rubric", nargs="?", default="caption", metavar="RUBRIC", help="a shipped name or a YAML file"
        )
        add_workspace_arguments(action)


def run(args: argparse.Namespace) -> int:
    """Show or check a rubric. Raises RequestError naming the first field that is wrong."""
    from annotators.grade import load_rubric

    rubric = load_rubric(args.rubric)
    document: dict[str, Any] = {**rubric.model_dump(mode="json"), "hash": rubric.hash}
    headline = f"{rubric.id} {rubric.version}  {rubric.hash}"
    if args.action == "check":
        summary = {key: document[key] for key in ("id", "version", "hash")}
        answer(args, {**summary, "criteria": len(rubric.criteria)}, lambda: headline)
        return 0
    rows = [
        (criterion.id, criterion.category, criterion.applies_when, criterion.text)
        for criterion in rubric.criteria
    ]
    table = OutputTable(rows, ("criterion", "category", "applies", "met when"))
    answer(args, document, lambda: paragraphs([headline, table]))
    return 0
