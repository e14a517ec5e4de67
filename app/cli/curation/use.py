"""`ares use`: choose the makers whose values fill the columns, or show all makers."""

from __future__ import annotations

import argparse
from typing import Any

from app.cli.common import add_workspace_arguments, open_workspace
from app.cli.makers_table import makers_table
from app.cli.output import answer
from ares.status import makers_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "choices",
        nargs="*",
        metavar="ANNOTATOR=MAKER",
        help="a maker's id or the start of it, or `newest`; without any, all makers are shown",
    )
    add_workspace_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Pin makers and print all. Raises RequestError for an unknown annotator or maker."""
    choices, workspace = _parse_choices(args.choices), open_workspace(args)
    if choices:
        workspace.use(**choices)
    makers: dict[str, Any] = makers_json(workspace.makers())
    answer(args, {"makers": makers}, lambda: makers_table(makers))
    return 0


def _parse_choices(texts: list[str]) -> dict[str, str]:
    """Maker by annotator. Raises RequestError for a text of another form, or two makers of an annotator."""
    from ares.errors import RequestError

    choices: dict[str, str] = {}
    for text in texts:
        annotator, equals, maker = text.partition("=")
        if not equals or annotator in choices:
            problem = "names an annotator again" if equals else "is not ANNOTATOR=MAKER"
            raise RequestError(f"{text!r} {problem}", "give for example caption=newest, once per annotator")
        choices[annotator] = maker
    return choices
