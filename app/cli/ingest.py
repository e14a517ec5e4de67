"""`ares ingest`: read datasets into the workspace."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from app.cli.arguments import (
    add_source_arguments,
    add_trust_argument,
    add_workspace_arguments,
    describe_uncounted,
    episode_count,
    open_workspace,
    parse_user_path,
    positive_seconds,
    rate_hz,
)
from app.cli.errors import ExitStatus
from app.cli.output import answer, tallies
from ares.console import count_of
from ares.episode import Json, describe_seconds
from ares.errors import RequestError
from ares.jobs import ComputePlan, IngestPlan, IngestReport, IngestRequest
from ares.workspace import ingest_datasets, plan_ingest


def add_ingest_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_ingest, describe_stop=describe_ingest_stop)
    from ares.registry import ingesters

    parser.add_argument(
        "source", type=parse_user_path, nargs="+", metavar="SOURCE", help="folder or file of a dataset"
    )
    parser.add_argument(
        "--format", default="auto", metavar="NAME", help=f"auto (default), {', '.join(ingesters.names())}"
    )
    parser.add_argument(
        "--media",
        choices=("reference", "copy", "none"),
        default="reference",
        help="reference (default): pixels stay where they are; copy: they become videos in the workspace; "
        "none: states alone are stored, and pictures that are missing are no failure",
    )
    parser.add_argument("--limit", type=episode_count, metavar="N", help="read at most N episodes")
    parser.add_argument(
        "--labels",
        type=parse_user_path,
        default="",
        metavar="FILE",
        help="give the labels that `ares set lock` wrote to the episodes with the same content: rulings, grades, tags",
    )
    add_trust_argument(parser)
    parser.add_argument("--strict", action="store_true", help="stop at the first episode that fails")
    parser.add_argument(
        "--settle",
        type=positive_seconds,
        default=0.0,
        metavar="SECONDS",
        help="leave records for the next run of which a file was written within so many seconds",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="compare files of stored episodes by content: by default those are read again whose size or time changed",
    )
    parser.add_argument(
        "--engine",
        default="local",
        metavar="E",
        help="local (default), or ray: read on the cluster of $RAY_ADDRESS, or on this machine's own",
    )
    _add_plan_arguments(parser)
    _add_dataset_arguments(parser)
    add_workspace_arguments(parser)


def _add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what is printed or read of the options of every dataset."""
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="only print what would be read: datasets and the use of every file",
    )
    parser.add_argument(
        "--write-options",
        default="",
        metavar="FILE",
        help="with --dry-run: write the options of every dataset to a YAML file, to be edited",
    )
    parser.add_argument(
        "--options",
        type=parse_user_path,
        default="",
        metavar="FILE",
        help="read the options of each dataset from such a file",
    )


