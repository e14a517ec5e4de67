"""One finding of a check, and how it is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import isfinite
from typing import TYPE_CHECKING

from ares.checks.codes import (
    CODES,
    CheckCode,
)
from ares.errors import RequestError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.checks.codes import CheckCode
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


def make_finding(
    check: CheckCode,
    signal: str = "",
    dimension: str = "",
    seconds: float = 0.0,
    size: float = 1.0,
    confidence: float = 1.0,
) -> QualityFinding:
    """A finding with rounded numbers; what has no second is at the start of the episode."""
    return QualityFinding(
        code=check.code,
        signal=signal,
        dimension=dimension,
        seconds=round(float(seconds), 3) if isfinite(seconds) else 0.0,
        size=size if isinstance(size, int) else round(float(size), 6),  # a count stays a whole number
        confidence=confidence,
    )


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
        confidence = finding_confidence(size, threshold)
        yield make_finding(check, signal, names[number], seconds[number], size, confidence)


def find_check_code(code: str) -> CheckCode:
    """The check of a code. Raises RequestError that lists the codes."""
    if code not in CODES:
        raise RequestError(f"no check {code!r}", f"there are: {', '.join(CODES)}")
    return CODES[code]
