"""What rollouts of trained policies say of them, and of the sets that they were trained on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from ares.curation import Sets
from ares.errors import UnknownName
from ares.evaluation import (
    AddedResults,
    Comparison,
    Interval,
    SetContrast,
    add_results,
    bound_success,
    compare_trials,
    read_trials,
)
from ares.registry import did_you_mean
from ares.workspace.episodes import Episodes
from ares.workspace.foreign_names import explain_mistakes

if TYPE_CHECKING:
    from ares.store import Stores


# The difference between two policies that a comparison is planned for.
PLANNED_DIFFERENCE = 0.15


class PolicyResult(NamedTuple):
    """The trials of one policy.

    Attributes:
        policy: Its name.
        set: Label of the set that it was trained on, or "".
        trials: Number of trials.
        success: Mean success of them, with its interval.
    """

    policy: str
    set: str
    trials: int
    success: Interval


@explain_mistakes
class Evaluations:
    """The results of trained policies that were added to a workspace.

        >>> ws.evaluations.add("results.csv")
        >>> print(ws.evaluations.policies)
        >>> ws.evaluations.compare("act-clean", "act-all").verdict

    Args:
        stores: Stores of the workspace.
    """

    _called: ClassVar = "ws.evaluations"

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    @property
    def policies(self) -> list[PolicyResult]:
        """The policies with their sets and their success, by name."""
        return [
            PolicyResult(
                policy, ", ".join({trial.set for trial in trials} - {""}), len(trials), bound_success(trials)
            )
            for policy, trials in read_trials(self._stores.annotations).items()
        ]

    def add(self, path: str | Path, *, person: str = "") -> AddedResults:
        """Add the trials of a table, as `ares evaluate add` does; those that it had before are left out.

            >>> added = ws.evaluations.add("results.csv")
            >>> added.added, added.bad

        Args:
            path: A CSV, JSONL or Parquet file with the columns policy, task, success (true or false) or score (0 to
                1), and perhaps set ("name@version", or the path of a manifest, card or lock), start and seed.
            person: Who adds them; you by default.

        Raises:
            RequestError: It cannot be read, is no table or lacks a column.
        """
        return add_results(self._stores.annotations, path, person)

    def compare(self, first: str, second: str, *, difference: float = PLANNED_DIFFERENCE) -> Comparison:
        """Which of two policies is better, valid after every look, as `ares evaluate compare` says.

            >>> compared = ws.evaluations.compare("act-clean", "act-all", difference=0.2)
            >>> compared.difference, compared.missing

        Args:
            first: Name of a policy.
            second: Name of another.
            difference: The difference of success that further trials are to decide.

        Raises:
            RequestError: A policy has no results, no task was tried by both, or the difference is none.
        """
        trials = read_trials(self._stores.annotations)
        for policy in (first, second):
            if policy not in trials:
                detail = f"{did_you_mean(policy, trials)}there are: {', '.join(trials) or 'none yet'}"
                raise UnknownName(f"no results of a policy {policy!r}", detail)
        sides = trials[first], trials[second]
        compared = compare_trials((first, second), *sides, difference)
        return replace(compared, sets=self._contrast(*({trial.ids_hash for trial in side} for side in sides)))

    def _contrast(self, *hashes: set[str]) -> SetContrast | None:
        """What differs between the sets of two policies; None where not each has one set, which is here."""
        sets = Sets(self._stores.annotations)
        here = {version.ids_hash: version for name in sets for version in sets.versions(name)}
        stated = [here[ids_hash] for side in hashes if len(side) == 1 for ids_hash in side & here.keys()]
        if len(stated) < 2:
            return None
        members = [set(sets.ids(version)) for version in stated]
        sides = [Episodes(self._stores) & (one - other) for one, other in (members, members[::-1])]
        counts = dict[str, dict[str, tuple[int, int]]]()
        for name in ("dataset", "task", "outcome"):
            first, second = (
                Counter({group.value or "": group.episodes for group in side.count_by(name)})
                for side in sides
            )
            counts[name] = {
                value: (first[value], second[value]) for value, _ in (first + second).most_common()
            }
        return SetContrast((stated[0].label, stated[1].label), len(members[0] & members[1]), counts)
