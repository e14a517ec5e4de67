"""What was corrected in a copy of a dataset, what was left and why, and what the checks say of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ares.checks import CODES, NOT_FINITE, SPIKE, WRAP_AROUND, Severity
from ares.reports.finding_counts import CheckReport
from ares.signals import EpisodeRepair, SignalChange

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.export import ExportReport


# What becomes of the findings of a code that can be corrected.
CORRECTED: Mapping[str, str] = {
    NOT_FINITE.code: "gaps of one or two steps are interpolated",
    SPIKE.code: "single spikes become what their neighbours say",
    WRAP_AROUND.code: "angles count on beyond a turn",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFix:
    """What became of the findings of one code.

    Attributes:
        code: The code.
        name: Its name.
        severity: "fault" or "information".
        before: Episodes of the source with a finding.
        corrected: Episodes in which some or all of these are corrected.
        left: Episodes in which some or all are left as they are.
        after: Episodes of the copy with a finding; None where there is no copy, or it cannot be checked.
        done: What is done about findings of the code, or what you can do about those that are left.
        reasons: Number of places that are left by the reason, of a code that can be corrected.
    """

    code: str
    name: str
    severity: Severity
    before: int
    corrected: int
    left: int
    after: int | None
    done: str
    reasons: Mapping[str, int]

    def to_json(self) -> dict[str, Json]:
        """The counts as JSON."""
        return {**asdict(self), "reasons": dict(self.reasons)}


@dataclass(frozen=True, kw_only=True)
class FixReport:
    """What `ares fix` did.

    Attributes:
        destination: The folder of the copy.
        before: The check of the source.
        repairs: What was changed, and what was left of the codes that can be corrected, by episode.
        export: The report of the export; None where nothing was to be written.
        after: The check of the copy; None where nothing was written, or it cannot be checked.
        not_checked: Why the copy cannot be checked, or "".
    """

    destination: str
    before: CheckReport
    repairs: tuple[EpisodeRepair, ...]
    export: ExportReport | None = None
    after: CheckReport | None = None
    not_checked: str = ""

    @property
    def changes(self) -> Iterator[tuple[EpisodeRepair, SignalChange]]:
        """Every change with its episode."""
        return ((repair, change) for repair in self.repairs for change in repair.changes)

    @cached_property
    def codes(self) -> tuple[CodeFix, ...]:
        """What became of each code that was found in the source or in the copy."""
        before, after = (
            _count_episodes_by_code(self.before),
            None if self.after is None else _count_episodes_by_code(self.after),
        )
        severities = _severity_by_code(self.before) | (
            _severity_by_code(self.after) if self.after is not None else {}
        )
        return tuple(
            self._code(code, severities[code], before[code], None if after is None else after[code])
            for code in sorted(severities)
        )

    @property
    def new_codes(self) -> tuple[str, ...]:
        """Codes that more episodes of the copy have than of the source."""
        return tuple(fix.code for fix in self.codes if fix.after is not None and fix.after > fix.before)

    @property
    def is_clean(self) -> bool:
        """Whether the copy has all episodes and no faults; without a copy, whether the source has none."""
        if self.export is None:
            return self.before.is_clean
        checked = self.before if self.after is None else self.after
        return checked.is_clean and self.before.is_complete and not self.export.failed

    def _code(self, code: str, severity: Severity, before: int, after: int | None) -> CodeFix:
        by_repair = [
            [correction for correction in repair.corrections if correction.code == code]
            for repair in self.repairs
        ]
        is_corrected = code in CORRECTED
        left = sum(any(part.left for part in parts) for parts in by_repair) if is_corrected else before
        return CodeFix(
            code=code,
            name=CODES[code].name,
            severity=severity,
            before=before,
            corrected=sum(any(part.changes for part in parts) for parts in by_repair),
            left=left,
            after=after,
            done=CORRECTED[code] if is_corrected else f"left: {CODES[code].remedy}",
            reasons=Counter(part.left for parts in by_repair for part in parts if part.left),
        )

    def to_json(self) -> dict[str, Json]:
        """The report as JSON: what `ares fix SOURCE DEST --json` prints."""
        return {
            "destination": self.destination,
            "written": self.export is not None,
            "clean": self.is_clean,
            "codes": [fix.to_json() for fix in self.codes],
            "new_codes": list(self.new_codes),
            "changes": [
                {"episode_id": repair.episode_id, "episode": repair.key, **change.to_json()}
                for repair, change in self.changes
            ],
            "left": [
                {
                    "episode_id": repair.episode_id,
                    "episode": repair.key,
                    "code": correction.code,
                    "signal": correction.signal,
                    "dimension": correction.dimension,
                    "seconds": correction.seconds,
                    "reason": correction.left,
                }
                for repair in self.repairs
                for correction in repair.corrections
                if correction.left
            ],
            "before": self.before.to_json(),
            "export": None if self.export is None else self.export.to_json(),
            "after": None if self.after is None else self.after.to_json(),
            "not_checked": self.not_checked,
        }


def _count_episodes_by_code(report: CheckReport) -> Counter[str]:
    """Episodes with a finding, by code, over all datasets; files of a dataset with one count as one."""
    counts: Counter[str] = Counter()
    for dataset in report.datasets:
        counts.update({count.code: max(count.num_episodes, 1) for count in dataset.counts})
    return counts


def _severity_by_code(report: CheckReport) -> dict[str, Severity]:
    return {count.code: count.severity for dataset in report.datasets for count in dataset.counts}
