"""`ares export`: write a set as a training dataset."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from app.cli.arguments import add_workspace_arguments, open_workspace, rate_hz
from app.cli.errors import ExitStatus
from app.cli.output import answer, print_error, tallies
from ares.episode import Json
from ares.errors import RequestError
from ares.export import FAILURES_FILE, RETIME_MODES, TASK_SOURCES

if TYPE_CHECKING:
    from ares.export import ExportReport


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    from ares.registry import exporters

    parser.add_argument("set", metavar="SET", help="name of a set, or name@version")
    parser.add_argument("dest", metavar="DEST", help="folder to write; must not be there yet")
    parser.add_argument("--format", required=True, metavar="NAME", help=", ".join(exporters.names()))
    parser.add_argument(
        "--task",
        choices=TASK_SOURCES,
        default="instruction",
        help="task of every episode: its instruction (default), or its caption where a trusted judge accepts it, "
        "one that is not proven, or an untrusted one",
    )
    parser.add_argument("--fps", type=rate_hz, metavar="HZ", help="write steps and frames at this rate")
    parser.add_argument(
        "--retime",
        choices=RETIME_MODES,
        default="nearest",
        help="with --fps, the step for a second: the nearest (default), or the last at or before it",
    )
    parser.add_argument(
        "--convert",
        action="append",
        default=[],
        metavar="SIGNAL=TARGET",
        help="convert a signal whose meaning differs within the set, such as action.gripper=open1 or state.arm=rad",
    )
    parser.add_argument(
        "--strict", action="store_true", help="write nothing when an episode fails, instead of leaving it out"
    )
    add_workspace_arguments(parser)


def run_export(args: argparse.Namespace) -> int:
    """Export the set. Returns 1 when an episode of the set was left out."""
    from ares.contract import ClashError

    try:
        report = _export_set(args)
    except ClashError as error:
        for line in error.lines:
            print_error("export", RequestError(error.reason, line))
        return ExitStatus.REFUSED
    document = report.to_json()
    answer(args, document, lambda: _export_summary(document))
    return 1 if report.failed else 0


def _export_set(args: argparse.Namespace) -> ExportReport:
    return open_workspace(args).export(
        args.set,
        args.dest,
        format=args.format,
        task=args.task,
        fps=args.fps,
        retime=args.retime,
        convert=args.convert,
        strict=args.strict,
    )


def describe_export_stop(args: argparse.Namespace) -> str:
    """What an export that was stopped has written."""
    return f"{args.dest!r} was not written; run the same command again"


def _export_summary(document: dict[str, Json]) -> tuple[str, ...]:
    lines = [f"{name}: {value}" for name, value in document.items() if name not in ("failed", "failures")]
    if document["failed"]:
        lines.append(
            f"failed: {document['failed']} episodes of the set are not in the export, "
            f"{FAILURES_FILE} lists them:"
        )
        lines += tallies(document, "failures")
    return tuple(lines)
