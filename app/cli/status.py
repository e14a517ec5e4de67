"""Commands on the state of a workspace: `ares status`, `statistics`, `index`, `use`, `doctor`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from ares.console import count_of
from ares.errors import RequestError
from ares.rubric import describe_tripwire
from ares.workspace import producers_to_json
from ares_app.cli.arguments import (
    add_workspace_arguments,
    describe_uncounted,
    open_workspace,
)
from ares_app.cli.output import Block, Columns, OutputTable, answer, answer_list, make_table, paragraphs

if TYPE_CHECKING:
    from ares.doctor import Finding
    from ares.workspace import DatasetCoverage


def add_status_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_status)
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="only say how many episodes of each dataset are declared and stored; exit status 1 where one is not whole",
    )
    add_workspace_arguments(parser)


def run_status(args: argparse.Namespace) -> int:
    """Print counts of episodes, annotations, sets and table rows, and failures by reason, or what each dataset has."""
    if args.coverage:
        rows = open_workspace(args).coverage()
        columns: Columns = {name: partial(_coverage_cell, name) for name in _COVERAGE_COLUMNS}
        document: dict[str, Any] = {"datasets": [row.to_json() for row in rows]}
        answer(args, document, lambda: make_table(columns, rows) if rows else "no datasets")
        return int(not all(row.is_whole for row in rows))
    document = open_workspace(args).status().to_json()
    answer(args, document, lambda: _status_blocks(document))
    return 0


_COVERAGE_COLUMNS = ("dataset", "declared", "listed", "kept", "removed", "incomplete", "failed")


def _coverage_cell(name: str, row: DatasetCoverage) -> object:
    value = getattr(row, name)
    return "not known" if value is None else value


def add_statistics_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_statistics)
    parser.add_argument(
        "by", metavar="NAME", help="task, robot, operator, scene, day, a column, or a key of the metadata"
    )
    parser.add_argument(
        "--where", default="", metavar="SQL", help="count only episodes that fulfil this filter"
    )
    add_workspace_arguments(parser, rows=True)


def run_statistics(args: argparse.Namespace) -> int:
    """Print a row for each group of episodes. Raises RequestError for a name that makes no groups."""
    view = open_workspace(args).episodes
    groups = (view.where(args.where) if args.where else view).count_by(args.by)
    columns = {args.by if name == "value" else name: cell for name, cell in groups.shown.items()}
    answer_list(args, groups, columns, groups.empty)
    return 0


def _status_blocks(document: dict[str, Any]) -> Iterator[Block]:
    headline = f"{document['workspace']}: {count_of(document['episodes'], 'episode')}"
    if document["removed"]:
        headline += f", {document['removed']} more are removed"
    failures = [tuple(row.values()) for row in document["failures"]]
    tables = (
        OutputTable(list(document["datasets"].items()), ("dataset", "episodes")),
        _counts_table("annotation", document["annotations"], ("done", "missing", "failed")),
        OutputTable(_empty_rows(document["empty_columns"]), ("annotator", "episodes", "left empty")),
        _producers_table(document["makers"]),
        OutputTable(list(document["sets"].items()), ("set", "episodes")),
        OutputTable(list(document["tags"].items()), ("tag", "episodes")),
        _counts_table("table", document["tables"], ("rows", "indexed", "recall", "p50_ms")),
        OutputTable(failures, ("work", "reason", "count", "example")),
        OutputTable(
            [(name, describe_tripwire(tripwire)) for name, tripwire in document["judge_tripwire"].items()],
            ("dataset", "the judge of captions by its controls"),
        ),
        OutputTable(
            [
                (name, share["says"])
                for name, shares in document["measured"].items()
                for share in shares.values()
            ],
            ("dataset", "measured by people"),
        ),
        _counts_table("calls of", document["spent"], ("calls", "tokens_in", "tokens_out", "usd")),
    )
    mixed = [
        f"{count_of(count, 'episode')} with a {name} by an older producer: "
        f"`ares use {name}=PRODUCER` shows that one alone"
        for name, count in document["mixed_makers"].items()
    ]
    lines = [*mixed, *describe_uncounted(document["uncounted_answers"])]
    return paragraphs([headline, *(table for table in tables if table.rows), *lines])


def _empty_rows(empty_columns: dict[str, dict[str, int]]) -> list[tuple[str, int, str]]:
    return [
        (name, count, reason) for name, reasons in empty_columns.items() for reason, count in reasons.items()
    ]


def _counts_table(label: str, counts_by_name: dict[str, Any], keys: tuple[str, ...]) -> OutputTable:
    rows = [(name, *(counts[key] for key in keys)) for name, counts in counts_by_name.items()]
    return OutputTable(rows, (label, *keys))


def _producers_table(producers: dict[str, Any]) -> OutputTable:
    """The producers of every annotator, and which of them fill the columns."""
    rows = [
        (
            annotator,
            producer["maker_id"],
            producer["kind"],
            producer["model"] or f"version {producer['version']}",
            producer["annotations"],
            _column_use(producer, members),
            _differing_settings(producer, members),
        )
        for annotator, members in producers.items()
        for producer in members
    ]
    return OutputTable(rows, ("producers of", "producer", "kind", "model", "annotations", "used", "settings"))


def _column_use(producer: dict[str, Any], members: list[dict[str, Any]]) -> str:
    """Whether the values of a producer fill the columns: people and a consensus come first unless another is pinned."""
    if any(member["pinned"] for member in members):
        return "pinned" if producer["pinned"] else ""
    return "newest" if producer["current"] else "first" if producer["kind"] in ("person", "consensus") else ""


def _differing_settings(producer: dict[str, Any], members: list[dict[str, Any]]) -> str:
    """The version, prompts and settings of a producer that another producer of its annotator has not."""
    details = [_producer_details(member) for member in members]
    return ", ".join(
        f"{name}={value}"
        for name, value in _producer_details(producer).items()
        if any(other.get(name) != value for other in details)
    )


def _producer_details(producer: dict[str, Any]) -> dict[str, Any]:
    return {"version": producer["version"], "prompts": producer["prompt_hash"], **producer["settings"]}


_INDEX_HEADER = ("table", "rows", "indexed", "recall", "ms (median)")


def add_index_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_index)
    add_workspace_arguments(parser)


def run_index(args: argparse.Namespace) -> int:
    """Bring the indexes up to date, and print what they cover."""
    tables = open_workspace(args).index()
    documents = {name: table.to_json() for name, table in tables.items()}
    rows = [(name, table.rows, table.indexed, table.recall, table.p50_ms) for name, table in tables.items()]
    answer(args, documents, lambda: OutputTable(rows, _INDEX_HEADER) if rows else "no vectors")
    return 0


def add_use_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_use)
    parser.add_argument(
        "choices",
        nargs="*",
        metavar="ANNOTATOR=PRODUCER",
        help="a producer's id or the start of it, or `newest`; without any, all producers are shown",
    )
    add_workspace_arguments(parser)


def run_use(args: argparse.Namespace) -> int:
    """Pin producers and print all. Raises RequestError for an unknown annotator or producer."""
    choices, workspace = _parse_choices(args.choices), open_workspace(args)
    if choices:
        workspace.use(**choices)
    producers: dict[str, Any] = producers_to_json(workspace.producers())
    answer(args, {"makers": producers}, lambda: _producers_table(producers))
    return 0


def _parse_choices(texts: list[str]) -> dict[str, str]:
    """Producer by annotator. Raises RequestError for a text of another form, or two producers of an annotator."""

    choices: dict[str, str] = {}
    for text in texts:
        annotator, equals, producer = text.partition("=")
        if not equals or annotator in choices:
            problem = "names an annotator again" if equals else "is not ANNOTATOR=PRODUCER"
            raise RequestError(f"{text!r} {problem}", "give for example caption=newest, once per annotator")
        choices[annotator] = producer
    return choices


def add_doctor_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_doctor)
    parser.add_argument(
        "--repair", action="store_true", help="repair what can be repaired without losing data"
    )
    parser.add_argument(
        "--rebuild",
        action="store_true",
        help="drop the columns and segments that come from the annotation log, and make them from it again",
    )
    parser.add_argument(
        "--relocate",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="say that source files under the folder or URL OLD are under NEW now; may be given several times",
    )
    add_workspace_arguments(parser, rows=True)


def run_doctor(args: argparse.Namespace) -> int:
    """Relocate source files if requested, then run every check. Returns 1 while something is broken."""
    from ares.doctor import parse_relocation

    moves = [parse_relocation(text) for text in args.relocate]
    findings = open_workspace(args).doctor(repair=args.repair, rebuild=args.rebuild, relocate=moves)
    lines = [_finding_line(finding) for finding in findings]
    documents = [finding.to_json() for finding in findings]
    answer(args, documents, lambda: tuple(lines) or "all promises between the stores hold", documents)
    return 1 if any(not finding.repaired for finding in findings) else 0


def _finding_line(finding: Finding) -> str:
    if finding.repaired and not finding.count:
        return f"{finding.check}: {finding.example}"
    text = f"{finding.check}: {finding.count} ({finding.example})"
    return f"repaired: {text}" if finding.repaired else f"BROKEN: {text}; {finding.remedy}"
