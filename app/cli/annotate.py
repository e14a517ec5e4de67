"""`ares annotate`: run annotators over the episodes that lack them, or say what that would cost."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from app.cli.arguments import (
    add_workspace_arguments,
    episode_count,
    open_workspace,
    parse_torch_device,
    parse_usd_amount,
    parse_worker_count,
    parse_worker_resources,
)
from app.cli.errors import END_STATUSES, ExitStatus
from app.cli.option_flags import add_option_flags
from app.cli.output import Block, answer, make_table, tallies
from ares.console import count_of, write_stderr
from ares.episode import Json, describe_seconds
from ares.jobs import AnnotateEstimate, AnnotateReport, AnnotateRequest, EpisodeSelection
from ares.rubric import describe_tripwire
from ares.workspace import AnnotateReports, EstimateList, estimate_run, run_annotators

if TYPE_CHECKING:
    from ares.store import Stores


def add_annotate_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_annotate)
    from ares.registry import annotators

    parser.add_argument(
        "name", nargs="+", metavar="NAME", help=f"annotators, in order: {', '.join(annotators.names())}"
    )
    parser.add_argument("--where", default="", metavar="SQL", help="only episodes that fulfil this filter")
    parser.add_argument(
        "--model", default="", metavar="SPEC", help="model for the annotator, when one is named"
    )
    parser.add_argument(
        "--device",
        type=parse_torch_device,
        default="",
        metavar="D",
        help="torch device, or all: spread a hf: model over every GPU (default: a GPU when there is one)",
    )
    parser.add_argument("--limit", type=episode_count, metavar="N", help="work on at most N episodes")
    parser.add_argument(
        "--budget", type=parse_usd_amount, metavar="USD", help="stop before this much money is spent"
    )
    _add_retry_arguments(parser)
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done and cost")
    parser.add_argument("--strict", action="store_true", help="stop at the first failure")
    parser.add_argument(
        "--engine",
        default="local",
        metavar="E",
        help="local (default), or ray: work on the cluster of $RAY_ADDRESS, or on this machine's own",
    )
    _add_worker_arguments(parser)
    add_workspace_arguments(parser)
    add_option_flags(parser, dest="option_values")


def _add_worker_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workers",
        type=parse_worker_count,
        metavar="N",
        help="at most N workers of each annotator that computes itself (default: one per GPU)",
    )
    parser.add_argument(
        "--per-worker",
        type=parse_worker_resources,
        default={},
        metavar="NAME=NUMBER,...",
        help="what one worker takes, such as cpus=2,memory_gb=8,gpus=0.5 (default: as each annotator states)",
    )


def _add_retry_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--retry-failed",
        action="store_true",
        help="work only on what has failed before, and was not done since",
    )
    parser.add_argument(
        "--reason",
        default="",
        metavar="TEXT",
        help="with --retry-failed: only failures whose reason has this text",
    )


def run_annotate(args: argparse.Namespace) -> int:
    """Run the annotators. Returns 1 when a subject failed, or data of a file is lost.

    Raises:
        RequestError: --model is given for several annotators, or an option that none of them has.
    """
    workspace = open_workspace(args)
    request = _requested_run(args)
    if args.dry_run:
        _answer_quotes(args, workspace.stores, request)
        return 0
    reports = run_annotators(workspace.stores, request)
    documents = [report.to_json() for report in reports]
    _answer_reports(args, documents, lambda: _report_blocks(reports, documents))
    return _exit_status(reports)


def _exit_status(reports: Sequence[AnnotateReport]) -> int:
    """The status of a run; a line on standard error for each annotator whose work was ended."""
    for report in reports:
        if report.ended_by:
            rest = f"; {report.open} are open: the same command goes on" if report.open else ""
            write_stderr(f"ares annotate: {report.annotator}: {report.end_reason}{rest}")
    ends = {report.ended_by for report in reports}
    for end, status in END_STATUSES.items():
        if end in ends:
            return status
    is_done = not any(report.has_new_failures or report.ended_by or report.lost for report in reports)
    return ExitStatus.DONE if is_done else ExitStatus.ITEMS_FAILED


def _requested_run(args: argparse.Namespace) -> AnnotateRequest:
    return AnnotateRequest(
        names=tuple(args.name),
        selection=EpisodeSelection(where=args.where, limit=args.limit),
        model=args.model,
        device=args.device,
        options=args.option_values,
        budget_usd=args.budget,
        strict=args.strict,
        retry_failed=args.retry_failed,
        reason=args.reason,
        engine=args.engine,
        workers=args.workers,
        per_worker=args.per_worker,
    )


def _answer_quotes(args: argparse.Namespace, stores: Stores, request: AnnotateRequest) -> None:
    """Print what a run would do and cost."""
    estimates = estimate_run(stores, request)
    quotes = [estimate.to_json() for estimate in estimates]
    _answer_reports(args, quotes, lambda: _estimate_blocks(estimates, quotes))


def _answer_reports(
    args: argparse.Namespace,
    reports: list[dict[str, Json]],
    build_text: Callable[[], Block | Iterator[Block]],
) -> None:
    """Print the document of one annotator, or the list of those of several."""
    document: Json = reports[0] if len(reports) == 1 else [dict(report) for report in reports]
    answer(args, document, build_text)


def _estimate_blocks(estimates: Sequence[AnnotateEstimate], quotes: list[dict[str, Json]]) -> Iterator[Block]:
    yield make_table(EstimateList.shown, estimates)
    for quote in quotes:
        if quote["measured"]:
            yield f"{quote['annotator']}: scaled up from what {quote['measured']} have cost in this workspace"
        if quote["planned"] == quote["already"]:
            pass  # nothing is left that takes time
        elif (seconds := quote["seconds"]) is None:
            yield f"{quote['annotator']}: time unknown: no earlier job to measure by"
        else:
            assert isinstance(seconds, float) and isinstance(quote["timed"], int)
            timed = count_of(quote["timed"], "item")
            yield f"{quote['annotator']}: {describe_seconds(seconds)}, by {timed} of earlier jobs"
        if quote["again"]:
            yield f"{quote['annotator']}: {quote['again']} of them have a value of another producer, made again here"
    unknown = [str(quote["annotator"]) for quote in quotes if quote["already"] is None]
    if unknown:
        yield (
            f"already: unknown until loaded, for {', '.join(unknown)}: the model was not loaded before from these "
            "files; the numbers are for all subjects"
        )


def _report_blocks(reports: Sequence[AnnotateReport], documents: list[dict[str, Json]]) -> Iterator[Block]:
    yield make_table(AnnotateReports.shown, reports)
    for report in documents:
        if report["failures"]:
            yield (f"{report['annotator']} failed:", *tallies(report, "failures"))
        if report.get("lost"):
            yield (f"{report['annotator']} lost:", *tallies(report, "lost"))
        if report["warnings"]:
            yield (f"{report['annotator']} warnings:", *tallies(report, "warnings"))
        tripwires = cast("Mapping[str, Mapping[str, Json]]", report["judge_tripwire"])
        if tripwires:
            lines = [f"  {dataset}: {describe_tripwire(document)}" for dataset, document in tripwires.items()]
            yield (f"{report['annotator']}, the judge by its controls:", *lines)
