"""`ares doctor`: check the stores against each other, and repair them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from app.cli.common import add_workspace_arguments, open_workspace
from app.cli.output import answer

if TYPE_CHECKING:
    from ares.doctor import Finding


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--repair", action="store_true", help="repair what can be repaired without losing data"
    )
    parser.add_argument(
        "--relocate",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="source files under the folder or URL OLD are under NEW now; may be given several times",
    )
    add_workspace_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Relocate source files if requested, then run every check. Returns 1 while something is broken."""
    from ares.doctor import parse_move, relocate_sources, run_checks

    moves = [parse_move(text) for text in args.relocate]
    stores = open_workspace(args).stores
    findings = (relocate_sources(stores, moves) if moves else []) + run_checks(stores, args.repair)
    lines = [_line(finding) for finding in findings]
    answer(
        args,
        [finding.to_json() for finding in findings],
        lambda: "\n".join(lines) or "all promises between the stores hold",
    )
    return 1 if any(not finding.repaired for finding in findings) else 0


def _line(finding: Finding) -> str:
    if finding.repaired and not finding.count:
        return f"{finding.check}: {finding.example}"
    text = f"{finding.check}: {finding.count} ({finding.example})"
    return f"repaired: {text}" if finding.repaired else f"BROKEN: {text}; {finding.remedy}"
