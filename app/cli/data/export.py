"""`ares export`: write a set as a training dataset."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from app.cli.common import add_workspace_arguments, open_workspace
from app.cli.output import answer, tallies
from ares.episode import Json
from ares.export import FAILURES_FILE, TASK_SOURCES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    from ares.registry import exporters

    parser.add_argument("set", metavar="SET", help="name of a set, or name@version")
    parser.add_argument("dest", metavar="DEST", help="folder to write; must not be there yet")
    parser.add_argument("--format", required=True, metavar="NAME", help=", ".join(exporters.names()))
    parser.add_argument(
        "--task",
        choices=TASK_SOURCES,
        default="instruction",
        help="task of every episode: its instruction (default), or its caption where that is acceptable",
    )
    parser.add_argument(
        "--strict", action="store_true", help="write nothing when an episode fails, instead of leaving it out"
    )
    add_workspace_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Export the set. Returns 1 when an episode of the set was left out."""
    from ares.jobs import Progress
    from ares.registry import exporters

    workspace = open_workspace(args)
    episode_set = workspace.sets[args.set]
    exporter = exporters.get(args.format)
    progress = Progress(f"export {episode_set.name}", episode_set.episodes, sys.stderr)
    report = exporter(workspace.stores, episode_set, Path(args.dest), progress.advance, **_options(args))
    progress.close()
    document = report.to_json()
    answer(args, document, lambda: _text(document))
    return 1 if report.failed else 0


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Options that are not the default: exporters of other packages may not know them."""
    strict = {"strict": True} if args.strict else {}
    return strict if args.task == "instruction" else {**strict, "task": args.task}


def _text(document: dict[str, Json]) -> str:
    lines = [f"{name}: {value}" for name, value in document.items() if name not in ("failed", "failures")]
    if document["failed"]:
        headline = (
            f"failed: {document['failed']} episodes of the set are not in the export, "
            f"{FAILURES_FILE} lists them:"
        )
        lines.append(headline + tallies(document, "failures"))
    return "\n".join(lines)
