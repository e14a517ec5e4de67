"""`ares fix`: a copy of a dataset in which is corrected what the data alone decide."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ares.console import count_of, is_quiet
from ares.jobs import FixRequest, IngestRequest
from ares.workspace import fix_dataset
from ares_app.cli.arguments import add_reading_arguments, add_workspace_arguments, parse_user_path
from ares_app.cli.errors import ExitStatus
from ares_app.cli.output import Block, Columns, OutputTable, answer, list_unread_files, make_table, paragraphs

if TYPE_CHECKING:
    from ares.reports import FixReport


_CHANGE_HEADER = ("episode", "code", "signal", "dimension", "second", "steps", "old", "new")
_LEFT_HEADER = ("episode", "code", "signal", "dimension", "second", "left because")
_FIXED_COLUMNS: Columns = {
    "code": lambda fix: fix.code,
    "name": lambda fix: fix.name,
    "severity": lambda fix: fix.severity,
    "episodes before": lambda fix: fix.before,
    "corrected": lambda fix: fix.corrected,
    "left": lambda fix: fix.left,
    "in the copy": lambda fix: fix.after,
    "what is done": lambda fix: fix.done,
}


def add_fix_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_fix, describe_stop=describe_fix_stop)
    from ares.registry import exporters

    parser.add_argument(
        "source", type=parse_user_path, metavar="SOURCE", help="folder or file of one dataset"
    )
    parser.add_argument(
        "copy", type=parse_user_path, metavar="DEST", help="new folder for the corrected copy"
    )
    parser.add_argument(
        "--format",
        default="lerobot",
        metavar="NAME",
        help=f"write the copy in this format: {', '.join(exporters.names())} (default: lerobot)",
    )
    add_reading_arguments(parser)
    parser.add_argument("--dry-run", action="store_true", help="list the changes and write nothing")
    add_workspace_arguments(parser, default="not used")


def run_fix(args: argparse.Namespace) -> int:
    """Correct a dataset in a copy. Returns 1 where faults remain or episodes are missing, 2 when nothing was read."""
    request = FixRequest(
        datasets=IngestRequest(sources=(args.source,), rate_hz=args.rate, spec=args.spec),
        destination=args.copy,
        export_format=args.format,
        dry_run=args.dry_run,
    )
    report = fix_dataset(request, quiet=is_quiet())
    answer(args, report.to_json(), lambda: paragraphs(_fix_report_blocks(report)))
    if not report.before.num_episodes:
        return ExitStatus.REFUSED
    return ExitStatus.DONE if report.is_clean else ExitStatus.ITEMS_FAILED


def describe_fix_stop(args: argparse.Namespace) -> str:
    """What a correction that was stopped has written."""
    return f"{args.copy!r} was not written; run the same command again"


def _fix_report_blocks(report: FixReport) -> Iterator[Block]:
    changes = [
        (
            repair.key or repair.episode_id,
            change.code,
            change.signal,
            change.dimension,
            change.seconds,
            change.num_steps,
            "not finite" if change.old is None else f"{change.old:.6g}",
            f"{change.new:.6g}",
        )
        for repair, change in report.changes
    ]
    if changes:
        yield OutputTable(changes, _CHANGE_HEADER)
    left = [
        (repair.key or repair.episode_id, part.code, part.signal, part.dimension, part.seconds, part.left)
        for repair in report.repairs
        for part in repair.corrections
        if part.left
    ]
    if left:
        yield OutputTable(left, _LEFT_HEADER)
    if report.codes:
        yield make_table(_FIXED_COLUMNS, report.codes)
    yield from _export_lines(report)
    for dataset in report.before.datasets:
        if dataset.num_failed:
            records = count_of(dataset.num_failed, "record")
            yield f"not in the copy: {records} that cannot be read: {dataset.first_failure}"
    if report.before.unread:
        yield list_unread_files(report.before.unread)
    yield _fix_conclusion(report, len(changes))


def _export_lines(report: FixReport) -> Iterator[Block]:
    """What the copy lacks or has otherwise, beside the corrections."""
    from ares_app.cli.export import describe_losses

    if report.export is None:
        return
    packets = (
        f"{count_of(report.export.copied_packets, 'frame')} copied, {report.export.encoded_frames} encoded"
    )
    yield (*describe_losses(report.export), packets)


def _fix_conclusion(report: FixReport, num_changes: int) -> str:
    episodes = sum(bool(repair.changes) for repair in report.repairs)
    counted = f"{count_of(num_changes, 'change')} in {episodes} of {count_of(report.before.num_episodes, 'episode')}"
    if report.export is None:
        return f"{counted}; nothing was written"
    written = f"{report.destination} has {count_of(report.export.episodes, 'episode')}"
    if report.after is None:
        return f"{counted}; {written}; it cannot be checked: {report.not_checked}"
    if report.new_codes:
        return f"{counted}; {written}; more episodes than before have {', '.join(report.new_codes)}"
    return f"{counted}; {written}; its check names nothing new"
