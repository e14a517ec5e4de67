"""`ares rubric`: show and check rubrics, attack their judge, and revise captions."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from app.cli.arguments import (
    add_workspace_arguments,
    episode_count,
    open_workspace,
    parse_torch_device,
    parse_usd_amount,
    seed_number,
)
from app.cli.errors import END_STATUSES, ExitStatus
from app.cli.output import Block, OutputTable, answer, paragraphs
from ares.console import count_of

if TYPE_CHECKING:
    from annotators.grade import AttackedDataset, AttackQuote, AttackRun
    from annotators.revise import RevisionQuote, RevisionRun
    from ares.statistics import PairedDifference


def format_attack_quote(quote: AttackQuote) -> Iterator[Block]:
    """What an attack would do and cost."""
    cost = quote.cost
    rows = [
        ("judge", quote.judge),
        ("episodes", quote.episodes),
        ("controls", quote.controls),
        ("calls", cost.calls),
        ("tokens in", cost.tokens_in),
        ("tokens out", cost.tokens_out),
        ("usd", "unknown" if cost.usd is None else cost.usd),
    ]
    yield from paragraphs([OutputTable(rows), *_warning_lines(quote.warnings)])


def _quote_document(quote: AttackQuote | RevisionQuote) -> dict[str, Any]:
    """A quote with its calls, tokens and money beside what it is for."""
    document = asdict(quote)
    cost = document.pop("cost")
    return {**document, **cost}


def format_attack_report(run: AttackRun) -> Iterator[Block]:
    """What an attack has shown."""
    usd = "unknown" if run.cost.usd is None else f"{run.cost.usd:.4f} USD"
    failed = [f"episodes whose caption could not be graded: {run.failed}"] if run.failed else []
    yield from paragraphs(
        [
            f"judge {run.judge}, seed {run.seed}",
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
    return [f"{name}:", OutputTable(rows, ("text", "accepted", "of", "90 % interval"))]


def _warning_lines(warnings: Iterable[str]) -> list[str]:
    return [f"warning: {warning}" for warning in warnings]


def describe_difference(name: str, difference: PairedDifference) -> str:
    """A paired difference as one line."""
    return (
        f"{name}: {difference.difference:+.3f}, "
        f"95 % interval {difference.low:+.3f} to {difference.high:+.3f} by episode; "
        f"only first {difference.only_first}, only second {difference.only_second}, "
        f"p {difference.p_value:.3g} (McNemar, exact)"
    )


def add_judge_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the judge of a command."""
    parser.add_argument(
        "--model", default="", metavar="SPEC", help="the judge (default: the configured judge)"
    )
    parser.add_argument("--device", type=parse_torch_device, default="", metavar="D", help="torch device")
    parser.add_argument(
        "--candidates",
        default="",
        metavar="FILE",
        help="phrases of a clip judge, the demo's, one a line",
    )
    parser.add_argument(
        "--verbs", default="", metavar="FILE", help="YAML file of the verbs that an action may be"
    )


def format_revision_quote(quote: RevisionQuote) -> Iterator[Block]:
    """What a revision would do and cost."""
    rows = [
        ("captions with a grade", quote.captions),
        ("asked again", quote.refused),
        ("hidden criteria", ", ".join(quote.hidden)),
        ("calls", quote.cost.calls),
        ("tokens in", quote.cost.tokens_in),
        ("tokens out", quote.cost.tokens_out),
        ("usd", "unknown" if quote.cost.usd is None else quote.cost.usd),
    ]
    yield from paragraphs([OutputTable(rows)])


def format_revision_report(run: RevisionRun) -> Iterator[Block]:
    """What a revision has done and shown."""
    usd = "unknown" if run.cost.usd is None else f"{run.cost.usd:.4f} USD"
    changes = {"judge": run.acceptance, "hidden criteria": run.hidden_criteria}
    state = "shown" if run.is_adopted else "not shown"
    yield from paragraphs(
        [
            f"{count_of(run.captions, 'caption')} by {run.first}; revised by {run.second}, judge {run.judge}",
            f"criteria of which the captioner is not told: {', '.join(run.hidden)}",
            f"{count_of(run.refused, 'caption')} asked again, {run.changed} changed, {run.compared} compared",
            *(
                describe_difference(f"{name}: after - before", change)
                for name, change in changes.items()
                if change
            ),
            f"the revised captions are {state}: {run.reason}",
            *(f"failed {count}: {reason}" for reason, count in run.failures.items()),
            f"paid: {count_of(run.cost.calls, 'call')}, {usd}",
            *_warning_lines(run.warnings),
        ]
    )


