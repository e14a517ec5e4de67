"""`ares search`: find moments by text, image or episode, or list the episodes that a filter selects."""

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
    """Print the matching moments, best first; without anything to rank by, the episodes of the filter."""
    hits = _filtered(args) if _has_only_filter(args) else _search(args)
    documents = [hit.to_json() for hit in hits]
    answer(args, documents, lambda: _table(hits) if hits else "nothing found", documents)
    return 0


def _has_only_filter(args: argparse.Namespace) -> bool:
    ranked_by = (args.text, args.image, args.like, args.by, args.min_score)
    return bool(args.where) and not any(ranked_by)


def _filtered(args: argparse.Namespace) -> Sequence[Hit]:
    from ares.search import list_episodes

    return list_episodes(open_workspace(args).stores, args.where, args.limit)


def _search(args: argparse.Namespace) -> Sequence[Hit]:
    names = ("text", "image", "like", "by", "where", "limit", "min_score")
    query = {name: getattr(args, name) for name in names}
    hits = search_running_dashboard(args, query)
    if hits is not None:
        return hits
    if args.is_program:
        without_pandas()
    return open_workspace(args).search(**query)


def _table(hits: Sequence[Hit]) -> OutputTable:
    """A row for each hit; with the grades of captions where there are any."""
    is_graded = any(hit.grade for hit in hits)
    rows = [
        (
            hit.episode_id,
            f"{hit.relevance:.2f}" if hit.ranks else "",
            " ".join(f"{way}:{rank}" for way, rank in hit.ranks),
            hit.camera,
            f"{hit.seconds:.2f}",
            hit.dataset,
            *([_grade(hit)] if is_graded else ()),
            hit.caption,
            hit.instruction,
        )
        for hit in hits
    ]
    header = (*_HEADER[:6], *(["grade"] if is_graded else ()), *_HEADER[6:])
    return OutputTable(rows, header)


def _grade(hit: Hit) -> str:
    """The grade of a caption with the word for its judge."""
    return ", ".join(word for word in (hit.grade, hit.grade_trust) if word)
