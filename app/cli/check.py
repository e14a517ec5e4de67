"""`ares check`: findings and contract of datasets where they lie."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from app.cli.arguments import (
    add_source_arguments,
    add_workspace_arguments,
    episode_count,
    rate_hz,
)
from app.cli.check_fix import OPTIONS_OF_CHECK, add_fix_arguments, run_fix
from app.cli.errors import ExitStatus
from app.cli.output import Block, Columns, answer, list_unread_files, make_table, paragraphs
from app.cli.workspace_checks import audit_instructions, find_duplicates, name_workspace_sources
from ares.console import count_are, count_of
from ares.errors import RequestError
from ares.jobs import CheckRequest, IngestRequest
from ares.workspace import check_datasets

if TYPE_CHECKING:
    from ares.contract import SignalContract
    from ares.reports import (
        CheckReport,
        DatasetCheck,
        FindingCodeCount,
        VideoTotals,
    )


# Options that speak of files, and not of a workspace.
_FILE_OPTIONS = (*OPTIONS_OF_CHECK, "fix", "dry_run")
# Combinations of dimensions and names that are listed; the JSON has all.
_LISTED_CONTRACTS, _REVERSED_NAMES_LISTED = 8, 3


def _convention_text(signal: SignalContract) -> object:
    return signal.estimate(signal.kind) if signal.kind in ("rotation", "gripper") else ""


def _role_text(signal: SignalContract) -> object:
    role = signal.estimate("role")
    return "" if role.value == "unknown" else role


def _reversed_names(signal: SignalContract) -> str:
    """Dimensions that move against their command."""
    names = [name for name, sign in zip(signal.dimensions, signal.signs, strict=False) if sign < 0]
    return ", ".join(names[:_REVERSED_NAMES_LISTED])


_CONTRACT_COLUMNS: Columns = {
    "signal": lambda signal: signal.name,
    "dimensions": lambda signal: len(signal.dimensions),
    "mode": lambda signal: signal.estimates.get("mode", ""),
    "unit": lambda signal: signal.estimates.get("unit", ""),
    "convention": _convention_text,
    "range": lambda signal: f"{signal.low:.4g} to {signal.high:.4g}",
    "role": _role_text,
    "against its command": _reversed_names,
}
# Dimensions of a code that are named; the JSON has all.
_DIMENSIONS_PER_CODE = 3


def add_check_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_check, describe_stop=describe_check_stop)
    from ares.registry import ingesters

    parser.add_argument(
        "source",
        nargs="*",
        metavar="SOURCE",
        help="folder or file of a dataset (default: those of the workspace)",
    )
    parser.add_argument(
        "--format", default="auto", metavar="NAME", help=f"auto (default), {', '.join(ingesters.names())}"
    )
    parser.add_argument(
        "--rate", type=rate_hz, metavar="HZ", help="recording rate, where the source does not store it"
    )
    spec_help = "what the dataset does not say of itself, as for `ares ingest`"
    parser.add_argument("--spec", default="", metavar="FILE", help=spec_help)
    add_source_arguments(parser)
    parser.add_argument("--limit", type=episode_count, metavar="N", help="check at most N episodes")
    _add_output_arguments(parser)
    parser.add_argument(
        "--video", action="store_true", help="decode the videos too, each file once, and check them"
    )
    add_fix_arguments(parser)
    _add_workspace_checks(parser)


def _add_workspace_checks(parser: argparse.ArgumentParser) -> None:
    """Add what is searched for in a workspace, and not in files."""
    parser.add_argument(
        "--instructions",
        action="store_true",
        help="name episodes of the workspace that another instruction of their dataset fits better; a SOURCE is the "
        "name of a dataset then (default: all)",
    )
    parser.add_argument(
        "--duplicates",
        action="store_true",
        help="keep the near duplicates of the workspace as columns; a SOURCE is the name of a dataset then",
    )
    add_workspace_arguments(parser, default="not used where a SOURCE is to be read")


def _add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what is written beside the answer, and what is left out of it."""
    parser.add_argument(
        "--baseline",
        default="",
        metavar="FILE",
        help="findings that are known: counted, not shown, and not in the exit status",
    )
    parser.add_argument(
        "--write-baseline", default="", metavar="FILE", help="write all findings as such a file"
    )


def run_check(args: argparse.Namespace) -> int:
    """Check the sources, or correct one in a copy.

    Returns 1 for faults and records that cannot be read, 2 when nothing could be read.
    """
    if args.duplicates:
        return find_duplicates(args, _FILE_OPTIONS)
    if args.instructions:
        return audit_instructions(args, _FILE_OPTIONS)
    if args.fix:
        return run_fix(args, _requested_datasets(args))
    if args.dry_run:
        raise RequestError("--dry-run lists the changes of --fix", "give --fix DEST too")
    if not args.source:
        with TemporaryDirectory() as folder:
            name_workspace_sources(args, Path(folder))
            return run_check(args)
    request = CheckRequest(
        datasets=_requested_datasets(args),
        baseline=args.baseline,
        write_baseline=args.write_baseline,
        video=args.video,
    )
    report = check_datasets(request)
    answer(args, report.to_json(), lambda: paragraphs(_check_report_blocks(report)))
    if not report.num_episodes:
        return ExitStatus.REFUSED
    return ExitStatus.DONE if report.is_clean else ExitStatus.ITEMS_FAILED


