"""`ares status`: what the workspace holds."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from app.cli.common import add_workspace_arguments, open_workspace
from app.cli.makers_table import makers_table
from app.cli.output import Block, OutputTable, answer, paragraphs
from ares.rubric import describe_trust


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_workspace_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print counts of episodes, annotations, sets and table rows, and failures by reason."""
    document: dict[str, Any] = open_workspace(args).status().to_json()
    answer(args, document, lambda: _blocks(document))
    return 0


def _blocks(document: dict[str, Any]) -> Iterator[Block]:
    headline = f"{document['workspace']}: {document['episodes']} episodes"
    if document["removed"]:
        headline += f", {document['removed']} more are removed"
    failures = [tuple(row.values()) for row in document["failures"]]
    tables = (
        OutputTable(list(document["datasets"].items()), ("dataset", "episodes")),
        OutputTable(
            [_clock_row(name, clock) for name, clock in document["clocks"].items()],
            ("stamps of another rate", "episodes", "claimed", "by the stamps, used"),
        ),
        _counts_table("annotation", document["annotations"], ("done", "missing", "failed")),
        OutputTable(_empty_rows(document["empty_columns"]), ("annotator", "episodes", "left empty")),
        makers_table(document["makers"]),
        OutputTable(list(document["sets"].items()), ("set", "episodes")),
        OutputTable(list(document["tags"].items()), ("tag", "episodes")),
        _counts_table("table", document["tables"], ("rows", "indexed", "recall", "p50_ms")),
        OutputTable(failures, ("work", "reason", "count", "example")),
        OutputTable(
            [(name, describe_trust(trust)) for name, trust in document["judge_trust"].items()],
            ("dataset", "the judge of captions by its controls"),
        ),
        _counts_table("calls of", document["spent"], ("calls", "tokens_in", "tokens_out", "usd")),
    )
    return paragraphs([headline, *(table for table in tables if table.rows)])


def _empty_rows(empty_columns: dict[str, dict[str, int]]) -> list[tuple[str, int, str]]:
    return [
        (name, count, reason) for name, reasons in empty_columns.items() for reason, count in reasons.items()
    ]


def _clock_row(name: str, clock: dict[str, Any]) -> tuple[str, int, str, str]:
    return name, clock["episodes"], _rates(*clock["claimed_hz"]), _rates(*clock["measured_hz"])


def _rates(low: float, high: float) -> str:
    texts = dict.fromkeys((f"{low:.4g}", f"{high:.4g}"))
    return f"{' to '.join(texts)} Hz"


def _counts_table(label: str, counts_by_name: dict[str, Any], keys: tuple[str, ...]) -> OutputTable:
    rows = [(name, *(counts[key] for key in keys)) for name, counts in counts_by_name.items()]
    return OutputTable(rows, (label, *keys))
