"""What one check says of one dimension of an episode, and how sure it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ares.checks.codes import CODES, CheckCode
from ares.errors import RequestError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityFinding:
    """What one check says of one dimension of an episode.

    Attributes:
        code: Code of the check, see `ares.checks.CODES`.
        signal: "state", "action", "clock", "video", "dataset" for what the metadata of a dataset say, or "" for all
            signals.
        dimension: Name of the dimension, or "" for all.
        seconds: When it begins, or where it is largest; from the start of the episode.
        size: How large it is, in the unit of the check.
        confidence: 0.5 at the threshold of the check, nearer to 1 the further beyond it; no probability.
    """

    code: str
    signal: str
    dimension: str
    seconds: float
    size: float
    confidence: float

    def to_json(self) -> dict[str, Json]:
        """The finding as JSON."""
        return asdict(self)


def finding_confidence(size: float, threshold: float) -> float:
    """Confidence of a size at or beyond its threshold: 0.5 there, 0.9 at nine times of it."""
    return round(size / (size + threshold), 3) if threshold > 0 else 1.0


def findings_of(
    check: CheckCode,
    signal: str,
    names: tuple[str, ...],
    sizes: NDArray[np.float64],
    thresholds: NDArray[np.float64],
    seconds: NDArray[np.float64],
) -> Iterator[QualityFinding]:
    """A finding for each dimension whose size is beyond its threshold.

    Args:
        check: The check.
        signal: Name of the signal.
        names: Names of the D dimensions.
        sizes: (D,) sizes; NaN where the check cannot say.
        thresholds: (D,) sizes from which it is a finding.
        seconds: (D,) when.
    """
    for number in (sizes >= thresholds).nonzero()[0]:
        size, threshold = float(sizes[number]), float(thresholds[number])
        yield QualityFinding(
            code=check.code,
            signal=signal,
            dimension=names[number],
            seconds=round(float(seconds[number]), 3),
            size=round(size, 6),
            confidence=finding_confidence(size, threshold),
        )


def find_check_code(code: str) -> CheckCode:
    """The check of a code. Raises RequestError that lists the codes."""
    if code not in CODES:
        raise RequestError(f"no check {code!r}", f"there are: {', '.join(CODES)}")
    return CODES[code]
