"""What grades are worth against the event log."""

from __future__ import annotations

from dataclasses import dataclass

from tests.judges.grading import Graded, TrialResult


def wilson(hits: int, total: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share, not corrected for clusters; (0, 1) for nothing."""
    if not total:
        return 0.0, 1.0
    z, share = 1.96, hits / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * (share * (1 - share) / total + z * z / (4 * total * total)) ** 0.5
    return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(frozen=True)
class Score:
    """The grades of one judge.

    Attributes:
        result: What became of the captions.
    """

    result: TrialResult

    def accepted(self) -> list[Graded]:
        """Captions that the judge calls acceptable, whether it is refuted or not."""
        return [caption for caption in self.result.captions if caption.grade == "acceptable"]

    def true_accepted(self) -> int:
        """How many of them are true."""
        return sum(caption.episode.caption.is_true for caption in self.accepted())

    def yields(self) -> tuple[int, int]:
        """True captions that the judge calls acceptable, and all of them."""
        true = [caption for caption in self.result.captions if caption.episode.caption.is_true]
        return sum(caption.grade == "acceptable" for caption in true), len(true)

    def line(self) -> str:
        """What ARES says of the judge and what is true, in one line."""
        result, accepted = self.result, self.accepted()
        low, high = wilson(self.true_accepted(), len(accepted))
        kinds = " ".join(
            f"{kind}:{counts['accepted']}/{counts['total']}"
            for kind, counts in result.tripwire.get("kinds", {}).items()
        )
        right, true = self.yields()
        return (
            f"{result.name} ({result.trial.world}): {result.state}; {self.true_accepted()} of {len(accepted)} accepted "
            f"are true [{low:.2f}, {high:.2f}]; {right} of {true} true ones are accepted; "
            f"{result.billed[0]} calls; {kinds}"
        )
