"""`ares search`: find moments by text, image or episode."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.cli.common import (
    add_min_score_argument,
    add_query_arguments,
    add_workspace_arguments,
    episode_count,
    open_workspace,
)
from app.cli.curation.running_dashboard import search_running_dashboard
from app.cli.output import OutputTable, answer
from ares.process_tuning import without_pandas

if TYPE_CHECKING:
    from ares.search import Hit

_HEADER = ("episode", "score", "found by", "camera", "second", "dataset", "caption", "instruction")


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
    add_min_score_argument(parser)
    add_workspace_arguments(parser, rows=True)


def run(args: argparse.Namespace) -> int:
    """Print the matching moments, best first."""
    names = ("text", "image", "like", "by", "where", "limit", "min_score")
    query = {name: getattr(args, name) for name in names}
    hits: Sequence[Hit] | None = search_running_dashboard(args, query)
    if hits is None:
        if args.is_program:
            without_pandas()
        hits = open_workspace(args).search(**query)
    rows = [
        (
            hit.episode_id,
            f"{hit.relevance:.2f}",
            " ".join(f"{way}:{rank}" for way, rank in hit.ranks),
            hit.camera,
            f"{hit.seconds:.2f}",
            hit.dataset,
            hit.caption,
            hit.instruction,
        )
        for hit in hits
    ]
    documents = [hit.to_json() for hit in hits]
    answer(args, documents, lambda: OutputTable(rows, _HEADER) if rows else "nothing found", documents)
    return 0