def _add_revise_arguments(parser: argparse.ArgumentParser) -> None:
    add_judge_arguments(parser)
    parser.add_argument(
        "--captions",
        default="",
        metavar="PRODUCER",
        help="producer of the captions to revise (default: the only one)",
    )
    parser.add_argument(
        "--captioner",
        default="",
        metavar="SPEC",
        help="the model that wrote them (default: the configured captioner)",
    )
    parser.add_argument("--where", default="", metavar="SQL", help="only episodes that fulfil this filter")
    parser.add_argument("--limit", type=episode_count, metavar="N", help="at most N captions")
    parser.add_argument(
        "--budget", type=parse_usd_amount, metavar="USD", help="stop before this much money is spent"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done and cost")


def _revise_captions(args: argparse.Namespace) -> int:
    from annotators.base import Options
    from annotators.revise import RevisionRequest, quote_revision, run_revision

    stores = open_workspace(args).stores
    values = {"candidates": args.candidates, "verbs": args.verbs}
    options = Options(settings=stores.settings, model=args.model, device=args.device, values=values)
    request = RevisionRequest(
        rubric=args.rubric,
        captions=args.captions,
        captioner=args.captioner,
        where=args.where,
        limit=args.limit,
        budget_usd=args.budget,
    )
    if args.dry_run:
        quote = quote_revision(stores, options, request)
        answer(args, _quote_document(quote), lambda: format_revision_quote(quote))
        return 0
    run = run_revision(stores, options, request)
    answer(args, asdict(run), lambda: format_revision_report(run))
    return END_STATUSES.get(run.ended_by, ExitStatus.DONE)


def add_rubric_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_rubric)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    show = actions.add_parser("show", help="the criteria of a rubric")
    check = actions.add_parser("check", help="read a rubric and print the hash that its grades will carry")
    attack = actions.add_parser("attack", help="grade captions with many controls, and say what passes")
    revise = actions.add_parser(
        "revise", help="ask for refused captions again with what failed, and measure it"
    )
    for action in (show, check, attack, revise):
        action.add_argument(
            "rubric", nargs="?", default="caption", metavar="RUBRIC", help="a shipped name or a YAML file"
        )
        add_workspace_arguments(action)
    _add_attack_arguments(attack)
    _add_revise_arguments(revise)


def _add_attack_arguments(parser: argparse.ArgumentParser) -> None:
    add_judge_arguments(parser)
    parser.add_argument(
        "--truth",
        default="",
        metavar="COLUMN",
        help="text column with true captions (default: the instruction, with the outcome in `success`)",
    )
    parser.add_argument("--where", default="", metavar="SQL", help="only episodes that fulfil this filter")
    parser.add_argument(
        "--episodes", type=episode_count, default=60, metavar="N", help="most episodes (default 60)"
    )
    parser.add_argument(
        "--seed", type=seed_number, default=0, metavar="N", help="of the sample and of the texts (default 0)"
    )
    parser.add_argument(
        "--budget", type=parse_usd_amount, metavar="USD", help="stop before this much money is spent"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done and cost")


def run_rubric(args: argparse.Namespace) -> int:
    """Show, check or attack a rubric, or revise captions. Returns 1 where half of a kind of false texts is accepted.

    Raises RequestError naming the first field of a rubric that is wrong.
    """
    actions = {"attack": _attack_judge, "revise": _revise_captions}
    return actions.get(args.action, _show_or_check_rubric)(args)


def _show_or_check_rubric(args: argparse.Namespace) -> int:
    from annotators.grade import load_rubric

    rubric = load_rubric(args.rubric)
    document: dict[str, Any] = {**rubric.model_dump(mode="json"), "hash": rubric.hash}
    headline = f"{rubric.id} {rubric.version}  {rubric.hash}"
    if args.action == "check":
        summary = {key: document[key] for key in ("id", "version", "hash")}
        answer(args, {**summary, "criteria": len(rubric.criteria)}, lambda: headline)
        return 0
    rows = [
        (criterion.id, criterion.category, criterion.applies_when, criterion.text)
        for criterion in rubric.criteria
    ]
    table = OutputTable(rows, ("criterion", "category", "applies", "met when"))
    answer(args, document, lambda: paragraphs([headline, table]))
    return 0


def _attack_judge(args: argparse.Namespace) -> int:
    from annotators.base import Options
    from annotators.grade import AttackRequest, quote_attack, run_attack

    stores = open_workspace(args).stores
    values = {"rubric": args.rubric, "candidates": args.candidates, "verbs": args.verbs}
    options = Options(settings=stores.settings, model=args.model, device=args.device, values=values)
    request = AttackRequest(
        truth=args.truth,
        where=args.where,
        episodes=args.episodes,
        seed=args.seed,
        budget_usd=args.budget,
    )
    if args.dry_run:
        quote = quote_attack(stores, options, request)
        answer(args, _quote_document(quote), lambda: format_attack_quote(quote))
        return 0
    attack = run_attack(stores, options, request, lambda done, total: None)
    answer(args, asdict(attack), lambda: format_attack_report(attack))
    return 1 if attack.broken else 0
