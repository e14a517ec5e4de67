"""Commands on the state of a workspace: `ares status`, `statistics`, `failures`, `models`, `index`, `use`, `doctor`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from app.cli.arguments import (
    add_workspace_arguments,
    add_yes_argument,
    ask_for_confirmation,
    describe_uncounted,
    episode_count,
    open_workspace,
)
from app.cli.output import Block, OutputTable, answer, make_makers_table, paragraphs
from ares.console import count_of, write_stderr
from ares.errors import RequestError
from ares.rubric import describe_trust
from ares.workspace import makers_to_json

if TYPE_CHECKING:
    from annotators.models import ModelDescription
    from ares.doctor import Finding
    from ares.workspace import Workspace


def add_status_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_workspace_arguments(parser)


def run_status(args: argparse.Namespace) -> int:
    """Print counts of episodes, annotations, sets and table rows, and failures by reason."""
    document: dict[str, Any] = open_workspace(args).status().to_json()
    answer(args, document, lambda: _status_blocks(document))
    return 0


def add_statistics_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "by", metavar="NAME", help="task, robot, operator, scene, day, a column, or a key of the metadata"
    )
    parser.add_argument("--where", default="", metavar="SQL", help="only episodes that fulfil this filter")
    add_workspace_arguments(parser, rows=True)


def run_statistics(args: argparse.Namespace) -> int:
    """Print a row for each group of episodes. Raises RequestError for a name that makes no groups."""
    view = open_workspace(args).episodes
    groups = (view.where(args.where) if args.where else view).count_by(args.by)
    header = (args.by, *list(groups.shown)[1:])
    rows = [tuple(cell(group) for cell in groups.shown.values()) for group in groups]
    documents = [group.to_json() for group in groups]
    answer(args, documents, lambda: OutputTable(rows, header) if rows else "no episodes", documents)
    return 0


def _status_blocks(document: dict[str, Any]) -> Iterator[Block]:
    headline = f"{document['workspace']}: {count_of(document['episodes'], 'episode')}"
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
        make_makers_table(document["makers"]),
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
    own = [name.partition("/")[2] for name, table in document["tables"].items() if table.get("own")]
    line = f"vectors of your own: {', '.join(own)}; `ares remove --vectors NAME` deletes them"
    mixed = [
        f"{count_of(count, 'episode')} with a {name} by an older maker: `ares use {name}=MAKER` shows one maker alone"
        for name, count in document["mixed_makers"].items()
    ]
    lines = [*([line] if own else ()), *mixed, *describe_uncounted(document["uncounted_answers"])]
    return paragraphs([headline, *(table for table in tables if table.rows), *lines])


def _empty_rows(empty_columns: dict[str, dict[str, int]]) -> list[tuple[str, int, str]]:
    return [
        (name, count, reason) for name, reasons in empty_columns.items() for reason, count in reasons.items()
    ]


def _clock_row(name: str, clock: dict[str, Any]) -> tuple[str, int, str, str]:
    return name, clock["episodes"], _rate_range(*clock["claimed_hz"]), _rate_range(*clock["measured_hz"])


def _rate_range(low: float, high: float) -> str:
    texts = dict.fromkeys((f"{low:.4g}", f"{high:.4g}"))
    return f"{' to '.join(texts)} Hz"


def _counts_table(label: str, counts_by_name: dict[str, Any], keys: tuple[str, ...]) -> OutputTable:
    rows = [(name, *(counts[key] for key in keys)) for name, counts in counts_by_name.items()]
    return OutputTable(rows, (label, *keys))


def add_failures_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="logged failures with their reasons")
    listing.add_argument(
        "--limit", type=episode_count, default=50, metavar="N", help="at most N failures (default: 50)"
    )
    clear = actions.add_parser("clear", help="clear failures, until the same work fails again")
    accept = actions.add_parser(
        "accept", help="accept failures as known: a run in which nothing else fails ends with exit status 0"
    )
    for action in (clear, accept):
        add_yes_argument(action)
        action.add_argument(
            "name",
            nargs="*",
            metavar="NAME",
            help="only failures of this subject, or with this text in their detail, such as a file",
        )
    for action in (listing, clear, accept):
        action.add_argument(
            "--annotator", default="", metavar="NAME", help='only failures of this annotator, or of "ingest"'
        )
        action.add_argument(
            "--reason", default="", metavar="TEXT", help="only failures whose reason contains this text"
        )
        action.add_argument(
            "--where", default="", metavar="SQL", help="only failures about episodes that fulfil this filter"
        )
        add_workspace_arguments(action, rows=action is listing)


def run_failures(args: argparse.Namespace) -> int:
    """List, clear or accept failures. Returns 1 when the answer to the question is no."""
    workspace = open_workspace(args)
    if args.action == "list":
        _list_failures(workspace, args)
        return 0
    return _act_on_failures(workspace, args)


def _list_failures(workspace: Workspace, args: argparse.Namespace) -> None:
    from ares.curation import FailureSelection, list_failures

    selection = FailureSelection(work=args.annotator, reason=args.reason, where=args.where)
    failures = list_failures(workspace.stores, selection)
    listed = list(islice(failures, args.limit))
    rows = [
        (item.work, item.subject, item.reason, item.detail, item.created, "yes" if item.is_accepted else "")
        for item in listed
    ]
    documents = [item.to_json() for item in listed]
    header = ("work", "subject", "reason", "detail", "when", "accepted")
    answer(args, documents, lambda: OutputTable(rows, header) if rows else "no failures", documents)


def _act_on_failures(workspace: Workspace, args: argparse.Namespace) -> int:
    from ares.curation import FailureSelection, accept_failures, clear_failures, list_failures

    selection = FailureSelection(work=args.annotator, reason=args.reason, where=args.where, names=args.name)
    count = sum(1 for _ in list_failures(workspace.stores, selection))
    if not count:
        raise RequestError("no failure matches", "`ares failures list` shows them")
    done, act = ("cleared", clear_failures) if args.action == "clear" else ("accepted", accept_failures)
    if not ask_for_confirmation(
        args, f"{args.action} {count_of(count, 'failure')}? what failed stays undone"
    ):
        write_stderr(f"nothing was {done}")
        return 1
    action = act(workspace.stores, selection)
    back = "brings them back" if args.action == "clear" else "takes that back"
    text = f"{done} {count_of(action.count, 'failure')}; `ares undo {action.number}` {back}"
    answer(args, action.to_json(), lambda: text)
    return 0


_MODELS_HEADER = (
    "for",
    "model",
    "family",
    "language model",
    "weights",
    "disk",
    "GPU memory",
    "licence",
    "where",
)


def add_models_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--check", action="store_true", help="ask the model server and the hub as well; needs the network"
    )
    add_workspace_arguments(parser)


def run_models(args: argparse.Namespace) -> int:
    """Print the models. Returns 1 when one of them is neither here nor to be had."""
    from annotators.models import describe_models, shared_language_model
    from ares.settings import settings_from_environment

    models = describe_models(settings_from_environment(), args.check)
    shared = shared_language_model(models)
    document = {"models": [model.to_json() for model in models], "shared_language_model": shared}
    answer(args, document, lambda: paragraphs(_model_blocks(models, shared)))
    return 1 if any(model.state == "missing" for model in models) else 0


def _model_blocks(models: list[ModelDescription], shared: str) -> Iterator[Block]:
    yield OutputTable([_model_row(model) for model in models], _MODELS_HEADER)
    if shared:
        yield (
            f"captioner and judge have a language model of one family ({shared}): they share errors; "
            "set ARES_JUDGE_MODEL to a model of another family"
        )


def _model_row(model: ModelDescription) -> tuple[object, ...]:
    where = model.location if model.state in ("here", "server") else model.state
    where = f"missing: {model.location}" if model.state == "missing" else where
    return (
        model.role,
        model.spec,
        model.family or "unknown",
        model.language_model or ("" if model.family == "clip" else "unknown"),
        _billions_text(model.parameters),
        _gigabytes_text(model.disk_bytes),
        _gigabytes_text(model.memory_bytes),
        model.licence or "unknown",
        f"{where}; {model.check}" if model.check else where,
    )


def _billions_text(count: int | None) -> str:
    if count is None:
        return "unknown"
    return f"{count / 1e9:.1f} B" if count >= 1e9 else f"{count / 1e6:.0f} M"


def _gigabytes_text(count: int | None) -> str:
    if count is None:
        return "unknown"
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


_INDEX_HEADER = ("table", "rows", "indexed", "recall", "ms (median)")


def add_index_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
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
    parser.add_argument(
        "choices",
        nargs="*",
        metavar="ANNOTATOR=MAKER",
        help="a maker's id or the start of it, or `newest`; without any, all makers are shown",
    )
    add_workspace_arguments(parser)


def run_use(args: argparse.Namespace) -> int:
    """Pin makers and print all. Raises RequestError for an unknown annotator or maker."""
    choices, workspace = _parse_choices(args.choices), open_workspace(args)
    if choices:
        workspace.use(**choices)
    makers: dict[str, Any] = makers_to_json(workspace.makers())
    answer(args, {"makers": makers}, lambda: make_makers_table(makers))
    return 0


def _parse_choices(texts: list[str]) -> dict[str, str]:
    """Maker by annotator. Raises RequestError for a text of another form, or two makers of an annotator."""

    choices: dict[str, str] = {}
    for text in texts:
        annotator, equals, maker = text.partition("=")
        if not equals or annotator in choices:
            problem = "names an annotator again" if equals else "is not ANNOTATOR=MAKER"
            raise RequestError(f"{text!r} {problem}", "give for example caption=newest, once per annotator")
        choices[annotator] = maker
    return choices


def add_doctor_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
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
    findings = open_workspace(args).doctor(repair=args.repair, rebuild=args.rebuild, relocate=moves)
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
