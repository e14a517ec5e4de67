"""`ares search`: find moments by text, image or episode, and segments by their texts."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

from ares.console import count_of, print_message
from ares.errors import RequestError
from ares.process_tuning import hide_pandas_from_pyarrow
from ares_app.cli.arguments import (
    add_min_score_argument,
    add_query_arguments,
    add_workspace_arguments,
    episode_count,
    open_workspace,
)
from ares_app.cli.episode_columns import COLUMNS_OPTION, SEGMENT_COLUMNS, SHOWN_UNDER, read_columns
from ares_app.cli.output import Columns, OutputTable, answer, make_table

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.search import Hit
    from ares.workspace import Workspace


def add_search_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_search)
    parser.add_argument("text", nargs="?", default="", metavar="TEXT", help="words that describe the moment")
    add_query_arguments(parser)
    parser.add_argument(
        "--where", default="", metavar="SQL", help="search only episodes that fulfil this filter"
    )
    parser.add_argument(
        "--segments",
        action="store_true",
        help="find spans by words of their texts; --where is then over the columns of segments",
    )
    parser.add_argument(
        "--limit",
        type=episode_count,
        default=20,
        metavar="N",
        help="show at most N episodes or segments (default: 20)",
    )
    add_min_score_argument(parser)
    parser.add_argument(
        "--copies",
        action="store_true",
        help="show all episodes of equal content (default: one of each content)",
    )
    parser.add_argument("--columns", **COLUMNS_OPTION)
    add_workspace_arguments(parser, rows=True)


def run_search(args: argparse.Namespace) -> int:
    """Print the matching moments, best first; without anything to rank by, the episodes of the filter, or all."""
    if args.segments:
        return _print_segments(args)
    hits = _list_filtered_episodes(args) if _has_only_filter(args) else _find_hits(args)
    columns = read_columns(args, [hit.episode_id for hit in hits])
    documents: list[dict[str, Json]] = [
        hit.to_json() | {name: values.get(hit.episode_id) for name, values in columns.items()} for hit in hits
    ]
    rows = documents
    if columns and args.output == "csv" and _has_only_filter(args):  # nothing ranks: what was named says all
        rows = [{name: row[name] for name in ("episode_id", *columns)} for row in documents]
    answer(args, documents, lambda: _hit_table(hits, columns) if hits else "nothing found", rows)
    _warn_of_weak_hits(hits)
    return 0


# Below this a search with words is about something else; the default cut begins at the same score.
_WEAK_SCORE = 0.3


def _warn_of_weak_hits(hits: Sequence[Hit]) -> None:
    """Say on standard error that what was searched for is not there."""
    scores = [hit.score for hit in hits if hit.score is not None]
    if not scores and any(hit.ranks for hit in hits):
        print_message("no scores: the model has no scale that says how far a text is like a picture")
    if scores and max(scores) < _WEAK_SCORE:
        print_message(
            f"probably not there: the best score is {max(scores):.2f} of 1; "
            "--min-score auto leaves out what is not relevant"
        )


def _print_segments(args: argparse.Namespace) -> int:
    """Print the matching segments, every one with the columns of all. Raises RequestError for ways to compare."""
    ways = [name for name in ("image", "like", "by", "min_score") if getattr(args, name)]
    if ways:
        option = f"--{ways[0].replace('_', '-')}"
        raise RequestError("segments are found by words and --where", f"leave out {option}, or --segments")
    segments = open_workspace(args).search_segments(args.text, where=args.where, limit=args.limit)
    columns = read_columns(args, [segment.episode_id for segment in segments])
    documents = [
        segment.to_json() | {name: values.get(segment.episode_id) for name, values in columns.items()}
        for segment in segments
    ]
    names = dict.fromkeys(name for document in documents for name in document)
    rows: list[dict[str, Json]] = [{name: document.get(name) for name in names} for document in documents]
    shown: Columns = {"episode": itemgetter("episode_id"), **SEGMENT_COLUMNS}
    further = {name: itemgetter(name) for name in columns if SHOWN_UNDER.get(name) not in shown}
    answer(args, rows, lambda: make_table({**shown, **further}, rows) if rows else "nothing found", rows)
    return 0


def _has_only_filter(args: argparse.Namespace) -> bool:
    ranked_by = (args.text, args.image, args.like, args.by, args.min_score)
    return not any(value not in ("", None) for value in ranked_by)


def _list_filtered_episodes(args: argparse.Namespace) -> Sequence[Hit]:
    from ares.search import list_episodes

    workspace = open_workspace(args)
    where = _filter_copies(args, workspace)
    hits = list_episodes(workspace.stores, where, args.limit)
    if args.output == "text" and len(hits) == args.limit:
        total = workspace.stores.tables.episodes.count(where)
        if total > len(hits):
            print_message(f"{len(hits)} of {count_of(total, 'episode')}; --limit N shows more")
    return hits


def _filter_copies(args: argparse.Namespace, workspace: Workspace) -> str:
    """The filter, with one episode of each content unless all are asked for; says so where it leaves any out."""
    if args.copies:
        return str(args.where)
    from ares.search import leave_out_copies

    where = leave_out_copies(workspace.stores, args.where)
    if where != args.where:
        print_message("one episode of each content; --copies shows all")
    return where


def _find_hits(args: argparse.Namespace) -> Sequence[Hit]:
    if args.is_program:
        hide_pandas_from_pyarrow()
    workspace = open_workspace(args)
    return workspace.search(
        args.text,
        image=args.image,
        like=args.like,
        by=args.by,
        where=_filter_copies(args, workspace),
        limit=args.limit,
        min_score=args.min_score,
        copies=True,
    )


def _hit_table(hits: Sequence[Hit], columns: Mapping[str, Mapping[str, Json]]) -> OutputTable:
    """A row for each hit, and the values of other columns; what no hit has is left out: nothing ranks a list."""
    from ares.workspace import SearchResults

    columns_of_hits: Columns = SearchResults.shown
    shown = {header: cell for header, cell in columns_of_hits.items() if any(map(cell, hits))}
    further = {
        name: partial(_value_of_episode, values)
        for name, values in columns.items()
        if SHOWN_UNDER.get(name) not in shown
    }
    return make_table({**shown, **further}, hits)


def _value_of_episode(values: Mapping[str, Json], hit: Hit) -> Json:
    return values.get(hit.episode_id)
