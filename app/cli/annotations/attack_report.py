"""The tables of `ares rubric attack`: price, families, and the criteria that refuse them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from app.cli.output import Block, OutputTable, paragraphs

if TYPE_CHECKING:
    from annotators.attack import AttackQuote, AttackRun
    from ares.rubric.attacks import BatteryReport, FamilyResult

_STATES = {
    "kept": "kept",
    "open": "kept by the estimate, not by the interval",
    "broken": "BROKEN",
    "untested": "no such text",
}


def quote_blocks(quote: AttackQuote) -> Iterator[Block]:
    """What a battery would do and cost."""
    cost = quote.cost
    rows = [
        ("judge", quote.judge),
        ("episodes", quote.episodes),
        ("texts", quote.texts),
        ("calls", cost.calls),
        ("tokens in", cost.tokens_in),
        ("tokens out", cost.tokens_out),
        ("usd", "unknown" if cost.usd is None else cost.usd),
    ]
    yield from paragraphs([OutputTable(rows), *_warnings(quote.warnings)])


def attack_blocks(run: AttackRun) -> Iterator[Block]:
    """What a battery has shown."""
    report = run.report
    headline = f"{report.texts} texts on {report.episodes} episodes, seed {run.seed}; judge {run.judge}"
    usd = "unknown" if run.cost.usd is None else f"{run.cost.usd:.4f} USD"
    yield from paragraphs(
        [
            headline,
            _family_table(report),
            "share of the texts of a family that a criterion refuses:",
            _criterion_table(report),
            f"true rewordings graded as the exact truth of their episode: {_share(report.same_grade)}",
            "correlation of length and score among true captions of the same episode: "
            f"{_share(report.length_correlation)}",
            f"paid: {run.cost.calls} calls, {usd}",
            *_warnings(run.warnings),
            _verdict(report),
        ]
    )


def _family_table(report: BatteryReport) -> OutputTable:
    header = (
        "family",
        "accepted",
        "of",
        "rate",
        "95 % interval",
        "unsure",
        "failed",
        "bound",
        "state",
        "no rubric",
    )
    return OutputTable([_family_row(result) for result in report.families], header)


def _family_row(result: FamilyResult) -> tuple[object, ...]:
    sign = ">=" if result.is_true else "<="
    return (
        result.family,
        result.accepted,
        result.texts,
        _share(result.rate),
        f"{result.low:.3f}-{result.high:.3f}" if result.texts else "",
        result.unsure,
        result.failed,
        "" if result.bound is None else f"{sign} {result.bound:.3f}",
        _STATES[result.state],
        _share(result.without_rubric),
    )


def _criterion_table(report: BatteryReport) -> OutputTable:
    criteria = sorted({name for shares in report.refused_by.values() for name in shares})
    rows = [
        (family, *(f"{shares[name]:.2f}" if name in shares else "" for name in criteria))
        for family, shares in report.refused_by.items()
    ]
    return OutputTable(rows, ("family", *criteria))


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.3f}"


def _warnings(warnings: object) -> list[str]:
    assert isinstance(warnings, list | tuple)
    return [f"warning: {warning}" for warning in warnings]


def _verdict(report: BatteryReport) -> str:
    if report.broken:
        return f"bounds broken by: {', '.join(report.broken)}"
    unproven = [result.family for result in report.families if result.state == "open"]
    more = f"; more episodes are needed to show it for: {', '.join(unproven)}" if unproven else ""
    return f"no bound is broken by its estimate{more}"
