"""`ares show`: everything known of one episode."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from app.cli.common import add_workspace_arguments, open_workspace
from app.cli.output import Block, OutputTable, answer, paragraphs

# Recorders round their stamps to a thousandth of a second.
_SHOWN_SHIFT_SECONDS = 1e-3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "episode_id", metavar="EPISODE_ID", help="16 hex digits, as search prints them, or the start of them"
    )
    add_workspace_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the episode. Raises RequestError for an unknown id."""
    document: dict[str, Any] = open_workspace(args).episodes[args.episode_id].to_json()
    answer(args, document, lambda: _blocks(document))
    return 0


def _blocks(document: dict[str, Any]) -> Iterator[Block]:
    tables = (_summary_rows(document), _camera_rows(document), _annotation_rows(document))
    return paragraphs(OutputTable(rows) for rows in tables if rows)


def _summary_rows(document: dict[str, Any]) -> list[tuple[str, str]]:
    rate = f"{document['rate_hz']:g} Hz ({_rate_origin(document)})"
    origin = f"{document['dataset']} {document['version']} {document['split']} {document['key']}".split()
    return [
        ("episode", document["episode_id"]),
        ("dataset", " ".join(origin)),
        ("source", document["source"]),
        ("instruction", document["instruction"] or "none"),
        ("success", {True: "yes", False: "no", None: "unknown"}[document["success"]]),
        *(
            [("judge", f"{document['grade_trust']} in {document['dataset']}")]
            if document["grade_trust"]
            else ()
        ),
        ("tags", ", ".join(tag["tag"] for tag in document["tags"]) or "none"),
        ("notes", "; ".join(f"{note['note']} ({note['person']})" for note in document["notes"]) or "none"),
        ("length", f"{document['num_steps']} steps, {document['duration_seconds']:.2f} s at {rate}"),
    ]


def _rate_origin(document: dict[str, Any]) -> str:
    """Where the rate comes from; where it is measured, beside what the source claims, and how uneven the clock is."""
    origin = str(document["rate_source"])
    if origin == "measured" and document["claimed_rate_hz"]:
        origin += f", the source claims {document['claimed_rate_hz']:g} Hz"
    if document["clock_shift_seconds"] > _SHOWN_SHIFT_SECONDS:
        origin += f", uneven by up to {document['clock_shift_seconds']:.3f} s"
    return origin


def _camera_rows(document: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (
            camera["name"],
            camera["role"],
            f"{camera['width']}x{camera['height']}",
            camera["codec"],
            " ".join(camera["flags"]),
        )
        for camera in document["cameras"]
    ]


def _annotation_rows(document: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (
            annotation["name"] if annotation["shown"] else f"{annotation['name']}, not shown",
            annotation["model"] or "",
            json.dumps(annotation["value"], ensure_ascii=False),
        )
        for annotation in document["annotations"]
    ]
