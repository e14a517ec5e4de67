"""Two policies of a workspace: what their rollouts say, and what differs between the sets that they were trained on."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ares.curation import Sets, read_rows
from ares.errors import UnknownName
from ares.evaluation.comparison import Comparison, compare_trials
from ares.evaluation.results import read_trials
from ares.registry import did_you_mean

if TYPE_CHECKING:
    from ares.store import Stores

# By column and value the episodes only in the first set, and those only in the second.
SetDifference = dict[str, dict[str, tuple[int, int]]]


_COLUMNS = ("dataset", "instruction", "outcome")


def compare_policies(
    stores: Stores, policies: tuple[str, str], difference: float
) -> tuple[Comparison, SetDifference]:
    """Which of two policies is better, valid after every look, and what differs between their sets.

    Args:
        stores: Stores of the workspace.
        policies: Names of the two.
        difference: The difference of success that further trials are to decide.

    Returns the comparison, and what differs between the sets; empty where not each has one set of the workspace.

    Raises:
        RequestError: A policy has no results, no task was tried by both, or the difference is none.
        StoreError: The stores cannot be read.
    """
    trials = read_trials(stores.annotations)
    for policy in policies:
        if policy not in trials:
            detail = f"{did_you_mean(policy, trials)}there are: {', '.join(trials) or 'none yet'}"
            raise UnknownName(f"no results of a policy {policy!r}", detail)
    first, second = (trials[policy] for policy in policies)
    hashes = [{trial.ids_hash for trial in side} for side in (first, second)]
    return compare_trials(policies, first, second, difference), _contrast_sets(stores, hashes)


def _contrast_sets(stores: Stores, hashes: list[set[str]]) -> SetDifference:
    sets = Sets(stores.annotations)
    here = {version.ids_hash: version for name in sets for version in sets.versions(name)}
    members = [set(sets.ids(here[key])) for side in hashes if len(side) == 1 for key in side & here.keys()]
    if len(members) < 2:
        return {}
    rows = [read_rows(stores, ids, _COLUMNS) for ids in (members[0] - members[1], members[1] - members[0])]
    counts = [{name: Counter(side[name].to_pylist()) for name in _COLUMNS} for side in rows]
    return {
        name: {
            str(value or ""): (counts[0][name][value], counts[1][name][value])
            for value, _ in (counts[0][name] + counts[1][name]).most_common()
        }
        for name in _COLUMNS
    }
