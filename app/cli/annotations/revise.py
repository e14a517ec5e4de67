"""`ares rubric revise`: refused captions asked again with what failed, until what is not told improves no longer."""

from __future__ import annotations

import argparse

from app.cli.annotations.judge_arguments import add_judge_arguments
from app.cli.annotations.revision_report import revision_blocks, revision_quote_blocks
from app.cli.common import episode_count, open_workspace, usd_amount
from app.cli.output import answer


def add_revise_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the action beside the rubric and the workspace."""
    add_judge_arguments(parser)
    parser.add_argument(
        "--captions",
        default="",
        metavar="MAKER",
        help="maker of the captions to revise (default: the only one)",
    )
    parser.add_argument(
        "--captioner",
        default="",
        metavar="SPEC",
        help="the model that wrote them (default: the configured captioner)",
    )
    parser.add_argument(
        "--second-judge", default="", metavar="SPEC", help="a judge of which the captioner is told nothing"
    )
    parser.add_argument(
        "--anchors",
        type=_share,
        default=0.33,
        metavar="SHARE",
        help="share of the criteria of which the captioner is told nothing (default 0.33)",
    )
    _add_run_arguments(parser)


def _add_run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rounds", type=episode_count, default=3, metavar="N", help="most rounds (default 3)"
    )
    parser.add_argument(
        "--noise-floor",
        action="store_true",
        help="also ask again without a critique: what changes then is noise",
    )
    parser.add_argument("--where", default="", metavar="SQL", help="only episodes that fulfil this filter")
    parser.add_argument("--limit", type=episode_count, metavar="N", help="at most N captions")
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="of the hidden criteria and the bootstrap (default 0)",
    )
    parser.add_argument(
        "--budget", type=usd_amount, metavar="USD", help="stop before this much money is spent"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done and cost")


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share; give a number between 0 and 1, such as 0.33")
    return share


def revise(args: argparse.Namespace) -> int:
    """Revise captions, or say what it would cost. Returns 0."""
    from annotators.base import Options
    from annotators.revise import RevisionRequest, quote_revision, run_revision

    stores = open_workspace(args).stores
    values = {"candidates": args.candidates, "observe": args.observe}
    options = Options(settings=stores.settings, model=args.model, device=args.device, values=values)
    request = RevisionRequest(
        rubric=args.rubric,
        captions=args.captions,
        captioner=args.captioner,
        second_judge=args.second_judge,
        anchors=args.anchors,
        rounds=args.rounds,
        has_noise_floor=args.noise_floor,
        where=args.where,
        limit=args.limit,
        seed=args.seed,
        budget_usd=args.budget,
    )
    if args.dry_run:
        quote = quote_revision(stores, options, request)
        answer(args, quote.to_json(), lambda: revision_quote_blocks(quote))
        return 0
    run = run_revision(stores, options, request)
    answer(args, run.to_json(), lambda: revision_blocks(run))
    return 0
