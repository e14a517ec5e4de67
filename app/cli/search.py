"""`ares search`: find moments by text, image or episode."""

from __future__ import annotations

import argparse

from app.cli.common import add_common, add_question, answer, number_of_episodes, open_workspace, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("text", nargs="?", default="", metavar="TEXT", help="words that describe the moment")
    add_question(parser)
    parser.add_argument("--where", default="", metavar="SQL", help="only episodes that fulfil this filter")
    parser.add_argument(
        "--limit",
        type=number_of_episodes,
        default=20,
        metavar="N",
        help="most episodes in the answer (default 20)",
    )
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Search."""
    ws = open_workspace(args)
    hits = ws.search(
        args.text, image=args.image, like=args.like, by=args.by, where=args.where, limit=args.limit
    )
    head = ("episode", "dataset", "camera", "second", "score", "caption", "instruction")
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
    answer(args, [hit.to_json() for hit in hits], lambda: table(rows, head) if rows else "nothing found")
    return 0
