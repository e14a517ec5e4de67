"""`ares check --fix`: writes a corrected copy of a dataset, and lists every change."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from app.cli.faults import ExitStatus
from app.cli.output import Block, OutputTable, answer, paragraphs
from ares.errors import RequestError
from ares.messages import is_quiet

if TYPE_CHECKING:
    from ares.export import CodeFix, FixReport

_CHANGE_HEADER = ("episode", "code", "signal", "dimension", "second", "steps", "old", "new")
_LEFT_HEADER = ("episode", "code", "signal", "dimension", "second", "left because")
_CODE_HEADER = (
    "code",
    "name",
    "severity",
    "episodes before",
    "corrected",
    "left",
    "in the copy",
    "what is done",
)
# Options that say what a check reports; a correction reports what it changed.
_OTHERS = ("limit", "video", "audit", "baseline", "write_baseline", "evidence", "sarif", "github")


def run_fix(args: argparse.Namespace) -> int:
    """Correct a dataset in a copy. Returns 1 where faults remain or episodes are missing, 2 when nothing was read."""
    import ares

    _check_options(args)
    report = ares.fix(
        args.source[0],
        args.fix,
        format=args.format,
        rate_hz=args.rate,
        spec=args.spec,
        data_dir=args.data_dir,
        follow_links=args.follow_links,
        export_format=args.fix_format,
        dry_run=args.dry_run,
        quiet=is_quiet(),
    )
    answer(args, report.to_json(), lambda: paragraphs(_blocks(report)))
    if not report.before.num_episodes:
        return ExitStatus.REFUSED
    return ExitStatus.DONE if report.is_clean else ExitStatus.ITEMS_FAILED


def _check_options(args: argparse.Namespace) -> None:
    if len(args.source) != 1:
        raise RequestError("one dataset at a time is corrected", f"got {len(args.source)} sources")
    options = [name for name in _OTHERS if getattr(args, name)]
    if options:
        flag = options[0].replace("_", "-")
        raise RequestError(f"--{flag} does not go with --fix", f"check the copy with --{flag} afterwards")


def _blocks(report: FixReport) -> Iterator[Block]:
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
        yield OutputTable([_code_row(fix) for fix in report.codes], _CODE_HEADER)
    yield from _export_lines(report)
    yield _conclusion(report, len(changes))


def _code_row(fix: CodeFix) -> tuple[object, ...]:
    return (fix.code, fix.name, fix.severity, fix.before, fix.corrected, fix.left, fix.after, fix.done)


def _export_lines(report: FixReport) -> Iterator[Block]:
    """What the copy lacks or has otherwise, beside the corrections."""
    if report.export is None:
        return
    lines = [f"not in the copy: {line}" for line in report.export.left_out]
    document = report.export.to_json()
    for change in report.export.changed:
        lines.append(f"changed: {change['reason']}: {change['episodes']} episodes")
    for reason, count in report.export.reencoded.items():
        lines.append(f"encoded anew: {count} videos: {reason}")
    for failure in report.export.failures:
        assert isinstance(failure, dict)
        lines.append(
            f"left out: {failure['count']} episodes: {failure['reason']}; first: {failure['example']}"
        )
    packets = f"{document['copied_packets']} frames copied, {document['encoded_frames']} encoded"
    yield "\n".join([*lines, packets])


def _conclusion(report: FixReport, num_changes: int) -> str:
    episodes = sum(bool(repair.changes) for repair in report.repairs)
    counted = f"{num_changes} changes in {episodes} of {report.before.num_episodes} episodes"
    if report.export is None:
        return f"{counted}; nothing was written"
    written = f"{report.destination} has {report.export.episodes} episodes"
    if report.after is None:
        return f"{counted}; {written}; it cannot be checked: {report.not_checked}"
    if report.new_codes:
        return f"{counted}; {written}; more episodes than before have {', '.join(report.new_codes)}"
    return f"{counted}; {written}; its check names nothing new"
