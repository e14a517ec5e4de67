"""`ares search`: find moments by text, image or episode."""

from __future__ import annotations

import argparse

from app.cli.common import add_query_arguments, add_workspace_arguments, episode_count, open_workspace
from app.cli.output import OutputTable, answer

_HEADER = ("episode", "dataset", "camera", "second", "score", "caption", "instruction")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("text", nargs="?", default="", metavar="TEXT", help="words that describe the moment")
    add_query_arguments(parser)
    parser.add_argument("--where", default="", metavar="SQL", help="only episodes that fulfil this filter")
    parser.add_argument(
        "--limit",
        type=episode_count,
        default=20,
        metavar="N",
        help="most episodes in the answer (default 20)",
    )
    add_workspace_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the matching moments, best first."""
    workspace = open_workspace(args)
    hits = workspace.search(
        args.text, image=args.image, like=args.like, by=args.by, where=args.where, limit=args.limit
    )
    rows = [
        (
            hit.episode_id,
            hit.dataset,
            hit.camera,
            f"{hit.seconds:.2f}",
            f"{hit.score:.4f}",
            hit.caption,
            hit.instruction,
        )
        for hit in hits
    ]
    answer(
        args, [hit.to_json() for hit in hits], lambda: OutputTable(rows, _HEADER) if rows else "nothing found"
    )
    return 0
