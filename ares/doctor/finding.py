"""One broken promise between the stores, and whether it was repaired."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ares.episode import Json

REPAIR = "ares doctor --repair"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One broken promise between the stores.

    Attributes:
        check: The promise.
        count: Number of cases.
        example: The first case.
        repaired: Whether it was repaired.
        remedy: What the user can do when it was not repaired.
    """

    check: str
    count: int
    example: str
    repaired: bool
    remedy: str

    def to_json(self) -> dict[str, Json]:
        """Return one element of `ares doctor --json`."""
        return asdict(self)
