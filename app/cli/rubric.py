"""`ares rubric`: show a rubric, attack its judge, compare producers, and revise captions."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ares.console import count_of
from ares_app.cli.arguments import (
    add_workspace_arguments,
    open_workspace,
    parse_usd_amount,
    parse_user_path,
)
from ares_app.cli.errors import END_STATUSES, ExitStatus
from ares_app.cli.output import Block, OutputTable, answer, paragraphs

if TYPE_CHECKING:
    from ares.statistics import PairedDifference
    from ares.store import Stores
    from ares_annotators.base import Options
    from ares_annotators.grade import AttackedDataset, AttackRun
    from ares_annotators.revise import RevisionRun


def format_attack_report(run: AttackRun) -> Iterator[Block]:
    """What an attack has shown."""
    usd = "unknown" if run.cost.usd is None else f"{run.cost.usd:.4f} USD"
    failed = [f"episodes whose caption could not be graded: {run.failed}"] if run.failed else []
    yield from paragraphs(
        [
            f"judge {run.judge}",
            *(block for name, shown in run.datasets.items() for block in _dataset_blocks(name, shown)),
            *failed,
            f"paid: {count_of(run.cost.calls, 'call')}, {usd}",
            *_warning_lines(run.warnings),
        ]
    )


def _dataset_blocks(name: str, shown: AttackedDataset) -> list[Block]:
    """What was accepted on a dataset: true captions, and false texts by kind."""
    from ares.rubric import KIND_WORDS

    counts = {
        "true captions": shown.true_captions,
        **{KIND_WORDS[kind]: own for kind, own in shown.kinds.items()},
    }
    rows = [
        (text, own.accepted, own.total, f"{own.bounds[0]:.3f}-{own.bounds[1]:.3f}")
        for text, own in counts.items()
    ]
    return [f"{name}:", OutputTable(rows, ("text", "accepted", "of", "95 % interval"))]


def _warning_lines(warnings: Iterable[str]) -> list[str]:
    return [f"warning: {warning}" for warning in warnings]


def describe_difference(name: str, difference: PairedDifference) -> str:
    """A paired difference as one line."""
    return (
        f"{name}: {difference.difference:+.3f}; only first {difference.only_first}, "
        f"only second {difference.only_second}, p {difference.p_value:.3g} (McNemar, exact)"
    )


def _add_paid_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the judge of a command, its episodes, and what it may cost."""
    parser.add_argument(
        "--model", default="", metavar="SPEC", help="ask this judge (default: the configured judge)"
    )
    parser.add_argument(
        "--options",
        type=parse_user_path,
        default="",
        metavar="FILE",
        help="read the judge's options from a file of `ares annotate grade --write-options FILE`",
    )
    parser.add_argument(
        "--where", default="", metavar="SQL", help="take only episodes that fulfil this filter"
    )
    parser.add_argument(
        "--budget", type=parse_usd_amount, metavar="USD", help="stop before this much money is spent"
    )


def _judge_options(args: argparse.Namespace, stores: Stores) -> Options:
    """The judge that the arguments name. Raises RequestError for options that it does not have."""
    from ares_annotators.base import Options
    from ares_app.cli.option_models import read_annotator_options

    _, in_file = read_annotator_options(args.options, ["grade"])
    values = {name.partition(".")[2]: value for name, value in in_file.items()}
    return Options(settings=stores.settings, model=args.model, values={**values, "rubric": args.rubric})


