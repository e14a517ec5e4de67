"""`ares export`: write a set as a training dataset."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from app.cli.common import add_common, answer, open_workspace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    from ares.registry import exporters

    parser.add_argument("set", metavar="SET", help="name of a set, or name@version")
    parser.add_argument("dest", metavar="DEST", help="folder to write; must not be there yet")
    parser.add_argument("--format", required=True, metavar="NAME", help=", ".join(exporters.names()))
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Export."""
    from ares.jobs.progress import Progress
    from ares.registry import exporters

    ws = open_workspace(args)
    chosen = ws.sets[args.set]
    exporter = exporters.get(args.format)
    progress = Progress(f"export {chosen.name}", chosen.episodes, sys.stderr)
    report = exporter(ws, chosen, Path(args.dest), progress.advance)
    progress.close()
    document = report.to_json()
    answer(args, document, lambda: "\n".join(f"{name}: {value}" for name, value in document.items()))
    return 0