def _requested_datasets(args: argparse.Namespace) -> IngestRequest:
    return IngestRequest(
        sources=tuple(args.source),
        format=args.format,
        rate_hz=args.rate,
        spec=args.spec,
        follow_links=args.follow_links,
        limit=args.limit,
        options=getattr(args, "options", ""),
    )


def describe_check_stop(args: argparse.Namespace) -> str:
    """What a check that was stopped has written."""
    if args.instructions:
        return "what was stored until then stays; run the same command again"
    return f"{args.fix!r} was not written; run the same command again" if args.fix else "nothing was changed"


def _check_report_blocks(report: CheckReport) -> Iterator[Block]:
    for dataset in report.datasets:
        yield _dataset_summary(dataset)
        if dataset.video is not None:
            yield _video_summary(dataset.video)
        if dataset.counts:
            yield make_table(_CODE_COLUMNS, dataset.counts)
        signals = [
            signal for contract in dataset.contracts[:_LISTED_CONTRACTS] for signal in contract.signals
        ]
        if signals:
            yield make_table(_CONTRACT_COLUMNS, signals)
    for path, reason in report.failed.items():
        yield f"{path} cannot be read: {reason}"
    if report.unread:
        yield list_unread_files(report.unread)
    yield _check_conclusion(report)


def _dataset_summary(dataset: DatasetCheck) -> str:
    failed = f", {dataset.num_failed} not read ({dataset.first_failure})" if dataset.num_failed else ""
    without = f", {dataset.num_without_signals} without signals" if dataset.num_without_signals else ""
    counts = f"{count_of(dataset.num_episodes, 'episode')}{without}{failed}"
    unnamed = count_are(dataset.num_unnamed, "dimension")
    ending = f"; {unnamed} not judged for want of names" if dataset.num_unnamed else ""
    return f"{dataset.dataset} ({dataset.format}): {counts}; {_describe_lag(dataset)}{ending}"


def _video_summary(video: VideoTotals) -> str:
    lags = ", ".join(f"{camera} {lag:.3f} s" for camera, lag in video.lag_seconds.items())
    known = f"known in {video.num_moving_known} of {count_of(video.num_moving, 'episode')} that move for five seconds"
    failed = f", {video.num_failed} not checked ({video.first_failure})" if video.num_failed else ""
    return (
        f"videos of {count_of(video.num_episodes, 'episode')}{failed}, {count_of(video.num_frames, 'frame')}; "
        f"lag of the cameras behind the state: {lags or 'unknown'} ({known})"
    )


def _describe_lag(dataset: DatasetCheck) -> str:
    if dataset.lag_seconds is None:
        return "lag of the state behind the action: unknown"
    known = f"in {count_of(dataset.num_lags, 'episode')}"
    unknown = f", unknown in {dataset.num_unknown_lags}" if dataset.num_unknown_lags else ""
    return f"the state follows the action by {dataset.lag_seconds:.3f} s {known}{unknown}"


def _dimension_names(count: FindingCodeCount) -> str:
    names = [name for name in count.dimensions if name]
    more = f" and {len(names) - _DIMENSIONS_PER_CODE} more" if len(names) > _DIMENSIONS_PER_CODE else ""
    return ", ".join(names[:_DIMENSIONS_PER_CODE]) + more


def _page_of(count: FindingCodeCount) -> str:
    from ares.checks import CODES

    return CODES[count.code].page


_CODE_COLUMNS: Columns = {
    "code": lambda count: count.code,
    "name": lambda count: count.name,
    "severity": lambda count: count.severity,
    "episodes": lambda count: count.num_episodes,
    "dimensions": _dimension_names,
    "worst episode": lambda count: count.worst[0].key or count.worst[0].episode_id,
    "second": lambda count: count.worst[0].finding.seconds,
    "size": lambda count: count.worst[0].finding.size,
    "remedy": lambda count: count.remedy,
    "page": _page_of,
}


def _check_conclusion(report: CheckReport) -> str:
    if not report.num_episodes:
        return "no episode could be read"
    counts = [count for dataset in report.datasets for count in dataset.counts]
    faults = len({count.code for count in counts if count.severity == "fault"})
    accepted = (
        f"; {count_of(report.num_accepted, 'finding')} accepted by the baseline"
        if report.num_accepted
        else ""
    )
    kinds = count_of(faults, "kind of fault", "kinds of faults") if faults else "no faults"
    failed = sum(dataset.num_failed for dataset in report.datasets)
    unread = f", {failed} could not be read" if failed else ""
    damaged = f", {count_of(len(report.damaged_files), 'file')} not read" if report.damaged_files else ""
    return f"{count_of(report.num_episodes, 'episode')} checked{unread}{damaged}: {kinds}{accepted}"
