"""What was counted of one dataset while it is checked; findings that a baseline accepts are counted apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ares.errors import AresError
from ares.quality import CodeCounter, QualityFinding
from ares.quality.ci import Baseline, BaselineWriter, baseline_key
from ares.quality.repair import EpisodeRepair
from ingest.quality.tasks import SignalResult

if TYPE_CHECKING:
    from ingest.quality.video_tasks import VideoResult


@dataclass(slots=True, kw_only=True)
class CheckProgress:
    """What was counted of a dataset so far.

    Attributes:
        dataset: Its name.
        accepted: Findings that are known and not counted.
        writer: Collects the findings for a new baseline; None for none.
        counter: Counts the other findings.
        num_episodes: Episodes that were read.
        num_without_signals: Those without state and action.
        num_lags: Episodes with a lag.
        num_unknown_lags: Episodes whose lag the data do not say.
        num_failed: Records that could not be read.
        first_failure: Why the first of them could not, or "".
        num_accepted: Findings that `accepted` holds.
        repairs: What was corrected or left in each episode with such findings; None where nothing is corrected.
    """

    dataset: str = ""
    accepted: Baseline = frozenset()
    writer: BaselineWriter | None = None
    counter: CodeCounter = field(default_factory=CodeCounter)
    num_episodes: int = 0
    num_without_signals: int = 0
    num_lags: int = 0
    num_unknown_lags: int = 0
    num_failed: int = 0
    first_failure: str = ""
    num_accepted: int = 0
    repairs: list[EpisodeRepair] | None = None

    def add(self, result: SignalResult | AresError) -> None:
        """Count one record."""
        if isinstance(result, AresError):
            self.num_failed += 1
            self.first_failure = self.first_failure or str(result)
            return
        self.num_episodes += 1
        self.num_without_signals += not any(result.layout)
        if result.check is not None:
            self.num_lags += result.check.lag.steps is not None
            self.num_unknown_lags += result.check.lag.could_say and result.check.lag.steps is None
            self.add_findings(result, result.check.findings)
        if self.repairs is not None and result.corrections:
            self.repairs.append(
                EpisodeRepair(
                    episode_id=result.episode_id,
                    key=result.key,
                    location=result.location,
                    corrections=result.corrections,
                )
            )

    def add_findings(self, result: SignalResult | VideoResult, findings: tuple[QualityFinding, ...]) -> None:
        """Count the findings of one record."""
        if not findings:
            return
        if self.writer is not None:
            self.writer.add(baseline_key(self.dataset, result.key, finding) for finding in findings)
        new = tuple(self._unknown(result.key, findings)) if self.accepted else findings
        self.num_accepted += len(findings) - len(new)
        self.counter.add(result.episode_id, result.location, new, key=result.key, source=result.source)

    def _unknown(self, key: str, findings: tuple[QualityFinding, ...]) -> Iterator[QualityFinding]:
        for finding in findings:
            if baseline_key(self.dataset, key, finding) not in self.accepted:
                yield finding
