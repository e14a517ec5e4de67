"""What the votes of a panel of judges are worth: judges that err on the same texts count for fewer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ares.episode import Json

# Controls whose right verdict is known, whatever the caption is worth.
_FALSE_KINDS, _TRUE_KINDS = ("foreign", "flipped", "blank", "scrambled"), ("instruction",)


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelVotes:
    """What the controls say of the judges of a panel.

    Attributes:
        errors: Wrong grades by judge, had it judged alone.
        controls: Controls that every judge was asked about and whose right grade is known.
        correlation: Mean correlation of the errors of two judges; None where no two judges erred.
    """

    errors: Mapping[str, int]
    controls: int
    correlation: float | None

    @property
    def effective(self) -> float | None:
        """Number of judges with independent errors that are worth as much (design effect; Kish, Survey Sampling, 1965).

        n / (1 + (n - 1) * correlation), at most n; None where the correlation is not known.
        """
        if self.correlation is None:
            return None
        count = len(self.errors)
        return count / (1 + (count - 1) * max(0.0, self.correlation))

    def to_json(self) -> dict[str, Json]:
        """The numbers as stored JSON."""
        correlation, effective = self.correlation, self.effective
        return {
            "judges": len(self.errors),
            "errors": dict(self.errors),
            "controls": self.controls,
            "error_correlation": None if correlation is None else round(correlation, 4),
            "effective_votes": None if effective is None else round(effective, 2),
        }


def count_votes(values: Iterable[Mapping[str, Json]]) -> PanelVotes | None:
    """Count the errors of the judges of a panel on its controls; None where no panel has graded them.

    Args:
        values: Values of control annotations; each grading of a panel has the grade of every judge in "grades".
    """
    rows = [errors for value in values for errors in _errors(value)]
    if not rows:
        return None
    judges = sorted(rows[0])
    columns = {judge: [row.get(judge, False) for row in rows] for judge in judges}
    correlations = [
        correlation
        for first, second in combinations(judges, 2)
        if (correlation := _correlation(columns[first], columns[second])) is not None
    ]
    return PanelVotes(
        errors={judge: sum(column) for judge, column in columns.items()},
        controls=len(rows),
        correlation=sum(correlations) / len(correlations) if correlations else None,
    )


def describe_votes(document: Mapping[str, Json]) -> str:
    """One line for people about `PanelVotes.to_json`."""
    judges, effective = document["judges"], document["effective_votes"]
    if effective is None:
        return f"the errors of {judges} judges cannot be compared yet"
    correlation = document["error_correlation"]
    return f"{judges} judges count as {effective} votes (their errors correlate by {correlation})"


def _errors(value: Mapping[str, Json]) -> list[dict[str, bool]]:
    """Whether each judge erred, of each control of a caption whose right grade is known."""
    members = value.get("gradings")
    rows = [row for row in members if isinstance(row, dict)] if isinstance(members, list) else []
    errors = []
    for row in rows:
        kind, grades = row.get("kind"), row.get("grades")
        is_false = kind in _FALSE_KINDS and bool(row.get("known_false"))
        if isinstance(grades, dict) and (is_false or kind in _TRUE_KINDS):
            errors.append({judge: (grade == "acceptable") == is_false for judge, grade in grades.items()})
    return errors


def _correlation(first: Sequence[bool], second: Sequence[bool]) -> float | None:
    """Pearson's correlation of two binary sequences; None where one of them is constant."""
    count = len(first)
    share, other = sum(first) / count, sum(second) / count
    if share in (0.0, 1.0) or other in (0.0, 1.0):
        return None
    both = sum(a and b for a, b in zip(first, second, strict=True)) / count
    return (both - share * other) / sqrt(share * (1 - share) * other * (1 - other))
