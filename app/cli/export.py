"""`ares export`: write a set as a training dataset."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from app.cli.common import add_common, answer, open_workspace, tallies
from ares.episode import Json
from ares.export.failures import NAME as FAILED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    from ares.registry import exporters

    parser.add_argument("set", metavar="SET", help="name of a set, or name@version")
    parser.add_argument("dest", metavar="DEST", help="folder to write; must not be there yet")
    parser.add_argument("--format", required=True, metavar="NAME", help=", ".join(exporters.names()))
    parser.add_argument(
        "--strict", action="store_true", help="write nothing when an episode fails, instead of leaving it out"
    )
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Export. Returns 1 when an episode of the set was left out."""
    from ares.jobs.progress import Progress
    from ares.registry import exporters

    ws = open_workspace(args)
    chosen = ws.sets[args.set]
    exporter = exporters.get(args.format)
    progress = Progress(f"export {chosen.name}", chosen.episodes, sys.stderr)
    asked = {"strict": True} if args.strict else {}
    report = exporter(ws, chosen, Path(args.dest), progress.advance, **asked)
    progress.close()
    document = report.to_json()
    answer(args, document, lambda: _text(document))
    return 1 if report.failed else 0


def _text(document: dict[str, Json]) -> str:
    told = {name: value for name, value in document.items() if name not in ("failed", "failures")}
    lines = [f"{name}: {value}" for name, value in told.items()]
    if document["failed"]:
        left_out = (
            f"failed: {document['failed']} episodes of the set are not in the export, {FAILED} lists them:"
        )
        lines.append(left_out + tallies(document, "failures"))
    return "\n".join(lines)
