"""`ares export`: write a set as a training dataset."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from app.cli.arguments import add_workspace_arguments, open_workspace, rate_hz
from app.cli.errors import ExitStatus
from app.cli.output import answer, print_error, tallies
from ares.console import count_of
from ares.episode import Json
from ares.errors import RequestError
from ares.export import EPISODES_FILE, FAILURES_FILE, RETIME_MODES, SEGMENT_CHOICES, TASK_SOURCES

if TYPE_CHECKING:
    from ares.export import ExportReport


# Arguments for a merge of sources, for parts and weights, and for failures.
_MORE_ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "--write-plan": {
        "metavar": "FILE",
        "help": "write how the sources become one dataset, as YAML to edit, and export nothing",
    },
    "--plan": {"metavar": "FILE", "help": "export one dataset, as this plan says"},
    "--trim-idle": {
        "type": float,
        "nargs": "?",
        "const": 0.5,
        "metavar": "SECONDS",
        "help": "cut still starts and ends, but so many seconds of them (default 0.5)",
    },
    "--keep-spans": {
        "metavar": "TABLE",
        "default": "",
        "help": "keep the spans of a CSV, JSONL or Parquet file with episode_id, start_seconds and stop_seconds",
    },
    "--weights": {
        "action": "append",
        "default": [],
        "metavar": "COLUMN|TABLE",
        "help": "write the weight of each step: a column of numbers, or a CSV, JSONL or Parquet file with episode_id "
        "and weight, and start_seconds and stop_seconds where a row is about some steps",
    },
    "--progress": {
        "default": "",
        "metavar": "SIGNAL",
        "help": "write this signal of the sources as progress of each step, for rabc of lerobot",
    },
    "--min-precision": {
        "type": float,
        "metavar": "P",
        "help": "export only where people have shown that this share of the captions of each dataset is true: "
        "`ares review measure DATASET`",
    },
    "--min-kept": {
        "type": float,
        "metavar": "P",
        "help": "write nothing where fewer episodes are left than this share of the last export of the set",
    },
    "--link-dest": {
        "metavar": "FOLDER",
        "help": "an earlier export: files that are equal there are linked, and not written again",
    },
    "--strict": {
        "action": "store_true",
        "help": "write nothing when an episode fails, instead of leaving it out",
    },
}


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_export, describe_stop=describe_export_stop)
    from ares.registry import exporters

    parser.add_argument("set", metavar="SET", help="name of a set, or name@version")
    parser.add_argument("dest", metavar="DEST", help="folder to write; must not be there yet, or be empty")
    parser.add_argument("--format", metavar="NAME", help=", ".join(exporters.names()))
    parser.add_argument(
        "--task",
        choices=TASK_SOURCES,
        default="instruction",
        help="task of every episode: its instruction (default), or its caption where it is acceptable",
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
        help="convert a signal whose meaning differs within the set, such as action.gripper=open1, state.arm=rad or "
        "'DATASET/state.arm: deg -> rad'",
    )
    parser.add_argument(
        "--segments",
        action="append",
        default=[],
        choices=SEGMENT_CHOICES,
        help="write texts of segments by models also where their grade is this; may be repeated; none: no texts at all "
        "(default: what people and sources say, and what a judge accepts)",
    )
    parser.add_argument(
        "--refuted",
        action="store_true",
        help="take captions and texts of segments also where a refuted judge accepts them",
    )
    for name in _MORE_ARGUMENTS:
        parser.add_argument(name, **_MORE_ARGUMENTS[name])
    add_workspace_arguments(parser)


def run_export(args: argparse.Namespace) -> int:
    """Export the set, or write the plan of a merge. Returns 1 when an episode of the set was left out."""
    from ares.contract import ClashError
    from ares.export import OpenQuestionsError

    if args.write_plan:
        return _write_plan(args)
    if not args.format:
        from ares.registry import exporters

        raise RequestError("name a format with --format", ", ".join(exporters.names()))
    try:
        report = _export_with_options(args)
    except (ClashError, OpenQuestionsError) as error:
        for line in error.lines:
            print_error("export", RequestError(error.reason, line))
        return ExitStatus.REFUSED
    answer(args, report.to_json(), partial(tuple, _export_summary(report)))
    return 1 if report.failed else 0


def _write_plan(args: argparse.Namespace) -> int:
    """Write the plan of a merge, and print what a person has to answer."""
    from ares.export import open_questions

    plan = open_workspace(args).write_merge_plan(args.set, args.write_plan)
    questions = list(open_questions(plan))
    document: dict[str, Json] = {
        "plan": args.write_plan,
        "sources": len(plan.sources),
        "cameras": list(plan.cameras),
        "state": list(plan.state),
        "action": list(plan.action),
        "fps": plan.fps,
        "convert": list(plan.convert),
        "questions": list(questions),
    }
    answer(args, document, partial(tuple, _describe_plan(document)))
    return 0


def _describe_plan(document: Mapping[str, Json]) -> Iterator[str]:
    questions = document["questions"]
    assert isinstance(questions, list)
    for name in ("plan", "sources", "cameras", "state", "action", "fps", "convert"):
        value = document[name]
        yield f"{name}: {', '.join(map(str, value)) if isinstance(value, list) else value}"
    yield f"questions: {len(questions)}"
    yield from (f"  {line}" for line in questions)


def _export_with_options(args: argparse.Namespace) -> ExportReport:
    """What an export gives for the options of the command."""
    from ares.export import TrimRequest

    if len(args.weights) > 1:
        detail = f"got {', '.join(args.weights)}; multiply them in a table: docs/weights.md"
        raise RequestError("weights are one column or one table", detail)
    is_trimmed = args.trim_idle is not None or args.keep_spans
    return open_workspace(args).export(
        args.set,
        args.dest,
        format=args.format,
        trim=TrimRequest(idle_seconds=args.trim_idle, keep_spans=args.keep_spans) if is_trimmed else None,
        weights="".join(args.weights),
        progress=args.progress,
        min_precision=args.min_precision,
        min_kept=args.min_kept,
        link_dest=args.link_dest,
        refuted=args.refuted,
        task=args.task,
        fps=args.fps,
        retime=args.retime,
        convert=args.convert,
        segments=args.segments,
        strict=args.strict,
        plan=args.plan,
    )


def describe_export_stop(args: argparse.Namespace) -> str:
    """What an export that was stopped has written."""
    return f"{args.dest!r} was not written; run the same command again"


# Fields of the report that are one number or text each.
_COUNTS = ("episodes", "frames", "tasks")
_WHY_SEVERAL = (
    "a folder is of one source, rate, size of pictures, and set of cameras and dimensions; "
    "`--write-plan` merges them: docs/merge.md"
)
_PLAIN_FIELDS = ("path", "copied_packets", "encoded_frames", "copied_records", "seconds")


def _export_summary(report: ExportReport) -> Iterator[str]:
    """The report as text: lines of "name: value", and below a name the lines of what is a list; no empty list."""
    document = report.to_json()
    yield f"set: {report.set}"
    if report.unchanged_since:
        yield f"unchanged: the files are those of {report.unchanged_since}"
    for name in _COUNTS:
        yield f"{name}: {document[name]}"
    yield f"task source: {report.task_source}"
    if report.task_sources:
        sources = ", ".join(f"{source} {count}" for source, count in report.task_sources.items())
        yield f"tasks of episodes: {sources}"
    if (report.path / EPISODES_FILE).is_file():
        yield f"order: by episode id in a folder; {EPISODES_FILE} lists them"
    for name in _PLAIN_FIELDS:
        yield f"{name.replace('_', ' ')}: {document[name]}"
    yield from describe_losses(report)


def describe_losses(report: ExportReport) -> Iterator[str]:
    """What an export lacks or has otherwise than its sources: names, each with the lines of a list below it."""
    lists: dict[str, Iterable[str]] = {
        "segments": map(_describe_segments, report.segments.items()),
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
