"""`ares doctor`: check the stores against each other, and repair them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from app.cli.arguments import add_workspace_arguments, open_workspace
from app.cli.output import OutputTable, answer

if TYPE_CHECKING:
    from ares.doctor import Finding


def add_doctor_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--repair", action="store_true", help="repair what can be repaired without losing data"
    )
    parser.add_argument(
        "--relocate",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="source files under the folder or URL OLD are under NEW now; may be given several times",
    )
    parser.add_argument(
        "--environment",
        action="store_true",
        help="tell what this machine offers: Python, extras, GPU, disk, codecs, network; opens no workspace",
    )
    add_workspace_arguments(parser, rows=True)


def run_doctor(args: argparse.Namespace) -> int:
    """Relocate source files if requested, then run every check. Returns 1 while something is broken."""
    if args.environment:
        return _describe_environment(args)
    from ares.doctor import parse_relocation

    moves = [parse_relocation(text) for text in args.relocate]
    findings = open_workspace(args).doctor(repair=args.repair, relocate=moves)
    lines = [_finding_line(finding) for finding in findings]
    documents = [finding.to_json() for finding in findings]
    answer(args, documents, lambda: tuple(lines) or "all promises between the stores hold", documents)
    return 1 if any(not finding.repaired for finding in findings) else 0


def _describe_environment(args: argparse.Namespace) -> int:
    from ares.doctor import describe_environment

    facts = describe_environment(args.workspace or "")
    documents = [fact.to_json() for fact in facts]
    rows = [(fact.name, f"{fact.value}; {fact.advice}" if fact.advice else fact.value) for fact in facts]
    answer(args, documents, lambda: OutputTable(rows), documents)
    return 0


def _finding_line(finding: Finding) -> str:
    if finding.repaired and not finding.count:
        return f"{finding.check}: {finding.example}"
    text = f"{finding.check}: {finding.count} ({finding.example})"
    return f"repaired: {text}" if finding.repaired else f"BROKEN: {text}; {finding.remedy}"
