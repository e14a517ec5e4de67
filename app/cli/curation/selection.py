"""Arguments that select the episodes of an action."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ares.curation import EpisodeSelection


def add_selection_arguments(parser: argparse.ArgumentParser) -> None:
    """Add EPISODE_ID, --where, --ids, --set and --dataset."""
    parser.add_argument("episode_ids", nargs="*", metavar="EPISODE_ID", help="ids of episodes")
    parser.add_argument("--where", default="", metavar="SQL", help="only episodes that fulfil this filter")
    parser.add_argument("--ids", default="", metavar="FILE", help="episode ids, one a line")
    parser.add_argument("--set", default="", metavar="NAME", help="the episodes of a set")
    parser.add_argument("--dataset", default="", metavar="NAME", help="only episodes of this dataset")


def parse_selection(args: argparse.Namespace) -> EpisodeSelection:
    """The selection that the arguments name. Raises RequestError for ids given in two ways, or an unreadable file."""
    from ares.curation import EpisodeSelection
    from ares.errors import RequestError
    from ares.workspace import IdFile

    if args.ids and args.episode_ids:
        raise RequestError("ids are given in a file or on the command line", f"not both: {args.ids!r}")
    return EpisodeSelection(
        where=args.where,
        ids=IdFile(Path(args.ids)) if args.ids else args.episode_ids,
        set=args.set,
        dataset=args.dataset,
        search=getattr(args, "search", ""),
        limit=getattr(args, "limit", None),
        min_score=getattr(args, "min_score", None),
    )
