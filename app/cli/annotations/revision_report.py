"""The tables of `ares rubric revise`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from app.cli.annotations.attack_report import comparison_blocks, describe_difference
from app.cli.output import Block, OutputTable, paragraphs

if TYPE_CHECKING:
    from annotators.revise import RevisionQuote, RevisionRound, RevisionRun


def revision_quote_blocks(quote: RevisionQuote) -> Iterator[Block]:
    """What a revision would do and cost."""
    rows = [
        ("captions with a grade", quote.captions),
        ("asked again in round 1", quote.refused),
        ("hidden criteria", ", ".join(quote.hidden)),
        ("most rounds", quote.rounds),
        ("calls of round 1", quote.first_round.calls),
        ("calls of all rounds", quote.cost.calls),
        ("tokens in", quote.cost.tokens_in),
        ("tokens out", quote.cost.tokens_out),
        ("usd", "unknown" if quote.cost.usd is None else quote.cost.usd),
    ]
    yield from paragraphs([OutputTable(rows)])


def revision_blocks(run: RevisionRun) -> Iterator[Block]:
    """What a revision has done and shown."""
    usd = "unknown" if run.cost.usd is None else f"{run.cost.usd:.4f} USD"
    noise = (
        [] if run.noise is None else [describe_difference("noise: asked again without a critique", run.noise)]
    )
    yield from paragraphs(
        [
            f"{run.captions} captions by {run.first}; revised by {run.second}, judge {run.judge}",
            f"criteria of which the captioner is not told: {', '.join(run.hidden)}",
            *(line for result in run.rounds for line in _round_lines(result)),
            *noise,
            f"stopped: {run.stopped}",
            *(f"failed {count}: {reason}" for reason, count in run.failures.items()),
            f"paid: {run.cost.calls} calls, {usd}",
            *(f"warning: {warning}" for warning in run.warnings),
        ]
    )
    if run.comparison:
        yield from comparison_blocks(run.comparison)


def _round_lines(result: RevisionRound) -> Iterator[str]:
    state = "its captions are shown" if result.is_adopted else "its captions are not shown"
    yield (
        f"round {result.number}: {result.refused} captions asked again, {result.changed} changed, "
        f"{result.compared} compared; {state}"
    )
    for name, change in (
        ("judge", result.judge),
        ("hidden criteria", result.anchors),
        ("second judge", result.second_judge),
    ):
        if change is not None:
            yield describe_difference(f"  {name}: after - before", change)
