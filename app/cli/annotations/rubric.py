"""`ares rubric`: show and check rubrics, attack their judge, compare makers by their grades, and revise captions."""

from __future__ import annotations

import argparse
from typing import Any

from app.cli.annotations.attack_report import attack_blocks, comparison_blocks, quote_blocks
from app.cli.annotations.judge_arguments import add_judge_arguments
from app.cli.annotations.revise import add_revise_arguments, revise
from app.cli.common import add_workspace_arguments, episode_count, open_workspace, usd_amount
from app.cli.output import OutputTable, answer, paragraphs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    show = actions.add_parser("show", help="the criteria of a rubric")
    check = actions.add_parser("check", help="read a rubric and print the hash that its grades will carry")
    attack = actions.add_parser("attack", help="grade false and reworded captions, and say what passes")
    for action in (show, check, attack):
        action.add_argument(
            "rubric", nargs="?", default="caption", metavar="RUBRIC", help="a shipped name or a YAML file"
        )
        add_workspace_arguments(action)
    _add_attack_arguments(attack)
    reviser = actions.add_parser(
        "revise", help="ask for refused captions again with what failed, and measure it"
    )
    reviser.add_argument(
        "rubric", nargs="?", default="caption", metavar="RUBRIC", help="a shipped name or a YAML file"
    )
    add_workspace_arguments(reviser)
    add_revise_arguments(reviser)
    _add_compare_arguments(
        actions.add_parser("compare", help="two captioners, or two judges or rubrics, on the same segments")
    )


def _add_compare_arguments(parser: argparse.ArgumentParser) -> None:
    for name in ("first", "second"):
        parser.add_argument(
            name, metavar="MAKER", help="id of a maker of captions or of grades, or the start of it"
        )
    parser.add_argument(
        "--repetition",
        default="",
        metavar="MAKER",
        help="a maker that repeats the first, with another seed: the floor of noise",
    )
    parser.add_argument(
        "--judge", default="", metavar="MAKER", help="maker of the grades by which captioners are compared"
    )
    parser.add_argument("--where", default="", metavar="SQL", help="only episodes that fulfil this filter")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the bootstrap (default 0)")
    add_workspace_arguments(parser)


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
        "--per-family",
        type=episode_count,
        default=2,
        metavar="N",
        help="most texts of a family in one episode (default 2)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the sample and of the texts (default 0)"
    )
    parser.add_argument(
        "--paraphrases", default="", metavar="FILE", help="YAML file: true paraphrases by caption"
    )
    parser.add_argument(
        "--budget", type=usd_amount, metavar="USD", help="stop before this much money is spent"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done and cost")


def run(args: argparse.Namespace) -> int:
    """Show, check or attack a rubric, compare makers, or revise captions. Returns 1 when the attack breaks a bound.

    Raises RequestError naming the first field of a rubric that is wrong.
    """
    actions = {"attack": _attack, "compare": _compare, "revise": revise}
    return actions.get(args.action, _describe)(args)


def _describe(args: argparse.Namespace) -> int:
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


def _attack(args: argparse.Namespace) -> int:
    from pathlib import Path

    from annotators.attack import AttackRequest, quote_attack, run_attack
    from annotators.base import Options

    stores = open_workspace(args).stores
    values = {"rubric": args.rubric, "candidates": args.candidates, "observe": args.observe}
    options = Options(settings=stores.settings, model=args.model, device=args.device, values=values)
    request = AttackRequest(
        truth=args.truth,
        where=args.where,
        episodes=args.episodes,
        per_family=args.per_family,
        seed=args.seed,
        paraphrases=Path(args.paraphrases) if args.paraphrases else None,
        budget_usd=args.budget,
    )
    if args.dry_run:
        quote = quote_attack(stores, options, request)
        answer(args, quote.to_json(), lambda: quote_blocks(quote))
        return 0
    attack = run_attack(stores, options, request, lambda done, total: None)
    answer(args, attack.to_json(), lambda: attack_blocks(attack))
    return 1 if attack.report.broken else 0


def _compare(args: argparse.Namespace) -> int:
    from ares.review import compare_makers

    comparison = compare_makers(
        open_workspace(args).stores,
        args.first,
        args.second,
        repetition=args.repetition,
        judge=args.judge,
        where=args.where,
        seed=args.seed,
    )
    answer(args, comparison.to_json(), lambda: comparison_blocks(comparison))
    return 0
