"""`ares demo`: the whole job on the sample episodes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from app.cli.common import add_workspace_arguments, port_number
from app.cli.output import Block, OutputTable, answer
from ares.episode import Json
from ares.messages import print_message
from ares.rubric import describe_trust

if TYPE_CHECKING:
    from app.demo import DemoReport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_workspace_arguments(parser, default="a new one in ./ares-demo")
    parser.add_argument("--no-serve", action="store_true", help="do not open the dashboard at the end")
    parser.add_argument(
        "--port", type=port_number, default=8501, metavar="P", help="port of the dashboard (default 8501)"
    )


def run(args: argparse.Namespace) -> int:
    """Run the demo, print its report and open the dashboard. Returns 1 when an item failed."""
    from app.demo import demo_settings, new_run_folder, run_demo
    from ares.settings import settings_from_environment
    from ares.workspace import open_workspace

    path = args.workspace or str(new_run_folder(Path.cwd()) / "workspace")
    workspace = open_workspace(path, demo_settings(settings_from_environment()))
    report = run_demo(workspace, print_message)
    answer(args, report.to_json(), lambda: _blocks(report))
    sys.stdout.flush()
    if not args.no_serve:
        from app.dashboard import dashboard_pages
        from app.server import serve

        serve(workspace, dashboard_pages(), port=args.port, open_browser=True)
    return 1 if report.failed else 0


def _blocks(report: DemoReport) -> Iterator[Block]:
    from app.demo import ACCEPTED, TEST_NOTE

    rows = [
        ("episodes", report.episodes),
        ("captions", report.captions),
        ("acceptable", f"{report.acceptable} captions graded as true: {_outcomes(report)}"),
        ("rejected", f"{report.not_acceptable}  {_criteria(report.rejected_by)}"),
        ("unsure", f"{report.unsure}  {_criteria(report.unsure_by)}"),
        ("errors", report.errors),
        ("exported", f"{report.exported_episodes} episodes ({ACCEPTED}) to {report.export_path}"),
        ("tasks", f"{_task_sources(report.task_sources)}  (--task {report.task_source})"),
        ("workspace", report.workspace),
        ("seconds", report.seconds),
    ]
    decided = _percent(report.grade_decided)
    shares = [
        ("captions that are true", _percent(report.caption_truth_agreement)),
        ("grades that agree with that", f"{_percent(report.grade_truth_agreement)} of the {decided} decided"),
    ]
    yield from (OutputTable(rows), "", f"{report.label}:", OutputTable(shares), f"the judge {TEST_NOTE}")
    trust = cast("Mapping[str, Mapping[str, Json]]", report.judge_trust)
    words = [(dataset, describe_trust(document)) for dataset, document in trust.items()]
    yield from ("", "the judge by its controls, SIMULATION:", OutputTable(words))


def _outcomes(report: DemoReport) -> str:
    return f"{report.successes} of episodes that succeeded, {report.failures} of episodes that failed"


def _task_sources(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _criteria(counts: dict[str, int]) -> str:
    return f"(by criterion: {', '.join(f'{name} {count}' for name, count in counts.items()) or 'none'})"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"
