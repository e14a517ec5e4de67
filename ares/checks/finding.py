"""Finding: one promise between the stores that is broken, and whether it is mended now."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ares.episode import Json

REPAIR = "ares doctor --repair"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One promise that is broken.

    Attributes:
        check: Which promise.
        count: How often.
        example: The first case.
        repaired: Whether it is mended now.
        remedy: What to do where `--repair` cannot.
    """

    check: str
    count: int
    example: str
    repaired: bool
    remedy: str

    def to_json(self) -> dict[str, Json]:
        """One element of `ares doctor --json`."""
        return asdict(self)
