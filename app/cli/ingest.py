"""`ares ingest`: read datasets into the workspace."""

from __future__ import annotations

import argparse
from typing import Any

from ares.console import count_of
from ares.episode import Json
from ares.jobs import ComputePlan, IngestReport, IngestRequest
from ares.workspace import ingest_datasets, plan_ingest
from ares_app.cli.arguments import (
    add_options_file,
    add_reading_arguments,
    add_workspace_arguments,
    episode_count,
    open_workspace,
    parse_user_path,
    positive_seconds,
)
from ares_app.cli.errors import ExitStatus
from ares_app.cli.output import answer, tallies


def add_ingest_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_ingest, describe_stop=describe_ingest_stop)
    from ares.registry import ingesters

    parser.add_argument(
        "source", type=parse_user_path, nargs="+", metavar="SOURCE", help="folder or file of a dataset"
    )
    parser.add_argument(
        "--format",
        default="auto",
        metavar="NAME",
        help=f"read it as this: auto (default: as its files say), {', '.join(ingesters.names())}",
    )
    parser.add_argument(
        "--media",
        choices=("reference", "copy", "none"),
        default="reference",
        help="leave pixels where they are: reference (default); make videos of them in the workspace: copy; store "
        "states alone, where missing pictures are no failure: none",
    )
    parser.add_argument("--limit", type=episode_count, metavar="N", help="read at most N episodes")
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
        help="read again where the content of a file has changed, also with the same size and time, and at URLs",
    )
    parser.add_argument(
        "--engine",
        default="local",
        metavar="E",
        help="read on this machine: local (default), or on the cluster of $RAY_ADDRESS: ray",
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
    add_options_file(parser, "the options of every dataset")


def _add_dataset_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the user knows of a dataset and the dataset does not store."""
    parser.add_argument(
        "--dataset", default="", metavar="NAME", help="store it under this name, not under the source's own"
    )
    parser.add_argument(
        "--cameras",
        default="",
        metavar="PATTERN",
        help="read episode and camera from names of video files: '{episode}_{camera}.mp4', '{camera}/{episode}.mp4'",
    )
    add_reading_arguments(parser)
    parser.add_argument(
        "--show-spec",
        action="store_true",
        help="only print the spec that would be used, to be saved and edited",
    )


def run_ingest(args: argparse.Namespace) -> int:
    """Ingest the sources. Returns 1 when something failed or was left unread, 2 when nothing is stored."""
    if args.show_spec:
        return _show_spec(args)
    if args.dry_run or args.write_options:
        return _dry_run(args)
    workspace, request = open_workspace(args, create=True), _requested_ingestion(args)
    report = ingest_datasets(lambda: workspace.stores, workspace.existing_stores, request, quiet=False)
    document = report.to_json()
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
        media=args.media,
        limit=args.limit,
        settle_seconds=args.settle,
        verify=args.verify,
        compute=ComputePlan(engine=args.engine),
    )


def _dry_run(args: argparse.Namespace) -> int:
    from ares_ingest.discovery import collect_options_by_path, write_options_file
    from ares_ingest.pipeline import format_ingest_plan

    workspace, request = open_workspace(args, create=True), _requested_ingestion(args)
    plan = plan_ingest(workspace.existing_stores, request)
    if args.write_options:
        write_options_file(args.write_options, plan, collect_options_by_path(plan, request))
    answer(args, plan.to_json(), lambda: tuple(format_ingest_plan(plan)))
    if plan.reads_nothing:
        return ExitStatus.REFUSED
    return ExitStatus.DONE if plan.is_complete else ExitStatus.ITEMS_FAILED


def _show_spec(args: argparse.Namespace) -> int:
    from ares_ingest.operation import show_specs

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
    from ares_ingest.pipeline import format_unread_files

    counts = ", ".join(f"{name} {document[name]}" for name in ("planned", "kept", "already", "failed"))
    known = f" ({report.accepted} known)" if report.accepted else ""
    lines = [f"{counts}{known}  ({document['seconds']} s)"]
    if document["duplicates"]:
        lines.append(
            f"duplicates: {count_of(report.duplicates, 'episode')} of this run repeat the content of another "
            f"({document['workspace_duplicates']} in the whole workspace)"
        )
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
