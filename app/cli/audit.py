"""`ares audit`: episodes of a workspace whose instruction does not fit, and near duplicates."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ares.console import count_of
from ares.errors import RequestError
from ares_app.cli.arguments import add_workspace_arguments, open_workspace
from ares_app.cli.errors import ExitStatus
from ares_app.cli.output import Block, Columns, answer, make_table, paragraphs

if TYPE_CHECKING:
    from ares.curation import Copies
    from ares.review import InstructionAudit
    from ares.workspace import DuplicateTable, Workspace


# Groups of near duplicates that are listed; the JSON has all.
_LISTED_GROUPS = 50
# Of an episode that another instruction fits better, with its dataset.
_FINDING_COLUMNS: Columns = {
    "dataset": lambda pair: pair[0],
    "episode": lambda pair: pair[1].episode_id,
    "instruction": lambda pair: pair[1].instruction,
    "fits better": lambda pair: pair[1].proposed,
    "share": lambda pair: f"{pair[1].share:.3f}",
}


def add_audit_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_audit)
    parser.add_argument(
        "what",
        choices=list(_AUDITS),
        metavar="WHAT",
        help="instructions: which another instruction of the dataset fits better; duplicates: near duplicates, kept as "
        "a column",
    )
    parser.add_argument(
        "dataset", nargs="*", metavar="DATASET", help="datasets of the workspace (default: all)"
    )
    add_workspace_arguments(parser)


def run_audit(args: argparse.Namespace) -> int:
    """Audit episodes of the workspace. Returns 1 where one is named."""
    return _AUDITS[args.what](open_workspace(args), args)


def _audit_instructions(workspace: Workspace, args: argparse.Namespace) -> int:
    audits = workspace.review.audit_instructions(*args.dataset)
    answer(args, [audit.to_json() for audit in audits], lambda: paragraphs(_audit_blocks(audits)))
    return ExitStatus.ITEMS_FAILED if any(audit.findings for audit in audits) else ExitStatus.DONE


def _find_duplicates(workspace: Workspace, args: argparse.Namespace) -> int:
    from ares.store import in_condition
    from ares.workspace import is_dataset

    for name in args.dataset:
        if not is_dataset(workspace.stores, name):
            raise RequestError(f"no dataset {name!r} in the workspace", "`ares status` lists its datasets")
    view = workspace.episodes
    table = (view.where(in_condition("dataset", args.dataset)) if args.dataset else view).find_duplicates()
    copies = table.compared
    assert copies is not None
    document = {**copies.to_json(), "groups": table.to_json()}
    answer(args, document, lambda: paragraphs(_duplicate_blocks(table, copies)))
    return ExitStatus.ITEMS_FAILED if table else ExitStatus.DONE


_AUDITS: Mapping[str, Callable[[Workspace, argparse.Namespace], int]] = {
    "instructions": _audit_instructions,
    "duplicates": _find_duplicates,
}


def _duplicate_blocks(table: DuplicateTable, copies: Copies) -> Iterator[Block]:
    if table:
        yield make_table(table.shown, table[:_LISTED_GROUPS])
    if len(table) > _LISTED_GROUPS:
        yield f"... {count_of(len(table) - _LISTED_GROUPS, 'more group')}; --json has all"
    ways = ", ".join(f"{count} by {way}" for way, count in copies.compared.items())
    episodes = sum(len(group.ids) for group in table)
    yield (
        f"{count_of(len(table), 'group')} of near duplicates with {count_of(episodes, 'episode')} among "
        f"{count_of(len(copies.ids), 'episode')}; compared: {ways}"
    )
    if table:
        yield (
            "the column duplicate_group has them: a filter of `ares app`, whose page Compare shows the pairs",
            f"`ares search --where \"duplicate_group = '{table[0].name}'\"` lists the largest group",
        )


def _audit_blocks(audits: Sequence[InstructionAudit]) -> Iterator[Block]:
    findings = [(audit.dataset, finding) for audit in audits for finding in audit.findings]
    if findings:
        yield make_table(_FINDING_COLUMNS, findings)
    yield tuple(str(audit) for audit in audits)
    if findings:
        yield "`ares review create NAME --instructions` asks people about them; no source is changed"
