"""`ares check`: findings and contract of datasets where they lie."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ares.console import count_are, count_of, print_message
from ares.errors import RequestError
from ares.jobs import CheckRequest, IngestRequest
from ares.workspace import check_datasets
from ares_app.cli.arguments import (
    add_reading_arguments,
    add_workspace_arguments,
    episode_count,
    open_workspace,
)
from ares_app.cli.errors import ExitStatus
from ares_app.cli.output import Block, Columns, answer, list_unread_files, make_table, paragraphs

if TYPE_CHECKING:
    from ares.contract import SignalContract
    from ares.reports import (
        CheckReport,
        DatasetCheck,
        FindingCodeCount,
        VideoTotals,
    )


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
    parser.set_defaults(run=run_check, describe_stop=lambda args: "nothing was changed")
    from ares.registry import ingesters

    parser.add_argument(
        "source",
        nargs="*",
        metavar="SOURCE",
        help="folder or file of a dataset (default: those of the workspace)",
    )
    parser.add_argument(
        "--format",
        default="auto",
        metavar="NAME",
        help=f"read it as this: auto (default: as its files say), {', '.join(ingesters.names())}",
    )
    add_reading_arguments(parser)
    parser.add_argument("--limit", type=episode_count, metavar="N", help="check at most N episodes")
    parser.add_argument(
        "--listed",
        type=episode_count,
        default=20,
        metavar="N",
        help="list at most N findings of each code in the JSON, the worst (default: 20)",
    )
    parser.add_argument(
        "--video", action="store_true", help="decode the videos too, each file once, and check them"
    )
    add_workspace_arguments(parser, default="not used where a SOURCE is to be read")


def run_check(args: argparse.Namespace) -> int:
    """Check the sources. Returns 1 for faults and records that cannot be read, 2 when nothing could be read."""
    if not args.source:
        with TemporaryDirectory() as folder:
            _name_workspace_sources(args, Path(folder))
            return run_check(args)
    request = CheckRequest(datasets=_requested_datasets(args), video=args.video, num_listed=args.listed)
    report = check_datasets(request)
    answer(args, report.to_json(), lambda: paragraphs(_check_report_blocks(report)))
    if not report.num_episodes:
        return ExitStatus.REFUSED
    return ExitStatus.DONE if report.is_clean else ExitStatus.ITEMS_FAILED


def _name_workspace_sources(args: argparse.Namespace, folder: Path) -> None:
    """Set `source` and `options` of the arguments: the datasets of the workspace, with what they were read with.

    Args:
        args: Parsed arguments without a source.
        folder: An empty folder, for a file of options and specs.

    Raises:
        RequestError: There is no workspace, or none of its sources is where it was.
    """
    from ares.contract import DatasetKey, read_contracts
    from ares.io import existing_path
    from ares.settings import settings_from_environment
    from ares.store import workspace_exists
    from ares_ingest.discovery import stored_datasets

    if not args.workspace and not workspace_exists(settings_from_environment().workspace):
        raise RequestError(
            "no SOURCE is given", "name a folder or a file, or with -w a workspace whose sources are checked"
        )
    stores = open_workspace(args).stores
    options, missing = dict[str, dict[str, Any]](), list[str]()
    for dataset in stored_datasets(stores):
        key = DatasetKey(dataset.format, dataset.dataset, dataset.version)
        facts: Any = read_contracts(stores.annotations, key).source
        path = str(facts.get("folder") or dataset.folder or dataset.source)
        try:
            existing_path(path)
        except RequestError:
            missing.append(f"{dataset.dataset} ({path})")
            continue
        stated = facts.get("options") or {}
        how = {"rate": stated.get("rate_hz"), "cameras": stated.get("cameras")}
        if stated.get("spec"):
            spec = folder / f"spec-{len(options)}.yaml"
            spec.write_text(json.dumps(stated["spec"]))  # JSON is YAML
            how["spec"] = str(spec)
        # Several datasets of one folder are read as they are recognised.
        how = {} if path in options else {"format": dataset.format, "dataset": dataset.dataset, **how}
        options[path] = {name: value for name, value in how.items() if value}
    listed = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
    if not options:
        why = f"not there: {listed}; `ares doctor --relocate OLD=NEW`" if missing else "it has no episodes"
        raise RequestError("the workspace has no sources that can be checked", f"{why}, or name a SOURCE")
    if missing:
        print_message(f"not checked, as they are not where they were: {listed}")
    print_message(f"checking the sources of the workspace: {', '.join(options)}")
    (folder / "options.yaml").write_text(json.dumps({"datasets": options}))
    args.source, args.options = [*options], str(folder / "options.yaml")


def _requested_datasets(args: argparse.Namespace) -> IngestRequest:
    return IngestRequest(
        sources=tuple(args.source),
        format=args.format,
        rate_hz=args.rate,
        spec=args.spec,
        limit=args.limit,
        options=getattr(args, "options", ""),
    )


def _check_report_blocks(report: CheckReport) -> Iterator[Block]:
    for dataset in report.datasets:
        yield _dataset_summary(dataset)
        if dataset.lacks:
            yield ("lacks for imitation learning:", *(f"  {line}" for line in dataset.lacks))
        if dataset.warnings:
            yield tuple(f"{count_of(number, 'episode')}: {line}" for line, number in dataset.warnings.items())
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
}


def _check_conclusion(report: CheckReport) -> str:
    if not report.num_episodes:
        return "no episode could be read"
    counts = [count for dataset in report.datasets for count in dataset.counts]
    faults = len({count.code for count in counts if count.severity == "fault"})
    kinds = count_of(faults, "kind of fault", "kinds of faults") if faults else "no faults"
    failed = sum(dataset.num_failed for dataset in report.datasets)
    unread = f", {failed} could not be read" if failed else ""
    damaged = f", {count_of(len(report.damaged_files), 'file')} not read" if report.damaged_files else ""
    lacking = sum(dataset.num_incomplete for dataset in report.datasets)
    lacks = f", {lacking} incomplete" if lacking else ""
    return f"{count_of(report.num_episodes, 'episode')} checked{unread}{lacks}{damaged}: {kinds}"
