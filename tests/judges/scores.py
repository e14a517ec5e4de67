"""What grades are worth against the event log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ares.rubric import describe_tripwire
from tests.judges.grading import Graded, TrialResult

# Of a truthful judge: true captions that have to be acceptable, and calls for controls of the first 120 captions.
LEAST_YIELD, _CALLS_OF_TRUTHFUL, _CALLS_OF_ANY = 0.85, 75, 120


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
            f"{result.own_calls} + {result.control_calls} calls; {kinds}"
        )

    def tripwire_line(self) -> str:
        """What ARES says of its controls."""
        return describe_tripwire(self.result.tripwire) if self.result.tripwire else ""

    def complaints(self) -> Iterator[str]:
        """What is not as the design wants it."""
        result = self.result
        if result.refused:
            return
        if result.trial.expected not in ("", result.state):
            yield f"it is {result.state}, and should be {result.trial.expected}"
        right, true = self.yields()
        if result.trial.is_truthful and right < LEAST_YIELD * true:
            yield f"{right} of {true} true captions are accepted"
        captions = len(result.captions)
        most = (_CALLS_OF_TRUTHFUL if result.trial.is_truthful else _CALLS_OF_ANY) + 0.1 * max(
            0, captions - 120
        )
        if result.control_calls > most:
            yield f"{result.control_calls} calls for controls of {captions} captions, at most {most:.0f}"
