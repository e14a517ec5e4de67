"""`ares doctor`: check the stores against each other, and mend them."""

from __future__ import annotations

import argparse

from app.cli.common import add_common, answer, open_workspace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--repair", action="store_true", help="mend what can be mended without a loss")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Examine. Returns 1 while something is broken."""
    from ares.doctor import examine

    found = examine(open_workspace(args), args.repair)
    lines = [
        f"{'repaired' if one.repaired else 'BROKEN'}: {one.check}: {one.count} ({one.example})"
        + ("" if one.repaired else f"; {one.remedy}")
        for one in found
    ]
    answer(
        args,
        [one.to_json() for one in found],
        lambda: "\n".join(lines) or "all promises between the stores hold",
    )
    return 1 if any(not one.repaired for one in found) else 0