def _add_dataset_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the user knows of a dataset and the dataset does not store."""
    add_source_arguments(parser)
    parser.add_argument(
        "--dataset", default="", metavar="NAME", help="name to store instead of the source's own"
    )
    parser.add_argument(
        "--rate", type=rate_hz, metavar="HZ", help="recording rate, where the source does not store it"
    )
    parser.add_argument(
        "--cameras",
        default="",
        metavar="PATTERN",
        help="how names of video files tell episode and camera: '{episode}_{camera}.mp4', '{camera}/{episode}.mp4'",
    )
    parser.add_argument(
        "--spec",
        type=parse_user_path,
        default="",
        metavar="FILE",
        help="what the dataset does not say of itself, as --show-spec prints",
    )
    parser.add_argument(
        "--show-spec",
        action="store_true",
        help="only print the spec that would be used, to be saved and edited",
    )


def run_ingest(args: argparse.Namespace) -> int:
    """Ingest the sources. Returns 1 when something failed or was left unread, 2 when nothing is stored."""
    if args.show_spec:
        return _show_spec(args)
    if args.dry_run:
        return _dry_run(args)
    if args.write_options:
        raise RequestError("--write-options needs --dry-run", "the file is to be edited before the ingestion")
    if args.trust_answers_of and not args.labels:
        raise RequestError("--trust-answers-of needs --labels", "it speaks of answers in that file")
    workspace, request = open_workspace(args, create=True), _requested_ingestion(args)
    with ExitStack() as stack:
        labels = None
        if args.labels:
            from ares.workspace import carry_labels, stage_labels

            staged = stage_labels(workspace.stores, Path(args.labels), trust_answers_of=args.trust_answers_of)
            labels = stack.enter_context(staged)
        report = ingest_datasets(lambda: workspace.stores, workspace.existing_stores, request, quiet=False)
        document = report.to_json()
        if labels:
            document["labels"] = carry_labels(workspace.stores, labels, args.trust_answers_of).to_json()
    answer(args, document, lambda: _ingest_summary(report, document, args.media == "copy"))
    if report.failed and report.failed == report.planned:
        return ExitStatus.REFUSED
    is_done = report.plan.is_complete and not report.has_new_failures and not report.incomplete
    is_done = is_done and not report.gone
    return ExitStatus.DONE if is_done else ExitStatus.ITEMS_FAILED


def _requested_ingestion(args: argparse.Namespace) -> IngestRequest:
    return IngestRequest(
        sources=tuple(args.source),
        format=args.format,
        dataset=args.dataset,
        rate_hz=args.rate,
        cameras=args.cameras,
        spec=args.spec,
        options=args.options,
        follow_links=args.follow_links,
        media=args.media,
        limit=args.limit,
        strict=args.strict,
        settle_seconds=args.settle,
        verify=args.verify,
        compute=ComputePlan(engine=args.engine),
    )


def _dry_run(args: argparse.Namespace) -> int:
    from ingest.discovery import collect_options_by_path, write_options_file
    from ingest.pipeline import format_ingest_plan

    workspace, request = open_workspace(args, create=True), _requested_ingestion(args)
    plan = plan_ingest(workspace.existing_stores, request)
    if args.write_options:
        write_options_file(args.write_options, plan, collect_options_by_path(plan, request))
    answer(args, plan.to_json(), lambda: (*format_ingest_plan(plan), _time_line(plan)))
    if plan.reads_nothing:
        return ExitStatus.REFUSED
    return ExitStatus.DONE if plan.is_complete else ExitStatus.ITEMS_FAILED


def _time_line(plan: IngestPlan) -> str:
    if plan.seconds is None:
        return "time unknown: no earlier ingestion of such a dataset to measure by"
    timed = sum({dataset.format: dataset.timed for dataset in plan.datasets}.values())
    return f"{describe_seconds(plan.seconds)} where none is stored yet, by {count_of(timed, 'episode')} of earlier jobs"


def _show_spec(args: argparse.Namespace) -> int:
    from ingest.operation import show_specs

    spec = show_specs(_requested_ingestion(args))
    answer(args, {"spec": spec}, lambda: tuple(spec.rstrip().split("\n")))
    return 0


def describe_ingest_stop(args: argparse.Namespace) -> str:
    """What an ingestion that was stopped has stored."""
    handle = getattr(args, "workspace_handle", None)
    if handle is None or not handle.is_open:
        return "nothing was stored"
    count = handle.stores.tables.episodes.count()
    return f"the workspace has {count_of(count, 'episode')}; run the same command again to read the rest"


def _ingest_summary(report: IngestReport, document: dict[str, Any], with_copies: bool) -> tuple[str, ...]:
    from ingest.pipeline import format_unread_files

    counts = ", ".join(f"{name} {document[name]}" for name in ("planned", "kept", "already", "failed"))
    known = f" ({report.accepted} known)" if report.accepted else ""
    lines = [f"{counts}{known}  ({document['seconds']} s)"]
    if document["duplicates"]:
        lines.append(
            f"duplicates: {count_of(report.duplicates, 'episode')} of this run repeat the content of another "
            f"({document['workspace_duplicates']} in the whole workspace)"
        )
    if isinstance(labels := document.get("labels"), dict):
        shown = [f"{name} {count}" for name, count in labels.items() if name != "uncounted"]
        lines.append(f"labels: {', '.join(shown)}")
        lines += describe_uncounted(labels["uncounted"])
    if with_copies:
        lines.append(_copied_line(document))
    if document["failures"]:
        lines += ["failed:", *tallies(document, "failures")]
    if report.incomplete:
        lines.append(
            f"incomplete: {count_of(report.incomplete, 'episode')}; the next run looks at them again, "
            "`ares failures list --annotator incomplete` says what is missing"
        )
    if document["warnings"]:
        lines += ["suspicious:", *tallies(document, "warnings")]
    if report.plan.num_unread:
        lines.append(f"not read: {count_of(report.plan.num_unread, 'file')} of data")
        lines += format_unread_files(report.plan)
    return tuple(lines)


def _copied_line(document: dict[str, Json]) -> str:
    byte_count, already = document["copied_bytes"], document["already"]
    assert isinstance(byte_count, int)
    unchanged = f"; the {already} that were already there stay as they are" if already else ""
    return f"copied: {byte_count / 1e6:.1f} MB of video into the workspace{unchanged}"
