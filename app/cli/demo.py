"""`ares demo`: the whole job on the sample episodes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.common import answer, table

if TYPE_CHECKING:
    from app.demo.run import DemoReport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "-w", "--workspace", metavar="PATH", help="workspace folder (default: a new one in ./ares-demo)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")
    parser.add_argument("--no-serve", action="store_true", help="do not open the dashboard at the end")
    parser.add_argument(
        "--port", type=int, default=8501, metavar="P", help="port of the dashboard (default 8501)"
    )


def run(args: argparse.Namespace) -> int:
    """Run the demo, print its report and open the dashboard. Returns 1 when an item failed."""
    from app.demo.run import demo_settings, fresh_folder, run_demo
    from ares.settings import from_environment
    from ares.workspace import open_workspace

    settings = demo_settings(from_environment())
    ws = open_workspace(args.workspace or str(fresh_folder(Path.cwd()) / "workspace"), settings)
    report = run_demo(ws, lambda text: print(text, file=sys.stderr, flush=True))
    answer(args, report.to_json(), lambda: _text(report))
    sys.stdout.flush()
    if not args.no_serve:
        from app.dashboard.server import serve

        serve(ws, port=args.port, open_browser=True)
    return 1 if report.failed else 0


def _text(report: DemoReport) -> str:
    rows = [
        ("episodes", report.episodes),
        ("captions", report.captions),
        ("accepted", report.acceptable),
        ("rejected", f"{report.not_acceptable}  {_criteria(report.rejected_by)}"),
        ("unsure", f"{report.unsure}  {_criteria(report.unsure_by)}"),
        ("errors", report.errors),
        ("exported", f"{report.exported_episodes} episodes to {report.export_path}"),
        ("workspace", report.workspace),
        ("seconds", report.seconds),
    ]
    shares = [
        ("captions that are true", _percent(report.caption_truth_agreement)),
        (
            "grades that agree with that",
            f"{_percent(report.grade_truth_agreement)} of the {_percent(report.grade_decided)} decided",
        ),
    ]
    return f"{table(rows)}\n\n{report.label}:\n{table(shares)}"


def _criteria(counts: dict[str, int]) -> str:
    return f"(by criterion: {', '.join(f'{name} {count}' for name, count in counts.items()) or 'none'})"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"
