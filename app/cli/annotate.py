"""`ares annotate`: run annotators over the episodes that lack them, or say what that would cost."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from ares.console import write_stderr
from ares.episode import Json
from ares.jobs import AnnotateEstimate, AnnotateReport, AnnotateRequest, EpisodeSelection
from ares.rubric import describe_tripwire
from ares.workspace import AnnotateReports, EstimateList, estimate_run, run_annotators
from ares_app.cli.arguments import (
    add_options_file,
    add_workspace_arguments,
    episode_count,
    open_workspace,
    parse_torch_device,
    parse_usd_amount,
    parse_worker_count,
)
from ares_app.cli.errors import END_STATUSES, ExitStatus
from ares_app.cli.output import Block, answer, make_table, tallies

if TYPE_CHECKING:
    from ares.store import Stores


# Options of annotators that are flags, each with what it is for; all others stand in the file of --options.
_ANNOTATOR_FLAGS = {
    "per": ("UNIT", "caption and grade every episode (default), or every segment: give segment"),
    "layout": (
        "NAME",
        "show captioner and judge frames in this layout: auto (default), sheets or tiles",
    ),
    "camera": ("NAME", "look through this camera only (default: as each annotator chooses)"),
    "verbs": ("FILE", "let captions have the verbs of this YAML file, each with its meaning"),
    "examples": ("N", "show the model N near episodes with what people confirmed of them"),
    "samples": (
        "N",
        "make N captions of the same frames, keep the one whose slots agree most with the others",
    ),
    "rubric": ("NAME|FILE", "grade by this rubric, a shipped name or a YAML file (default: caption)"),
    "candidates": ("FILE", "grade by a clip judge, the demo's, between these phrases, one a line"),
    "fields": ("FILE", "ask the questions of this YAML file (default: those of the original ARES)"),
    "by": ("WAY", "segment by signals (default) or model; answer attributes by model (default) or clip"),
    "spans": ("TABLE", "take segments from this CSV, JSONL or Parquet file instead of making them"),
}


def add_annotate_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_annotate)
    from ares.registry import annotators

    parser.add_argument(
        "name", nargs="+", metavar="NAME", help=f"annotators, in order: {', '.join(annotators.names())}"
    )
    parser.add_argument(
        "--where", default="", metavar="SQL", help="work only on episodes that fulfil this filter"
    )
    parser.add_argument("--limit", type=episode_count, metavar="N", help="work on at most N episodes")
    parser.add_argument(
        "--model",
        default="",
        metavar="SPEC",
        help="ask this model, such as openai:MODEL@http://HOST:PORT/v1, when one annotator is named",
    )
    parser.add_argument(
        "--device",
        type=parse_torch_device,
        default="",
        metavar="D",
        help="compute on this torch device; all: spread a hf: model over every GPU (default: a GPU when there is one)",
    )
    parser.add_argument(
        "--workers",
        type=parse_worker_count,
        metavar="N",
        help="start at most N workers of each annotator that computes itself (default: one per GPU)",
    )
    parser.add_argument(
        "--engine",
        default="local",
        metavar="E",
        help="work on this machine: local (default), or on the cluster of $RAY_ADDRESS: ray",
    )
    parser.add_argument(
        "--budget", type=parse_usd_amount, metavar="USD", help="stop before this much money is spent"
    )
    parser.add_argument(
        "--retry-failed",
        action="store_true",
        help="work only on what has failed before, and was not done since",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done and cost")
    group = parser.add_argument_group("options of annotators", "others stand in the file of --options")
    for name, (metavar, text) in _ANNOTATOR_FLAGS.items():
        group.add_argument(f"--{name}", metavar=metavar, help=text)
    add_options_file(parser, "all options of the annotators")
    add_workspace_arguments(parser)


def run_annotate(args: argparse.Namespace) -> int:
    """Run the annotators. Returns 1 when a subject failed, or data of a file is lost.

    Raises:
        RequestError: --model is given for several annotators, or an option that none of them has.
    """
    if args.write_options:
        from ares_app.cli.option_models import write_annotator_options

        return write_annotator_options(args, args.name)
    workspace, request = open_workspace(args), _requested_run(args)
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
    from ares_app.cli.option_models import read_annotator_options

    run, in_file = read_annotator_options(args.options, args.name)
    flags = {name: value for name in _ANNOTATOR_FLAGS if (value := getattr(args, name)) is not None}
    # A flag decides over the file.
    others = {name: value for name, value in in_file.items() if name.partition(".")[2] not in flags}
    return AnnotateRequest(
        names=tuple(args.name),
        selection=EpisodeSelection(where=args.where, limit=args.limit),
        model=args.model,
        device=args.device,
        options=others | flags,
        budget_usd=args.budget,
        retry_failed=args.retry_failed,
        reason=run.reason,
        engine=args.engine,
        workers=args.workers,
        per_worker=run.per_worker,
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
