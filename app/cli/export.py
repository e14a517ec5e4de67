"""`ares export`: write a set as a training dataset."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ares.console import count_of
from ares.episode import Json
from ares.errors import RequestError
from ares.export import EPISODES_FILE, FAILURES_FILE, TASK_SOURCES
from ares_app.cli.arguments import add_options_file, add_workspace_arguments, open_workspace, rate_hz
from ares_app.cli.errors import ExitStatus
from ares_app.cli.output import answer, print_error, tallies

if TYPE_CHECKING:
    from ares.export import ExportReport

# Fields of the report that are one number or text each.
_COUNTS = ("episodes", "frames", "tasks")
_WHY_SEVERAL = (
    "a folder is of one source, rate, size of pictures, and set of cameras and dimensions; "
    "`--write-plan` merges them: docs/merge.md"
)
_PLAIN_FIELDS = ("path", "copied_packets", "encoded_frames", "copied_records", "seconds")


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_export, describe_stop=describe_export_stop)
    from ares.registry import exporters

    parser.add_argument("set", metavar="SET", help="name of a set, or name@version")
    parser.add_argument("dest", metavar="DEST", help="new or empty folder, or a URL such as s3://lab/x")
    parser.add_argument("--format", metavar="NAME", help=f"write this: {', '.join(exporters.names())}")
    parser.add_argument(
        "--task",
        choices=TASK_SOURCES,
        default="instruction",
        help="write as task of every episode its instruction (default), or its caption where that is acceptable",
    )
    parser.add_argument("--fps", type=rate_hz, metavar="HZ", help="write steps and frames at this rate")
    parser.add_argument(
        "--convert",
        action="append",
        default=[],
        metavar="SIGNAL=TARGET",
        help="convert a signal whose meaning differs within the set, such as action.gripper=open1, state.arm=rad or "
        "'DATASET/state.arm: deg -> rad'",
    )
    parser.add_argument(
        "--signals",
        type=_split_names,
        metavar="NAMES",
        help="write these further signals, with commas; by default those that all episodes have; '' writes none",
    )
    parser.add_argument(
        "--drop-camera",
        action="append",
        default=[],
        metavar="NAME",
        help="leave this camera out; may be repeated",
    )
    parser.add_argument(
        "--min-precision",
        type=float,
        metavar="P",
        help="export only where people have shown that this share of the captions of each dataset is true: "
        "`ares review measure DATASET`",
    )
    parser.add_argument(
        "--refuted",
        action="store_true",
        help="take captions and texts of segments also where a refuted judge accepts them",
    )
    parser.add_argument(
        "--min-kept",
        type=float,
        metavar="P",
        help="write nothing where fewer episodes are left than this share of the last export of the set",
    )
    parser.add_argument(
        "--link-dest",
        metavar="FOLDER",
        help="link files that are equal in this earlier export, and do not write them again",
    )
    parser.add_argument(
        "--write-plan",
        metavar="FILE",
        help="write how the sources become one dataset, as YAML to edit, and export nothing",
    )
    parser.add_argument("--plan", metavar="FILE", help="join the sources in one dataset, as this plan says")
    parser.add_argument(
        "--like",
        metavar="DATASET",
        help="join the sources in one dataset with the rate, sizes and signals of this one; with --write-plan the plan "
        "of that; default of a plan: the source with most of each",
    )
    add_options_file(parser, "further options of an export")
    add_workspace_arguments(parser)


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def run_export(args: argparse.Namespace) -> int:
    """Export the set, or write the plan of a merge. Returns 1 when an episode of the set was left out."""
    from ares.contract import ClashError

    if args.write_options:
        from ares_app.cli.option_models import ExportFileOptions, write_options

        return write_options(args, ExportFileOptions)
    if args.write_plan:
        return _write_plan(args)
    if not args.format:
        from ares.registry import exporters

        raise RequestError("name a format with --format", ", ".join(exporters.names()))
    try:
        report = _export_with_options(args)
    except ClashError as error:
        for line in error.lines:
            print_error("export", RequestError(error.reason, line))
        return ExitStatus.REFUSED
    answer(args, report.to_json(), partial(tuple, _export_summary(report)))
    return 1 if report.failed else 0


def _write_plan(args: argparse.Namespace) -> int:
    """Write the plan of a merge, and print what no name tells."""
    plan = open_workspace(args).write_merge_plan(args.set, args.write_plan, args.like)
    unnamed: list[Json] = [
        f"{kind} of {source.label}: {', '.join(names)}"
        for source in plan.sources
        for kind, names in source.parts.items()
        if names
    ]
    document: dict[str, Json] = {
        "plan": args.write_plan,
        "sources": len(plan.sources),
        "cameras": list(plan.cameras),
        "state": list(plan.state),
        "action": list(plan.action),
        "fps": plan.fps,
        "padded": list(plan.masks),
        "left_out": unnamed,
    }
    answer(args, document, partial(tuple, _describe_plan(document)))
    return 0


def _describe_plan(document: Mapping[str, Json]) -> Iterator[str]:
    left_out = document["left_out"]
    assert isinstance(left_out, list)
    for name in ("plan", "sources", "cameras", "state", "action", "fps", "padded"):
        if (value := document[name]) not in (None, []):
            yield f"{name}: {', '.join(map(str, value)) if isinstance(value, list) else value}"
    if left_out:
        yield "left out, unless the plan says what it is:"
        yield from (f"  {line}" for line in left_out)


def _export_with_options(args: argparse.Namespace) -> ExportReport:
    """What an export gives for the options of the command."""
    from ares.export import TrimRequest
    from ares_app.cli.option_models import ExportFileOptions, read_options

    in_file = read_options(args.options, ExportFileOptions)
    idle, interventions = in_file.trim_idle, in_file.interventions
    trim = None
    if idle is not None or interventions:
        trim = TrimRequest(idle_seconds=idle, interventions=interventions)
    return open_workspace(args).export(
        args.set,
        args.dest,
        format=args.format,
        trim=trim,
        weights=in_file.weights,
        min_precision=args.min_precision,
        min_kept=args.min_kept,
        signals=args.signals,
        drop_cameras=args.drop_camera,
        link_dest=args.link_dest,
        refuted=args.refuted,
        task=args.task,
        fps=args.fps,
        retime=in_file.retime,
        convert=args.convert,
        segments=in_file.segments,
        strict=in_file.strict,
        plan=args.plan,
        like=args.like,
    )


def describe_export_stop(args: argparse.Namespace) -> str:
    """What an export that was stopped has written."""
    return f"{args.dest!r} was not written; run the same command again"


def _export_summary(report: ExportReport) -> Iterator[str]:
    """The report as text: lines of "name: value", and below a name the lines of what is a list; no empty list."""
    document = report.to_json()
    yield f"set: {report.set}"
    if since := report.unchanged_since:
        is_same = since == str(report.path.resolve())
        yield (
            "already there: nothing was written" if is_same else f"unchanged: the files are those of {since}"
        )
    for name in _COUNTS:
        yield f"{name}: {document[name]}"
    yield f"task source: {report.task_source}"
    if report.task_sources:
        sources = ", ".join(f"{source} {count}" for source, count in report.task_sources.items())
        yield f"tasks of episodes: {sources}"
    if report.sides.keys() - {"train"}:
        yield f"splits: {_named_counts(report.sides)}"
    if (report.path / EPISODES_FILE).is_file():
        yield f"order: by episode id in a folder; {EPISODES_FILE} lists them"
    for name in _PLAIN_FIELDS:
        yield f"{name.replace('_', ' ')}: {document[name]}"
    yield from describe_losses(report)


def describe_losses(report: ExportReport) -> Iterator[str]:
    """What an export lacks or has otherwise than its sources: names, each with the lines of a list below it."""
    lists: dict[str, Iterable[str]] = {
        "segments": map(_describe_segments, report.segments.items()),
        "lacks for imitation learning": report.lacks,
        "left out": dict.fromkeys(report.left_out),
        "changed": map(_describe_change, report.changed),
        "unknown": report.unknown,
        "datasets": [*map(_describe_folder, report.datasets), _WHY_SEVERAL]
        if len(report.datasets) > 1
        else [],
        "encoded again": [
            f"{count_of(count, 'video')}: {reason}" for reason, count in report.reencoded.items()
        ],
    }
    for title, lines in lists.items():
        for number, line in enumerate(lines):
            if not number:
                yield f"{title}:"
            yield f"  {line}"
    if report.failed:
        failed = count_of(report.failed, "episode")
        yield f"failed: {failed} not in the export, {FAILURES_FILE} has the list:"
        yield from tallies(report.to_json(), "failures")


def _named_counts(counts: Mapping[str, Json]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in counts.items())


def _describe_segments(entry: tuple[str, Json]) -> str:
    """What became of segments, and how many by reason."""
    name, counts = entry
    listed = (
        ", ".join(f"{reason} {count}" for reason, count in counts.items()) if isinstance(counts, dict) else ""
    )
    return f"{name.replace('_', ' ')}: {listed}"


def _describe_change(change: Mapping[str, Json]) -> str:
    """A kind of change that the export made to episodes, and its counts."""
    counts = {name: value for name, value in change.items() if name != "reason"}
    return f"{change.get('reason', '')}: {_named_counts(counts)}" if counts else str(change.get("reason", ""))


def _describe_folder(dataset: Mapping[str, Json]) -> str:
    """A folder of the export, and its counts."""
    counts = {name: value for name, value in dataset.items() if name not in ("path", "why_apart")}
    why = f"; {dataset['why_apart']}" if "why_apart" in dataset else ""
    return f"{dataset.get('path', '')}: {_named_counts(counts)}{why}"
