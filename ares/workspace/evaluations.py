"""What rollouts of trained policies say of them, and of the sets that they were trained on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ares.curation import Sets
from ares.errors import RequestError, UnknownName
from ares.evaluation import (
    AddedResults,
    Comparison,
    Interval,
    add_results,
    bound_success,
    compare_trials,
    read_policy_sets,
    read_trials,
)
from ares.registry import did_you_mean
from ares.workspace.episodes import Episodes
from ares.workspace.foreign_names import explain_mistakes
from ares.workspace.printed_tables import format_table, html_table

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.evaluation import PolicySet
    from ares.store import Stores


# The difference between two policies that a comparison is planned for.
PLANNED_DIFFERENCE = 0.15
_HEADER = ("policy", "set", "trials", "success")
# Names by which the members of two sets are counted.
_COUNTED = ("dataset", "task", "outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResult:
    """The trials of one policy.

    Attributes:
        policy: Its name.
        set: Label of the set that it was trained on, or "".
        trials: Number of trials.
        success: Mean success with its interval.
    """

    policy: str
    set: str
    trials: int
    success: Interval

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return {
            "policy": self.policy,
            "set": self.set,
            "trials": self.trials,
            "success": self.success._asdict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SetContrast:
    """What differs between the sets of two policies.

    Attributes:
        labels: The two sets.
        common: Episodes in both.
        only_first: Episodes only in the first.
        only_second: Episodes only in the second.
        counts: By "dataset", "task" and "outcome": by value the episodes only in the first and only in the second.
    """

    labels: tuple[str, str]
    common: int
    only_first: int
    only_second: int
    counts: Mapping[str, Mapping[str, tuple[int, int]]]

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        counts: dict[str, Json] = {
            name: {value: [*numbers] for value, numbers in values.items()}
            for name, values in self.counts.items()
        }
        return {
            "labels": [*self.labels],
            "common": self.common,
            "only_first": self.only_first,
            "only_second": self.only_second,
            "counts": counts,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyComparison:
    """Two policies by their rollouts, and by what they were trained on.

    Attributes:
        trials: What their trials say.
        sets: What differs between their sets; None where that is not known.
        sets_unknown: Why it is not known, or "".
    """

    trials: Comparison
    sets: SetContrast | None
    sets_unknown: str

    def to_json(self) -> dict[str, Json]:
        """The fields of both as JSON."""
        sets = self.sets.to_json() if self.sets else None
        return {**self.trials.to_json(), "sets": sets, "sets_unknown": self.sets_unknown}


@explain_mistakes
class Evaluations(Mapping[str, PolicyResult]):
    """The policies of a workspace of which results were added, by name.

        >>> ws.evaluations.add("results.csv")
        >>> ws.evaluations["act-clean"].success
        >>> ws.evaluations.compare("act-clean", "act-all").trials.verdict

    Args:
        stores: Stores of the workspace.
    """

    _called: ClassVar = "ws.evaluations"

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def _results(self) -> dict[str, PolicyResult]:
        log = self._stores.annotations
        sets = read_policy_sets(log)
        return {
            policy: PolicyResult(
                policy=policy,
                set=sets[policy].label if policy in sets else "",
                trials=len(trials),
                success=bound_success(trials),
            )
            for policy, trials in sorted(read_trials(log).items())
        }

    def __getitem__(self, policy: str) -> PolicyResult:
        """What is known of a policy. Raises RequestError naming those that there are."""
        self._require(policy, results := self._results())
        return results[policy]

    def __iter__(self) -> Iterator[str]:
        return iter(self._results())

    def __len__(self) -> int:
        return len(self._results())

    def __repr__(self) -> str:
        return format_table(self._rows(), _HEADER) or "no results of policies"

    def _repr_html_(self) -> str:
        return html_table(self._rows(), _HEADER)

    def _rows(self) -> list[tuple[object, ...]]:
        results = self._results().values()
        return [(result.policy, result.set, result.trials, result.success) for result in results]

    def _require(self, policy: str, results: Mapping[str, object]) -> None:
        if policy not in results:
            detail = f"{did_you_mean(policy, results)}there are: {', '.join(results) or 'none yet'}"
            raise UnknownName(f"no results of a policy {policy!r}", detail)

    def add(self, path: str | Path, *, person: str = "") -> AddedResults:
        """Add the trials of a table, as `ares evaluate add` does; what was added before is left out.

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

    def compare(self, first: str, second: str, *, difference: float = PLANNED_DIFFERENCE) -> PolicyComparison:
        """Which of two policies is better, valid after every look, as `ares evaluate compare` says.

            >>> compared = ws.evaluations.compare("act-clean", "act-all", difference=0.2)
            >>> compared.trials.difference, compared.trials.missing

        Args:
            first: Name of a policy.
            second: Name of another.
            difference: The difference of success that is to be decided, for the number of further trials.

        Raises:
            RequestError: A policy has no results, no task was tried by both, or the difference is none.
        """
        log = self._stores.annotations
        trials, sets = read_trials(log), read_policy_sets(log)
        for policy in (first, second):
            self._require(policy, trials)
        compared = compare_trials((first, second), trials[first], trials[second], difference)
        try:
            contrast = self._contrast(
                *(self._members_of(policy, sets.get(policy)) for policy in (first, second))
            )
        except RequestError as error:
            return PolicyComparison(trials=compared, sets=None, sets_unknown=str(error))
        return PolicyComparison(trials=compared, sets=contrast, sets_unknown="")

    def _members_of(self, policy: str, stated: PolicySet | None) -> tuple[str, set[str]]:
        """Label and episodes of the set of a policy. Raises RequestError where they are not here."""
        if stated is None:
            raise RequestError(
                f"the set of {policy} is not stated", "the column `set` of its results says it"
            )
        sets = Sets(self._stores.annotations)
        selection = sets[stated.label]
        if selection.ids_hash != stated.ids_hash:
            raise RequestError(
                f"the set of {policy} is not in this workspace",
                f"{selection.label} has other members here: hash {selection.ids_hash}, not {stated.ids_hash}",
            )
        return selection.label, set(sets.ids(selection))

    def _contrast(self, first: tuple[str, set[str]], second: tuple[str, set[str]]) -> SetContrast:
        sides = first[1] - second[1], second[1] - first[1]
        views = [Episodes(self._stores) & side for side in sides]
        counts: dict[str, dict[str, tuple[int, int]]] = {}
        for name in _COUNTED:
            if name == "task" or name in views[0].columns:
                parts = [
                    {group.value or "": group.episodes for group in view.count_by(name)} if side else {}
                    for view, side in zip(views, sides, strict=True)
                ]
                values = {
                    value: (parts[0].get(value, 0), parts[1].get(value, 0))
                    for part in parts
                    for value in part
                }
                counts[name] = dict(sorted(values.items(), key=lambda item: -sum(item[1])))
        return SetContrast(
            labels=(first[0], second[0]),
            common=len(first[1] & second[1]),
            only_first=len(sides[0]),
            only_second=len(sides[1]),
            counts=counts,
        )
