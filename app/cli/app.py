"""`ares app` and `ares demo`: open the dashboard, or run the whole job on the samples first."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ares.console import count_of, print_message
from ares.episode import Json
from ares.rubric import describe_tripwire
from ares_app.cli.arguments import (
    add_common_options,
    add_workspace_arguments,
    add_workspace_option,
    open_workspace,
    parse_port_number,
)
from ares_app.cli.output import Block, OutputTable, answer

if TYPE_CHECKING:
    from ares_app.demo import DemoReport


def add_app_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_app)
    add_workspace_option(parser)
    add_common_options(parser)
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="H",
        help="listen on this address (default: this machine alone, 127.0.0.1)",
    )
    _add_port_option(parser)
    parser.add_argument("--no-browser", action="store_true", help="do not open the pages in a browser")


def _add_port_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--port",
        type=parse_port_number,
        default=8501,
        metavar="P",
        help="serve the dashboard on this port (default: 8501; 0 for any free one)",
    )


def run_app(args: argparse.Namespace) -> int:
    """Serve the dashboard until interrupted."""
    from ares_app.dashboard import make_served_pages
    from ares_app.server import serve

    serve(
        open_workspace(args, create=True),
        make_served_pages(),
        host=args.host,
        port=args.port,
        open_browser=not args.no_browser,
    )
    return 0


def add_demo_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_demo)
    add_workspace_arguments(parser, default="a new one in ./ares-demo")
    parser.add_argument("--no-serve", action="store_true", help="do not open the dashboard at the end")
    _add_port_option(parser)


def run_demo(args: argparse.Namespace) -> int:
    """Run the demo, print its report and open the dashboard. Returns 1 when an item failed."""
    from ares.settings import settings_from_environment
    from ares.workspace import open_workspace
    from ares_app.demo import make_demo_folder_path, make_demo_settings, run_demo_job

    path = args.workspace or str(make_demo_folder_path(Path.cwd()) / "workspace")
    workspace = open_workspace(path, make_demo_settings(settings_from_environment()))
    report = run_demo_job(workspace, print_message)
    answer(args, report.to_json(), lambda: _demo_report_blocks(report))
    sys.stdout.flush()
    if not args.no_serve:
        from ares_app.dashboard import make_served_pages
        from ares_app.server import serve

        serve(workspace, make_served_pages(), port=args.port, open_browser=True)
    return 1 if report.failed else 0


def _demo_report_blocks(report: DemoReport) -> Iterator[Block]:
    from ares_app.demo import ACCEPTED, TEST_NOTE

    rows = [
        ("episodes", report.episodes),
        ("captions", report.captions),
        ("acceptable", f"{count_of(report.acceptable, 'caption')} graded as true: {_outcome_counts(report)}"),
        ("rejected", f"{report.not_acceptable}  {_criterion_counts(report.rejected_by)}"),
        ("unsure", f"{report.unsure}  {_criterion_counts(report.unsure_by)}"),
        ("errors", report.errors),
        ("exported", f"{count_of(report.exported_episodes, 'episode')} ({ACCEPTED}) to {report.export_path}"),
        ("tasks", f"{_task_sources(report.task_sources)}  (--task {report.task_source})"),
        ("workspace", report.workspace),
        ("seconds", report.seconds),
    ]
    decided = _percent_text(report.grade_decided)
    shares = [
        ("captions that are true", _percent_text(report.caption_truth_agreement)),
        (
            "grades that agree with that",
            f"{_percent_text(report.grade_truth_agreement)} of the {decided} decided",
        ),
    ]
    yield from (OutputTable(rows), "", f"{report.label}:", OutputTable(shares), f"the judge {TEST_NOTE}")
    tripwires = cast("Mapping[str, Mapping[str, Json]]", report.judge_tripwire)
    words = [(dataset, describe_tripwire(document)) for dataset, document in tripwires.items()]
    yield from ("", "the judge by its controls, SIMULATION:", OutputTable(words))
    yield from ("", "what is true, by the truth of the SIMULATION in place of people:")
    yield OutputTable(list(report.measured.items()))


def _outcome_counts(report: DemoReport) -> str:
    return f"{report.successes} of episodes that succeeded, {report.failures} of episodes that failed"


def _task_sources(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _criterion_counts(counts: dict[str, int]) -> str:
    return f"(by criterion: {', '.join(f'{name} {count}' for name, count in counts.items()) or 'none'})"


def _percent_text(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"
