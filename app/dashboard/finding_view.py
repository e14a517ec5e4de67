"""Findings of the checks as plain data for the pages: lanes of the player, and tables of the health of a dataset."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ares.episode import Json
from ares.quality import CODES, DatasetHealth, QualityFinding
from ares.quality.contract import MeaningContract

_ORIGINS = {
    "values": "inferred from values",
    "names": "inferred from names",
    "spec": "spec",
    "none": "nobody",
}
# Codes whose size is how long the fault lasts; that of a lag or of a gap is none.
_LASTING = frozenset(("A003", "A010", "A011", "A017", "A033", "A034", "A035"))


def finding_lanes(findings: Sequence[QualityFinding], duration_seconds: float) -> list[Json]:
    """A lane for each code, with the spans of its findings; faults first."""
    by_code: dict[str, list[QualityFinding]] = defaultdict(list)
    for finding in findings:
        by_code[finding.code].append(finding)
    order = sorted(by_code, key=lambda code: (CODES[code].severity != "fault", code))
    return [
        {
            "label": f"{code} {CODES[code].name}",
            "meaning": CODES[code].meaning,
            "severity": CODES[code].severity,
            "spans": [_span(finding, duration_seconds) for finding in by_code[code]],
        }
        for code in order
    ]


def _span(finding: QualityFinding, duration_seconds: float) -> Json:
    """From its second for its size, where that is how long it lasts; an instant otherwise."""
    check = CODES[finding.code]
    start = min(max(finding.seconds, 0.0), duration_seconds)
    lasts = finding.size if finding.code in _LASTING else 0.0
    return {
        "start": start,
        "stop": min(start + lasts, duration_seconds),
        "label": f"{finding.dimension or finding.signal or 'all signals'}: size {finding.size:.4g} {check.size_unit}",
    }


def finding_rows(health: DatasetHealth) -> list[dict[str, Json]]:
    """A row for each code of a dataset's sample."""
    return [
        {
            "code": count.code,
            "name": count.name,
            "severity": count.severity,
            "episodes": count.num_episodes,
            "dimensions": ", ".join(name for name in count.dimensions if name),
            "meaning": CODES[count.code].meaning,
            "remedy": count.remedy,
        }
        for count in health.counts
    ]


def contract_rows(contract: MeaningContract) -> list[dict[str, Json]]:
    """A row for each property that a signal has: its value, who said it, and how sure that is."""
    return [
        {
            "signal": signal.name,
            "property": name,
            "value": str(estimate),
            "said by": _ORIGINS[estimate.origin],
            "confidence": None if estimate.origin == "none" else round(estimate.confidence, 2),
            "dimensions": ", ".join(signal.dimensions),
        }
        for signal in contract.signals
        for name, estimate in signal.estimates.items()
    ]


def worst_rows(health: DatasetHealth) -> list[dict[str, Json]]:
    """A row for each of the worst episodes."""
    return [
        {
            "episode": episode.key,
            "faults": episode.num_faults,
            "checks": ", ".join(episode.codes),
        }
        for episode in health.worst
    ]
