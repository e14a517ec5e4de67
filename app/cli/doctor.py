"""`ares doctor`: check the stores against each other, and mend them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from app.cli.common import add_common, answer, open_workspace

if TYPE_CHECKING:
    from ares.checks.finding import Finding


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--repair", action="store_true", help="mend what can be mended without a loss")
    parser.add_argument(
        "--relocate",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="source files under the folder or URL OLD are under NEW now; may be given several times",
    )
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Follow what has moved, then examine. Returns 1 while something is broken."""
    from ares.doctor import examine, follow
    from ares.sources import parse_move

    moves = [parse_move(text) for text in args.relocate]
    ws = open_workspace(args)
    found = (follow(ws, moves) if moves else []) + examine(ws, args.repair)
    lines = [_line(one) for one in found]
    answer(
        args,
        [one.to_json() for one in found],
        lambda: "\n".join(lines) or "all promises between the stores hold",
    )
    return 1 if any(not one.repaired for one in found) else 0


def _line(one: Finding) -> str:
    if one.repaired and not one.count:
        return f"{one.check}: {one.example}"
    told = f"{one.check}: {one.count} ({one.example})"
    return f"repaired: {told}" if one.repaired else f"BROKEN: {told}; {one.remedy}"
