"""The tables of `ares rubric attack` and `ares rubric compare`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from app.cli.output import Block, OutputTable, paragraphs

if TYPE_CHECKING:
    from annotators.attack import AttackQuote, AttackRun
    from ares.review import MakerComparison
    from ares.rubric.attacks import BatteryReport, FamilyResult
    from ares.statistics import PairedDifference

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


def comparison_blocks(comparison: MakerComparison) -> Iterator[Block]:
    """How two makers differ on the same segments."""
    change = comparison.change
    rows = [
        ("first", comparison.first, f"{comparison.first_rate:.3f} accepted"),
        ("second", comparison.second, f"{comparison.second_rate:.3f} accepted"),
    ]
    judge = [f"by the grades of {comparison.judge}"] if comparison.judge else []
    noise = (
        []
        if comparison.noise is None
        else [describe_difference("noise: repetition - first", comparison.noise)]
    )
    unpaired = f"{comparison.unpaired} segments have a grade on one side alone, and are left out"
    yield from paragraphs(
        [
            OutputTable(rows),
            *judge,
            f"{change.num_items} segments of {change.num_clusters} episodes; {unpaired}",
            describe_difference("second - first", change),
            *noise,
            _conclusion(comparison),
        ]
    )


def describe_difference(name: str, difference: PairedDifference) -> str:
    """A paired difference as one line."""
    return (
        f"{name}: {difference.difference:+.3f}, "
        f"95 % interval {difference.low:+.3f} to {difference.high:+.3f} by episode; "
        f"only first {difference.only_first}, only second {difference.only_second}, "
        f"p {difference.p_value:.3g} (McNemar, exact)"
    )


def _conclusion(comparison: MakerComparison) -> str:
    if comparison.is_noise:
        return "no difference: the first side differs from its own repetition by as much"
    if comparison.change.low <= 0 <= comparison.change.high:
        return "no difference is shown: the interval holds 0"
    return f"the {'second' if comparison.change.difference > 0 else 'first'} side is accepted more often"
