"""`ares index`: index vectors, so that searches for similar frames, texts and motions stay fast."""

from __future__ import annotations

import argparse

from app.cli.common import add_workspace_arguments, open_workspace
from app.cli.output import OutputTable, answer

_HEADER = ("table", "rows", "indexed", "recall", "ms (median)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_workspace_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Bring the indexes up to date, and print what they cover."""
    tables = open_workspace(args).index()
    documents = {name: table.to_json() for name, table in tables.items()}
    rows = [(name, table.rows, table.indexed, table.recall, table.p50_ms) for name, table in tables.items()]
    answer(args, documents, lambda: OutputTable(rows, _HEADER) if rows else "no vectors")
    return 0
