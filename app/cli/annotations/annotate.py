"""`ares annotate`: run annotators over the episodes that lack them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, cast

from app.cli.annotations.option_flags import add_option_flags
from app.cli.annotations.success_labels import (
    add_label_arguments,
    check_label_arguments,
    evaluate,
    evaluation_blocks,
    labelled_filter,
)
from app.cli.common import (
    add_workspace_arguments,
    episode_count,
    open_workspace,
    torch_device,
    usd_amount,
    worker_count,
    worker_resources,
)
from app.cli.output import Block, OutputTable, answer, tallies
from ares.episode import Json
from ares.rubric import describe_trust

if TYPE_CHECKING:
    from annotators.success import Labels
    from ares.workspace import Workspace

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
        "--device",
        type=torch_device,
        default="",
        metavar="D",
        help="torch device, or all: spread a hf: model over every GPU (default: a GPU when there is one)",
    )
    parser.add_argument("--limit", type=episode_count, metavar="N", help="work on at most N episodes")
    parser.add_argument(
        "--budget", type=usd_amount, metavar="USD", help="stop before this much money is spent"
    )
    _add_retry_arguments(parser)
    add_label_arguments(parser)
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
        type=worker_count,
        metavar="N",
        help="at most N workers of each annotator that computes itself (default: one per GPU)",
    )
    parser.add_argument(
        "--per-worker",
        type=worker_resources,
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


def run(args: argparse.Namespace) -> int:
    """Run the annotators. Returns 1 when a subject failed.

    Raises:
        RequestError: --model is given for several annotators, or an option that none of them has.
    """
    check_label_arguments(args)
    workspace = open_workspace(args)
    labels = _read_labels(args, workspace)
    where = args.where if labels is None else labelled_filter(labels, args.where)
    if args.dry_run:
        _answer_quotes(args, workspace, where)
        return 0
    reports = workspace.annotate(
        *args.name,
        where=where,
        model=args.model,
        device=args.device,
        options=args.option_values,
        limit=args.limit,
        budget_usd=args.budget,
        strict=args.strict,
        retry_failed=args.retry_failed,
        reason=args.reason,
        engine=args.engine,
        workers=args.workers,
        per_worker=args.per_worker,
    )
    documents = [report.to_json() for report in reports]
    if labels is None:
        _answer(args, documents, lambda: _report_blocks(documents))
    else:
        evaluation = evaluate(args, workspace, labels, reports[0].maker)
        document = {**documents[0], "evaluation": evaluation.to_json()}
        _answer(args, [document], lambda: chain(_report_blocks(documents), evaluation_blocks(evaluation)))
    return 1 if any(report.failed for report in reports) else 0


def _answer_quotes(args: argparse.Namespace, workspace: Workspace, where: str) -> None:
    """Print what a run would do and cost."""
    estimates = workspace.estimate(
        *args.name,
        where=where,
        model=args.model,
        device=args.device,
        options=args.option_values,
        retry_failed=args.retry_failed,
        reason=args.reason,
    )
    quotes = [estimate.to_json() for estimate in estimates]
    _answer(args, quotes, lambda: _estimate_blocks(quotes))


def _read_labels(args: argparse.Namespace, workspace: Workspace) -> Labels | None:
    if not args.evaluate:
        return None
    from annotators.success import read_labels

    return read_labels(args.evaluate, workspace.stores)


def describe_stop(args: argparse.Namespace) -> str:
    """What a run that was stopped has stored."""
    return "annotations that were stored stay; run the same command again to do the rest"


def _answer(
    args: argparse.Namespace,
    reports: list[dict[str, Json]],
    build_text: Callable[[], Block | Iterator[Block]],
) -> None:
    """Print the document of one annotator, or the list of those of several."""
    document: Json = reports[0] if len(reports) == 1 else [dict(report) for report in reports]
    answer(args, document, build_text)


def _estimate_blocks(quotes: list[dict[str, Json]]) -> Iterator[Block]:
    yield _table(quotes, _QUOTE_KEYS)
    for quote in quotes:
        if quote["measured"]:
            yield f"{quote['annotator']}: scaled up from what {quote['measured']} have cost in this workspace"
    unknown = [str(quote["annotator"]) for quote in quotes if quote["already"] is None]
    if unknown:
        yield (
            f"already: unknown until loaded, for {', '.join(unknown)}: the model was not loaded before from these "
            "files; the numbers are for all subjects"
        )


def _report_blocks(reports: list[dict[str, Json]]) -> Iterator[Block]:
    yield _table(reports, _REPORT_KEYS)
    for report in reports:
        if report["failures"]:
            yield f"{report['annotator']} failed:{tallies(report, 'failures')}"
        if report["warnings"]:
            yield f"{report['annotator']} warnings:{tallies(report, 'warnings')}"
        trust = cast("Mapping[str, Mapping[str, Json]]", report["judge_trust"])
        if trust:
            lines = [f"\n  {dataset}: {describe_trust(document)}" for dataset, document in trust.items()]
            yield f"{report['annotator']}, the judge by its controls:{''.join(lines)}"


def _table(reports: list[dict[str, Json]], keys: tuple[str, ...]) -> OutputTable:
    rows = [["unknown" if report[key] is None else report[key] for key in keys] for report in reports]
    return OutputTable(rows, [key.replace("_", " ") for key in keys])
