"""`ares status`: what the workspace holds."""

from __future__ import annotations

import argparse
from typing import Any

from app.cli.common import add_common, answer, open_workspace, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Print the status."""
    from ares.describe import describe_workspace, failures_by_reason

    ws = open_workspace(args)
    document: dict[str, Any] = {**describe_workspace(ws), "failures": failures_by_reason(ws)}
    answer(args, document, lambda: _text(document))
    return 0


def _text(document: dict[str, Any]) -> str:
    parts = [
        f"{document['workspace']}: {document['episodes']} episodes",
        table(list(document["datasets"].items()), ("dataset", "episodes")),
        _counts("annotation", document["annotations"], ("done", "missing", "failed")),
        table(list(document["sets"].items()), ("set", "episodes")),
        _counts("table", document["tables"], ("rows", "indexed", "recall", "p50_ms")),
        table([tuple(row.values()) for row in document["failures"]], ("work", "reason", "count", "example")),
    ]
    return "\n\n".join(part for part in parts if part.count("\n") or part is parts[0])


def _counts(what: str, rows: dict[str, Any], keys: tuple[str, ...]) -> str:
    return table([(name, *(counts[key] for key in keys)) for name, counts in rows.items()], (what, *keys))
