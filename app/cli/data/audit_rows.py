"""The audit of a dataset as a table: recall of each planted fault with its interval, and the curve over strengths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.output import OutputTable

if TYPE_CHECKING:
    from ares.quality.audit import DataAudit, FaultRecall

_HEADER = ("fault", "strength", "code", "recall (95 % interval)", "at other strengths", "shown as")


def audit_line(audit: DataAudit) -> str:
    """What was audited, and in how many episodes the checks find something before anything is planted."""
    before = ", ".join(f"{code} {count}" for code, count in audit.without_fault.items()) or "none"
    return (
        f"audit with seed {audit.seed}: faults in {audit.num_episodes} episodes, angles taken as {audit.unit}; "
        f"episodes with a finding before (false alarms, or true faults): {before}"
    )


def not_planted_line(audit: DataAudit) -> str:
    """Which faults of the catalogue were not planted, so that nothing is said of them."""
    from ares.quality.audit import FAULTS

    missing = [name for name in audit.not_planted if FAULTS[name].group != "video"]
    without_room = f"; there was no room for: {', '.join(missing)}" if missing else ""
    return f"faults of videos need pictures and are not planted{without_room}"


def audit_table(audit: DataAudit) -> OutputTable:
    """A row for each fault that was planted."""
    return OutputTable([_row(recall) for recall in audit.recalls], _HEADER)


def _row(recall: FaultRecall) -> tuple[object, ...]:
    from ares.statistics import wilson_interval

    hits, planted = (recall.hits if recall.code else recall.seen), recall.planted
    low, high = wilson_interval(hits.get(1.0, 0), planted.get(1.0, 0))
    unknown = f", {recall.unknown[1.0]} unknown" if recall.unknown.get(1.0) else ""
    curve = "  ".join(f"x{m:g} {hits[m]}/{planted[m]}" for m in sorted(planted) if m != 1.0)
    return (
        recall.fault,
        recall.strength,
        recall.code or "none",
        f"{hits.get(1.0, 0)}/{planted.get(1.0, 0)} ({low:.2f}-{high:.2f}){unknown}",
        curve,
        "information"
        if recall.is_missed
        else "as always"
        if recall.code
        else "not detected by a code of its own",
    )