def format_revision_report(run: RevisionRun) -> Iterator[Block]:
    """What a revision has done and shown."""
    usd = "unknown" if run.cost.usd is None else f"{run.cost.usd:.4f} USD"
    change = run.hidden_criteria
    state = "shown" if run.is_adopted else "not shown"
    yield from paragraphs(
        [
            f"{count_of(run.captions, 'caption')} by {run.first}; revised by {run.second}, judge {run.judge}",
            f"criteria of which the captioner is not told: {', '.join(run.hidden)}",
            f"{count_of(run.refused, 'caption')} asked again, {run.changed} changed, {run.compared} compared",
            *([describe_difference("hidden criteria: after - before", change)] if change else []),
            f"the revised captions are {state}: {run.reason}",
            *(f"failed {count}: {reason}" for reason, count in run.failures.items()),
            f"paid: {count_of(run.cost.calls, 'call')}, {usd}",
            *_warning_lines(run.warnings),
        ]
    )


def _revise_captions(args: argparse.Namespace) -> int:
    from ares_annotators.revise import RevisionRequest, run_revision

    stores = open_workspace(args).stores
    options = _judge_options(args, stores)
    request = RevisionRequest(
        rubric=args.rubric,
        captions=args.captions,
        where=args.where,
        budget_usd=args.budget,
    )
    run = run_revision(stores, options, request)
    answer(args, asdict(run), lambda: format_revision_report(run))
    return END_STATUSES.get(run.ended_by, ExitStatus.DONE)


def add_rubric_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_rubric)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    show = actions.add_parser("show", help="the criteria of a rubric, and the hash that its grades carry")
    attack = actions.add_parser("attack", help="grade captions with many controls, and say what passes")
    revise = actions.add_parser(
        "revise", help="ask for refused captions again with what failed, and measure it"
    )
    for action in (show, attack, revise):
        action.add_argument(
            "rubric", nargs="?", default="caption", metavar="RUBRIC", help="a shipped name or a YAML file"
        )
        add_workspace_arguments(action)
    compare = actions.add_parser("compare", help="two producers of one kind, by what people say")
    for name in ("first", "second"):
        compare.add_argument(
            name,
            metavar="PRODUCER",
            help="id, or its start, of a producer of captions, answers, outcomes or grades",
        )
    add_workspace_arguments(compare)
    for action in (attack, revise):
        _add_paid_arguments(action)
    revise.add_argument(
        "--captions",
        default="",
        metavar="PRODUCER",
        help="revise the captions of this producer (default: the only one)",
    )


def run_rubric(args: argparse.Namespace) -> int:
    """Run an action. Returns 1 where half of a kind of false texts is accepted.

    Raises RequestError naming the first field of a rubric that is wrong.
    """
    actions = {"attack": _attack_judge, "compare": _compare_producers, "revise": _revise_captions}
    return actions.get(args.action, _show_rubric)(args)


def _show_rubric(args: argparse.Namespace) -> int:
    from ares_annotators.grade import load_rubric

    rubric = load_rubric(args.rubric)
    document: dict[str, Any] = {**rubric.model_dump(mode="json"), "hash": rubric.hash}
    headline = f"{rubric.id} {rubric.version}  {rubric.hash}"
    rows = [
        (criterion.id, criterion.category, criterion.applies_when, criterion.text)
        for criterion in rubric.criteria
    ]
    table = OutputTable(rows, ("criterion", "category", "applies", "met when"))
    answer(args, document, lambda: paragraphs([headline, table]))
    return 0


def _compare_producers(args: argparse.Namespace) -> int:
    from ares.review import compare_producers

    sides, changes = compare_producers(open_workspace(args).stores, args.first, args.second)
    document = {what: asdict(change) for what, change in changes.items()}
    lines = (
        describe_difference(f"{what}, {change.items} that people judged: second - first", change)
        for what, change in changes.items()
    )
    answer(args, {"first": sides[0], "second": sides[1], "compared": document}, lambda: paragraphs(lines))
    return 0


def _attack_judge(args: argparse.Namespace) -> int:
    from ares_annotators.grade import run_attack

    stores = open_workspace(args).stores
    options = _judge_options(args, stores)
    attack = run_attack(stores, options, args.where, args.budget)
    answer(args, asdict(attack), lambda: format_attack_report(attack))
    return 1 if attack.broken else 0
