"""What `ares check` looks for in a workspace: instructions that do not fit, copies, and where its sources lie."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.arguments import open_workspace
from app.cli.errors import ExitStatus
from app.cli.output import Block, Columns, answer, make_table, paragraphs
from ares.console import count_of, print_message
from ares.errors import RequestError

if TYPE_CHECKING:
    from ares.curation import Copies
    from ares.review import InstructionAudit
    from ares.workspace import DuplicateTable


# Groups of near duplicates that are listed; the JSON has all.
_LISTED_GROUPS = 50
# Of an episode that another instruction fits better, with its dataset.
_FINDING_COLUMNS: Columns = {
    "dataset": lambda pair: pair[0],
    "episode": lambda pair: pair[1].episode_id,
    "instruction": lambda pair: pair[1].instruction,
    "fits better": lambda pair: pair[1].proposed,
    "share": lambda pair: f"{pair[1].share:.3f}",
    "camera": lambda pair: pair[1].camera,
    "deciding frames": lambda pair: ", ".join(f"{second:.1f} s" for second in pair[1].seconds),
}


def name_workspace_sources(args: argparse.Namespace, folder: Path) -> None:
    """Set `source` and `options` of the arguments: the datasets of the workspace, with what they were read with.

    Args:
        args: Parsed arguments without a source.
        folder: An empty folder, for a file of options and specs.

    Raises:
        RequestError: There is no workspace, or none of its sources is where it was.
    """
    from ares.contract import DatasetKey, read_contracts
    from ares.io import existing_path
    from ares.settings import settings_from_environment
    from ares.store import workspace_exists
    from ingest.discovery import stored_datasets

    if not args.workspace and not workspace_exists(settings_from_environment().workspace):
        raise RequestError(
            "no SOURCE is given", "name a folder or a file, or with -w a workspace whose sources are checked"
        )
    stores = open_workspace(args).stores
    options, missing = dict[str, dict[str, Any]](), list[str]()
    for dataset in stored_datasets(stores):
        key = DatasetKey(dataset.format, dataset.dataset, dataset.version)
        facts: Any = read_contracts(stores.annotations, key).source
        path = str(facts.get("folder") or dataset.folder or dataset.source)
        try:
            existing_path(path)
        except RequestError:
            missing.append(f"{dataset.dataset} ({path})")
            continue
        stated = facts.get("options") or {}
        how = {"rate": stated.get("rate_hz"), "cameras": stated.get("cameras")}
        if stated.get("spec"):
            spec = folder / f"spec-{len(options)}.yaml"
            spec.write_text(json.dumps(stated["spec"]))  # JSON is YAML
            how["spec"] = str(spec)
        # Several datasets of one folder are read as they are recognised.
        how = {} if path in options else {"format": dataset.format, "dataset": dataset.dataset, **how}
        options[path] = {name: value for name, value in how.items() if value}
    listed = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
    if not options:
        why = f"not there: {listed}; `ares doctor --relocate OLD=NEW`" if missing else "it has no episodes"
        raise RequestError("the workspace has no sources that can be checked", f"{why}, or name a SOURCE")
    if missing:
        print_message(f"not checked, as they are not where they were: {listed}")
    print_message(f"checking the sources of the workspace: {', '.join(options)}")
    (folder / "options.yaml").write_text(json.dumps({"datasets": options}))
    args.source, args.options = [*options], str(folder / "options.yaml")


def audit_instructions(args: argparse.Namespace, others: Sequence[str]) -> int:
    """Audit instructions of the workspace, with none of the other options. Returns 1 where an episode is named."""
    _refuse_others(args, "instructions", others)
    audits = open_workspace(args).review.audit_instructions(*args.source)
    answer(args, [audit.to_json() for audit in audits], lambda: paragraphs(_audit_blocks(audits)))
    return ExitStatus.ITEMS_FAILED if any(audit.findings for audit in audits) else ExitStatus.DONE


def _refuse_others(args: argparse.Namespace, option: str, others: Sequence[str]) -> None:
    """Raise RequestError for an option that is for files, or that asks for something else of the workspace."""
    options = [name for name in others if getattr(args, name)]
    if options:
        raise RequestError(
            f"--{options[0].replace('_', '-')} does not go with --{option}", "give one of them"
        )


def find_duplicates(args: argparse.Namespace, others: Sequence[str]) -> int:
    """Keep the near duplicates of the workspace as columns, with none of the other options.

    Returns 1 where there are some.
    """
    from ares.store import in_condition
    from ares.workspace import is_dataset

    _refuse_others(args, "duplicates", (*others, "instructions"))
    workspace = open_workspace(args)
    for name in args.source:
        if not is_dataset(workspace.stores, name):
            raise RequestError(f"no dataset {name!r} in the workspace", "`ares status` lists its datasets")
    view = workspace.episodes
    table = (view.where(in_condition("dataset", args.source)) if args.source else view).find_duplicates()
    copies = table.compared
    assert copies is not None
    document = {**copies.to_json(), "groups": table.to_json()}
    answer(args, document, lambda: paragraphs(_duplicate_blocks(table, copies)))
    return ExitStatus.ITEMS_FAILED if table else ExitStatus.DONE


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
