"""`ares check`: check the signals of datasets where they lie, without a workspace."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from app.cli.common import add_source_arguments, add_workspace_arguments, episode_count, rate_hz
from app.cli.data.audit_rows import audit_line, audit_table, not_planted_line
from app.cli.data.contract_rows import contract_table
from app.cli.faults import ExitStatus
from app.cli.output import Block, OutputTable, answer, paragraphs
from ares.errors import RequestError

if TYPE_CHECKING:
    from ares.quality import CheckReport, CodeCount, DatasetCheck, VideoTotals

_HEADER = (
    "code",
    "name",
    "severity",
    "episodes",
    "dimensions",
    "worst episode",
    "second",
    "size",
    "remedy",
    "page",
)
# Findings of each code that are listed with their episodes in the JSON.
_LISTED = 20
# Code scanning keeps at most 25,000 results of a run.
_LISTED_IN_SARIF = 1000
# Dimensions that are named in one row; the JSON has all.
_NAMED_DIMENSIONS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    from ares.registry import ingesters

    parser.add_argument("source", nargs="+", metavar="SOURCE", help="folder or file of a dataset")
    parser.add_argument(
        "--format", default="auto", metavar="NAME", help=f"auto (default), {', '.join(ingesters.names())}"
    )
    parser.add_argument(
        "--rate", type=rate_hz, metavar="HZ", help="recording rate, where the source does not store it"
    )
    parser.add_argument(
        "--spec",
        default="",
        metavar="FILE",
        help="what the dataset does not say of itself, as for `ares ingest`",
    )
    add_source_arguments(parser)
    parser.add_argument("--limit", type=episode_count, metavar="N", help="check at most N episodes")
    _add_output_arguments(parser)
    parser.add_argument(
        "--video", action="store_true", help="decode the videos too, each file once, and check them"
    )
    parser.add_argument(
        "--audit",
        action="store_true",
        help="plant faults into some episodes of each dataset, and print how many the checks find there",
    )
    parser.add_argument(
        "--audit-seed", type=int, default=0, metavar="N", help="seed of the faults (0); printed"
    )
    _add_fix_arguments(parser)
    add_workspace_arguments(parser, default="not used")


def _add_fix_arguments(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument(
        "--evidence", default="", metavar="FOLDER", help="write a plot and frames of every listed finding"
    )
    parser.add_argument(
        "--sarif", default="", metavar="FILE", help="write the findings as SARIF 2.1.0, for code scanning"
    )
    parser.add_argument(
        "--github", action="store_true", help="print the findings as annotations of GitHub Actions"
    )


def run(args: argparse.Namespace) -> int:
    """Check the sources, or correct one in a copy.

    Returns 1 for faults and records that cannot be read, 2 when nothing could be read.
    """
    import ares

    if args.fix:
        from app.cli.data.fix import run_fix

        return run_fix(args)
    if args.dry_run:
        raise RequestError("--dry-run lists the changes of --fix", "give --fix DEST too")
    if args.github and args.output != "table":
        raise RequestError("--github prints lines for GitHub, no JSON", "give one of --github and --json")
    report = ares.check(
        *args.source,
        format=args.format,
        rate_hz=args.rate,
        spec=args.spec,
        data_dir=args.data_dir,
        follow_links=args.follow_links,
        limit=args.limit,
        baseline=args.baseline,
        write_baseline=args.write_baseline,
        evidence=args.evidence,
        audit_seed=args.audit_seed if args.audit else None,
        num_listed=_LISTED_IN_SARIF if args.sarif else _LISTED,
        video=args.video,
    )
    if args.sarif:
        from ares.quality.ci import write_sarif

        write_sarif(args.sarif, report)
    answer(args, report.to_json(), lambda: _text(args, report))
    if not report.num_episodes:
        return ExitStatus.REFUSED
    return ExitStatus.DONE if report.is_clean else ExitStatus.ITEMS_FAILED


def describe_stop(args: argparse.Namespace) -> str:
    """What a check that was stopped has written."""
    return f"{args.fix!r} was not written; run the same command again" if args.fix else "nothing was changed"


def _text(args: argparse.Namespace, report: CheckReport) -> Iterable[Block]:
    if not args.github:
        return paragraphs(_blocks(report, is_audit=args.audit))
    from ares.quality.ci import github_annotations

    return [*github_annotations(report), _conclusion(report)]


def _blocks(report: CheckReport, *, is_audit: bool) -> Iterator[Block]:
    for dataset in report.datasets:
        yield _summary(dataset)
        if dataset.video is not None:
            yield _video(dataset.video)
        if dataset.counts:
            yield OutputTable([_row(count) for count in dataset.counts], _HEADER)
        if dataset.audit is not None:
            yield audit_line(dataset.audit)
            yield audit_table(dataset.audit)
            yield not_planted_line(dataset.audit)
        elif is_audit:
            yield f"no audit of {dataset.dataset}: it needs two episodes with signals of the same dimensions"
        if (table := contract_table(dataset.contracts)) is not None:
            yield table
    for path, reason in report.failed.items():
        yield f"{path} cannot be read: {reason}"
    yield from report.evidence_problems
    yield _conclusion(report)


def _summary(dataset: DatasetCheck) -> str:
    failed = f", {dataset.num_failed} not read ({dataset.first_failure})" if dataset.num_failed else ""
    without = f", {dataset.num_without_signals} without signals" if dataset.num_without_signals else ""
    return f"{dataset.dataset} ({dataset.format}): {dataset.num_episodes} episodes{without}{failed}; {_lag(dataset)}"


def _video(video: VideoTotals) -> str:
    lags = ", ".join(f"{camera} {lag:.3f} s" for camera, lag in video.lag_seconds.items())
    known = f"known in {video.num_moving_known} of {video.num_moving} episodes that move for five seconds"
    failed = f", {video.num_failed} not checked ({video.first_failure})" if video.num_failed else ""
    return (
        f"videos of {video.num_episodes} episodes{failed}, {video.num_frames} frames; "
        f"lag of the cameras behind the state: {lags or 'unknown'} ({known})"
    )


def _lag(dataset: DatasetCheck) -> str:
    if dataset.lag_seconds is None:
        return "lag of the state behind the action: unknown"
    known = f"in {dataset.num_lags} episodes"
    unknown = f", unknown in {dataset.num_unknown_lags}" if dataset.num_unknown_lags else ""
    return f"the state follows the action by {dataset.lag_seconds:.3f} s {known}{unknown}"


def _row(count: CodeCount) -> tuple[object, ...]:
    from ares.quality import CODES

    names = [name for name in count.dimensions if name]
    more = f" and {len(names) - _NAMED_DIMENSIONS} more" if len(names) > _NAMED_DIMENSIONS else ""
    worst = count.worst[0]
    return (
        count.code,
        count.name,
        count.severity,
        count.num_episodes,
        ", ".join(names[:_NAMED_DIMENSIONS]) + more,
        worst.key or worst.episode_id,
        worst.finding.seconds,
        worst.finding.size,
        count.remedy,
        CODES[count.code].page,
    )


def _conclusion(report: CheckReport) -> str:
    if not report.num_episodes:
        return "no episode could be read"
    faults = sum(count.severity == "fault" for dataset in report.datasets for count in dataset.counts)
    accepted = f"; {report.num_accepted} findings accepted by the baseline" if report.num_accepted else ""
    kinds = f"{faults} kinds of faults" if faults else "no faults"
    return f"{report.num_episodes} episodes checked: {kinds}{accepted}"
