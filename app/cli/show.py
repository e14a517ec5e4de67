"""`ares show`: everything known of one episode."""

from __future__ import annotations

import argparse
import json
from typing import Any

from app.cli.common import add_common, answer, open_workspace, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("episode_id", metavar="EPISODE_ID", help="16 hex digits, as search prints them")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Show."""
    from ares.describe import describe_episode

    document: dict[str, Any] = describe_episode(open_workspace(args), args.episode_id)
    answer(args, document, lambda: _text(document))
    return 0


def _text(document: dict[str, Any]) -> str:
    rate = f"{document['rate_hz']:g} Hz ({document['rate_source']})"
    place = f"{document['dataset']} {document['version']} {document['split']} {document['key']}".split()
    rows = [
        ("episode", document["episode_id"]),
        ("dataset", " ".join(place)),
        ("source", document["source"]),
        ("instruction", document["instruction"] or "none"),
        ("success", {True: "yes", False: "no", None: "unknown"}[document["success"]]),
        ("length", f"{document['num_steps']} steps, {document['duration_seconds']:.2f} s at {rate}"),
    ]
    cameras = [
        (
            camera["name"],
            camera["role"],
            f"{camera['width']}x{camera['height']}",
            camera["codec"],
            " ".join(camera["flags"]),
        )
        for camera in document["cameras"]
    ]
    facts = [
        (fact["name"], fact["model"] or "", json.dumps(fact["value"], ensure_ascii=False))
        for fact in document["annotations"]
    ]
    return "\n\n".join(part for part in (table(rows), table(cameras), table(facts)) if part)
