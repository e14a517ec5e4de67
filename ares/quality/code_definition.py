"""CheckCode: name, meaning, remedy and severity of one kind of finding, and the strength of the fault it must find."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

# A "fault" sets the exit status of `ares check`. "information" is shown beside it: the check has not passed its bar.
Severity = Literal["fault", "information"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckCode:
    """One kind of finding.

    Attributes:
        code: Stable code, such as "A012".
        name: Stable name, such as "action-lag".
        meaning: What the data do, in one sentence.
        size_unit: Unit of `QualityFinding.size`; "value" is the unit of the signal.
        strength: Size of the planted fault by which the check is scored: committed before the check was written.
        strength_unit: Unit of the strength.
        remedy: What the user can do.
        severity: "fault" where the check passed its bar on planted faults, see benchmarks/RESULTS.md; idle ends are
            "information" although theirs passed, since a recording may well begin at rest.
    """

    code: str
    name: str
    meaning: str
    size_unit: str
    strength: float
    strength_unit: str
    remedy: str
    severity: Severity = "information"

    @property
    def page(self) -> str:
        """Where its page is: below the documentation that the package names, else below the repository."""
        return f"{documentation_address() or 'docs'}/checks/{self.code}-{self.name}.md"


@cache
def documentation_address() -> str:
    """The address of the documentation that the package names in its metadata, without "/" at the end; "" for none."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        lines = metadata("ares-curation").get_all("Project-URL") or []
    except PackageNotFoundError:  # a copy of the sources that was not installed
        return ""
    addresses: dict[str, str] = dict(str(line).partition(", ")[::2] for line in lines)
    return addresses.get("Documentation", "").rstrip("/")
