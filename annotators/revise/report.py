"""What a revision would cost, and what its rounds have shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ares.annotation import Cost
    from ares.episode import Json
    from ares.review import MakerComparison
    from ares.statistics import PairedDifference


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionQuote:
    """What a revision would do, and cost if all rounds are run: kept replies cost nothing, and rounds may stop early.

    Attributes:
        captions: Captions with a grade.
        refused: Those that would be asked again in the first round.
        hidden: Criteria of which no captioner is told.
        rounds: Most rounds.
        first_round: Expected cost of the first round.
        cost: Cost of all rounds, each with as many captions as the first.
    """

    captions: int
    refused: int
    hidden: Sequence[str]
    rounds: int
    first_round: Cost
    cost: Cost

    def to_json(self) -> dict[str, Json]:
        """The quote as a document."""
        counts: dict[str, Json] = {"captions": self.captions, "refused": self.refused, "rounds": self.rounds}
        return {
            **counts,
            "hidden": list(self.hidden),
            "first_round": asdict(self.first_round),
            **asdict(self.cost),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRound:
    """One round: refused captions before, and what the captioner made of them.

    Attributes:
        number: Number of the round, from 1.
        refused: Captions that were asked again.
        compared: Those of them that have all their grades before and after.
        changed: Those of them whose words are others now.
        hidden_met: Compared captions that met all hidden criteria before: these cannot improve.
        judge: How much more often the judge accepts them; None where nothing could be compared.
        anchors: How much more often they meet all criteria of which the captioner was not told.
        second_judge: How much more often the second judge accepts them; None without one.
        is_adopted: Whether its captions are shown now.
    """

    number: int
    refused: int
    compared: int
    changed: int
    hidden_met: int
    judge: PairedDifference | None
    anchors: PairedDifference | None
    second_judge: PairedDifference | None
    is_adopted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRun:
    """What a revision has done and shown.

    Attributes:
        first: Maker of the captions that were revised.
        second: Maker of the revised captions.
        judge: Maker of the grades.
        hidden: Criteria of which the captioner was not told.
        captions: Captions with a grade.
        rounds: Its rounds.
        stopped: Why there is no further round.
        ended_by: "budget" or "server" where that ended it before all was done, else "".
        noise: How much more often the judge accepts captions that were asked again without a critique; or None.
        comparison: All captions before and after, as `ares rubric compare` says it; None where no round was adopted.
        failures: Number of failures by reason.
        cost: What was paid.
        warnings: What a person should know.
    """

    first: str
    second: str
    judge: str
    hidden: Sequence[str]
    captions: int
    rounds: Sequence[RevisionRound]
    stopped: str
    ended_by: str
    noise: PairedDifference | None
    comparison: MakerComparison | None
    failures: Mapping[str, int]
    cost: Cost
    warnings: Sequence[str]

    def to_json(self) -> dict[str, Json]:
        """The run as a document."""
        document: dict[str, Json] = {
            "first": self.first,
            "second": self.second,
            "judge": self.judge,
            "hidden": list(self.hidden),
            "captions": self.captions,
            "rounds": [asdict(item) for item in self.rounds],
            "stopped": self.stopped,
            "ended_by": self.ended_by,
            "noise": asdict(self.noise) if self.noise else None,
            "comparison": self.comparison.to_json() if self.comparison else None,
            "failures": dict(self.failures),
            "cost": asdict(self.cost),
            "warnings": list(self.warnings),
        }
        return document
