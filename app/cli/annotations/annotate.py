"""`ares annotate`: run annotators over the episodes that lack them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from app.cli.annotations.option_flags import add_option_flags
from app.cli.common import add_workspace_arguments, episode_count, open_workspace
from app.cli.output import Block, OutputTable, answer, tallies
from ares.episode import Json

_QUOTE_KEYS = ("annotator", "planned", "already", "frames", "calls", "tokens_in", "tokens_out", "usd")
_REPORT_KEYS = (
    "annotator",
    "planned",
    "kept",
    "already",
    "failed",
    "calls",
    "tokens_in",
    "tokens_out",
    "usd",
    "seconds",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    from ares.registry import annotators

    parser.add_argument(
        "name", nargs="+", metavar="NAME", help=f"annotators, in order: {', '.join(annotators.names())}"
    )
    parser.add_argument("--where", default="", metavar="SQL", help="only episodes that fulfil this filter")
    parser.add_argument(
        "--model", default="", metavar="SPEC", help="model for the annotator, when one is named"
    )
    parser.add_argument(
        "--device", default="", metavar="D", help="torch device (default: a GPU when there is one)"
    )
    parser.add_argument("--limit", type=episode_count, metavar="N", help="work on at most N episodes")
    parser.add_argument("--budget", type=float, metavar="USD", help="stop before this much money is spent")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done and cost")
    parser.add_argument("--strict", action="store_true", help="stop at the first failure")
    parser.add_argument(
        "--engine",
        default="local",
        metavar="E",
        help="local (default), or ray: work on the cluster of $RAY_ADDRESS, or on this machine's own",
    )
    add_workspace_arguments(parser)
    add_option_flags(parser, dest="option_values")


def run(args: argparse.Namespace) -> int:
    """Run the annotators. Returns 1 when a subject failed.

    Raises:
        RequestError: --model is given for several annotators, or an option that none of them has.
    """
    from annotators.base import Options
    from annotators.runner import annotate, estimate_cost
    from ares.errors import RequestError
    from ares.jobs import open_engine

    if args.model and len({*args.name} - {"motion"}) > 1:
        raise RequestError(
            "--model goes with one annotator", f"got {' '.join(args.name)}; run them one at a time"
        )
    workspace = open_workspace(args)
    options = Options(
        settings=workspace.settings,
        model=args.model,
        device=args.device,
        values=args.option_values,
    )
    if args.dry_run:
        quotes = [
            estimate.to_json() for estimate in estimate_cost(workspace.stores, args.name, options, args.where)
        ]
        _answer(args, quotes, lambda: _table(quotes, _QUOTE_KEYS))
        return 0
    limits = {"where": args.where, "limit": args.limit, "budget_usd": args.budget, "strict": args.strict}
    with open_engine(args.engine) as engine:
        reports = annotate(workspace.stores, args.name, options, **limits, engine=engine)
    _answer(args, reports, lambda: _report_blocks(reports))
    return 1 if any(report["failed"] for report in reports) else 0


def _answer(
    args: argparse.Namespace,
    reports: list[dict[str, Json]],
    build_text: Callable[[], Block | Iterator[Block]],
) -> None:
    """Print the document of one annotator, or the list of those of several."""
    document: Json = reports[0] if len(reports) == 1 else [dict(report) for report in reports]
    answer(args, document, build_text)


def _report_blocks(reports: list[dict[str, Json]]) -> Iterator[Block]:
    yield _table(reports, _REPORT_KEYS)
    for report in reports:
        if report["failures"]:
            yield f"{report['annotator']} failed:{tallies(report, 'failures')}"


def _table(reports: list[dict[str, Json]], keys: tuple[str, ...]) -> OutputTable:
    rows = [["unknown" if report[key] is None else report[key] for key in keys] for report in reports]
    return OutputTable(rows, [key.replace("_", " ") for key in keys])
