"""`ares check --fix`: a copy of a dataset in which is corrected what the data alone decide."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from app.cli.errors import ExitStatus
from app.cli.output import Block, Columns, OutputTable, answer, list_unread_files, make_table, paragraphs
from ares.console import count_of, is_quiet
from ares.errors import RequestError
from ares.jobs import FixRequest, IngestRequest
from ares.workspace import fix_dataset

if TYPE_CHECKING:
    from ares.reports import FixReport


# Options that say what a check reports; a correction reports what it changed.
OPTIONS_OF_CHECK = ("limit", "video", "baseline", "write_baseline")
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
    """Add the options of a corrected copy."""
    from ares.registry import exporters

    parser.add_argument(
        "--fix",
        default="",
        metavar="DEST",
        help="write a copy to this new folder, in which is corrected what the data alone decide, and check it",
    )
    parser.add_argument(
        "--fix-format",
        default="lerobot",
        metavar="NAME",
        help=f"with --fix, format of the copy: {', '.join(exporters.names())} (lerobot)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="with --fix, list the changes and write nothing"
    )


def run_fix(args: argparse.Namespace, datasets: IngestRequest) -> int:
    """Correct a dataset in a copy. Returns 1 where faults remain or episodes are missing, 2 when nothing was read."""
    _check_options(args)
    request = FixRequest(
        datasets=datasets,
        destination=args.fix,
        export_format=args.fix_format,
        dry_run=args.dry_run,
    )
    report = fix_dataset(request, quiet=is_quiet())
    answer(args, report.to_json(), lambda: paragraphs(_fix_report_blocks(report)))
    if not report.before.num_episodes:
        return ExitStatus.REFUSED
    return ExitStatus.DONE if report.is_clean else ExitStatus.ITEMS_FAILED


def _check_options(args: argparse.Namespace) -> None:
    if len(args.source) != 1:
        raise RequestError("one dataset at a time is corrected", f"got {', '.join(args.source) or 'none'}")
    options = [name for name in OPTIONS_OF_CHECK if getattr(args, name)]
    if options:
        flag = options[0].replace("_", "-")
        raise RequestError(f"--{flag} does not go with --fix", f"check the copy with --{flag} afterwards")


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
    from app.cli.export import describe_losses

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
