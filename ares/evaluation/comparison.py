"""Which of two policies succeeds more often: an interval of the difference that is valid after every look.

Who bets on more, or on less, than a difference wins nothing in the mean where that difference is the true one. Many
bets are mixed: their wealth reaches 20 times the stake in at most one of 20 samples, whenever one stops
(Waudby-Smith and Ramdas, JRSS B 86, 2024). The interval has the differences at which it has not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import log
from typing import TYPE_CHECKING

from ares.errors import RequestError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.evaluation.results import Trial


# The difference between two policies that a comparison is planned for.
PLANNED_DIFFERENCE = 0.15
# The wealth, as its logarithm, that one of 20 samples reaches.
_LOG_WEALTH = log(20)
_BETS, _LEAST_BET, _LARGEST_BET = 80, 0.003, 0.995
_PRECISION = 1e-4
# Further pairs are counted until so many of simulated samples are decided, from look to look so many times as many.
_POWER, _SAMPLES, _MOST_PAIRS, _GROWTH = 0.8, 500, 100_000, 1.08
# Before any trial half of all pairs differ, with the weight of so many pairs.
_PAIRS_BEFORE, _SHARE_BEFORE = 6, 0.5


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its 95 % interval, valid after every look.

    Attributes:
        mean: Of what was seen.
        low: Lower end.
        high: Upper end.
    """

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True, slots=True)
class TaskComparison:
    """Two policies in one task.

    Attributes:
        task: The task.
        success: Success of each, 0 to 1; each interval is valid alone.
        pairs: Number of pairs that are compared.
        is_by_start: Whether a pair has the same start; else trials are paired in their order.
        difference: Success of the first less that of the second, -1 to 1, over the pairs.
    """

    task: str
    success: tuple[Interval, Interval]
    pairs: int
    is_by_start: bool
    difference: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What rollouts say of two policies.

    Attributes:
        policies: Names of the two.
        tasks: The tasks that both have tried.
        pairs: Number of pairs of all tasks.
        wins: Pairs in which the first policy did better, and those in which the second did.
        left_out: Trials of each without a partner: in a task, or from a start, that the other has not tried.
        difference: Success of the first less that of the second over all pairs.
        planned: The difference that is to be decided.
        missing: Further trials of each by which such a difference is decided with a chance of 80 %; 0 where it is
            decided or ruled out, and None for more than 100,000.
    """

    policies: tuple[str, str]
    tasks: tuple[TaskComparison, ...]
    pairs: int
    wins: tuple[int, int]
    left_out: tuple[int, int]
    difference: Interval
    planned: float
    missing: int | None

    @property
    def verdict(self) -> str:
        """What is decided, in a line."""
        if self.difference.low > 0 or self.difference.high < 0:
            return f"decided: {self.policies[self.difference.high < 0]} is better"
        if self.missing == 0:
            return f"not decided; a difference of {self.planned:g} is ruled out"
        count = f"more than {_MOST_PAIRS:,}" if self.missing is None else f"about {self.missing:,}"
        return f"not decided; {count} more trials of each would decide a difference of {self.planned:g}"


def compare_trials(
    policies: tuple[str, str], first: Sequence[Trial], second: Sequence[Trial], planned: float
) -> Comparison:
    """Compare two policies by their trials, in the order of these.

    Args:
        policies: Names of the two.
        first: Trials of the first.
        second: Trials of the second.
        planned: The difference that is to be decided, above 0 and below 1.

    Raises:
        RequestError: No task was tried by both, or `planned` is no such difference.
    """
    import numpy as np

    if not 0 < planned < 1:
        raise RequestError("a difference lies between 0 and 1", f"got {planned:g}; .15 is one")
    tried = [dict.fromkeys(trial.task for trial in trials) for trials in (first, second)]
    tasks: list[TaskComparison] = []
    values = np.zeros(0)
    for task in filter(tried[1].__contains__, tried[0]):
        sides = [[trial for trial in trials if trial.task == task] for trials in (first, second)]
        pairs, is_by_start = _pair_trials(*sides)
        differences = np.array([trial.score - other.score for trial, other in pairs])
        values = np.concatenate([values, differences])
        success = bound_success(sides[0]), bound_success(sides[1])
        tasks.append(TaskComparison(task, success, len(pairs), is_by_start, _bound_mean(differences)))
    if not tasks:
        detail = "; ".join(f"{name}: {', '.join(tasks)}" for name, tasks in zip(policies, tried, strict=True))
        raise RequestError("no task was tried by both policies", detail)
    difference = _bound_mean(values)
    is_open = difference.low <= 0 <= difference.high and (
        difference.high >= planned or difference.low <= -planned
    )
    return Comparison(
        policies=policies,
        tasks=tuple(tasks),
        pairs=len(values),
        wins=(int((values > 0).sum()), int((values < 0).sum())),
        left_out=(len(first) - len(values), len(second) - len(values)),
        difference=difference,
        planned=planned,
        missing=_count_missing(values, planned) if is_open else 0,
    )


def bound_success(trials: Iterable[Trial]) -> Interval:
    """The mean success of some trials, at least one, 0 to 1, with its interval."""
    import numpy as np

    bounds = _bound_mean(np.array([2 * trial.score - 1 for trial in trials]))
    return Interval((bounds.mean + 1) / 2, (bounds.low + 1) / 2, (bounds.high + 1) / 2)


def _pair_trials(first: Sequence[Trial], second: Sequence[Trial]) -> tuple[list[tuple[Trial, Trial]], bool]:
    """The pairs of two policies in a task, and whether they are those of the same starts.

    Where they share a start, only equal starts are paired, the first trial from one with the first; else in order.
    """
    keyed, others = _key_by_start(first), _key_by_start(second)
    pairs = [(trial, others[key]) for key, trial in keyed.items() if key in others]
    return (pairs, True) if pairs else (list(zip(first, second, strict=False)), False)


def _key_by_start(trials: Iterable[Trial]) -> dict[tuple[str, int], Trial]:
    """Trials by their start and the number of the trial from it; without those whose start is not known."""
    counts, keyed = Counter[str](), dict[tuple[str, int], "Trial"]()
    for trial in trials:
        if trial.start:
            counts[trial.start] += 1
            keyed[trial.start, counts[trial.start]] = trial
    return keyed


@cache
def _list_bets() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bets as shares of the wealth, (K,) from -1 to 1, and the logarithms of their weights.

    With these weights the wealth against no difference is that of a mixture by a Beta(2, 2) distribution.
    """
    import numpy as np

    bets = np.geomspace(_LEAST_BET, _LARGEST_BET, _BETS)
    edges = np.concatenate([[0], np.sqrt(bets[1:] * bets[:-1]), [1]])
    weights = np.diff(edges) * (1 - bets**2)
    both = np.concatenate([weights, weights])
    return np.concatenate([bets, -bets]), np.log(both / both.sum())


def _bound_mean(values: NDArray[np.float64]) -> Interval:
    """The mean of values from -1 to 1, (N,), at least one, and its interval."""
    mean = float(values.mean())
    return Interval(mean, _find_end(values, mean, -1.0), _find_end(values, mean, 1.0))


def _find_end(values: NDArray[np.float64], mean: float, limit: float) -> float:
    """The first mean beyond that of the values, towards a limit, that they rule out; else the limit."""
    inside, outside = mean, limit
    while abs(outside - inside) > _PRECISION:
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if rules_out(values, middle) else (middle, outside)
    return outside


def rules_out(values: NDArray[np.float64], mean: float) -> bool:
    """Whether values from -1 to 1, (N,), have a mean that is not this one, between -1 and 1.

    It is wrong in at most 5 % of samples, however often one looks, whatever the order of the values.
    """
    import numpy as np

    bets, weights = _list_bets()
    distinct, counts = np.unique(values, return_counts=True)
    # The worst value is -1 for a bet on more, and 1 for one on less: the largest bet leaves little of the wealth.
    shares = bets / (1 + np.sign(bets) * mean)
    gains = counts @ np.log1p(shares * (distinct[:, None] - mean))
    return float(np.logaddexp.reduce(weights + gains)) >= _LOG_WEALTH


def _count_missing(values: NDArray[np.float64], planned: float) -> int | None:
    """Further pairs by which 80 % of samples that go on from the values are decided, of this difference; or None.

    As many of the further pairs have a winner as of those until today, and every step is looked at.
    """
    import numpy as np

    bets, weights = _list_bets()
    known = weights + np.log1p(bets * values[:, None]).sum(axis=0)
    spread = ((values**2).sum() + _PAIRS_BEFORE * _SHARE_BEFORE) / (len(values) + _PAIRS_BEFORE)
    differing, direction = max(float(spread), planned), 1 if values.mean() >= 0 else -1
    chances = [(differing + planned) / 2, (differing - planned) / 2, 1 - differing]
    rng, total, results = np.random.default_rng(0), 0, np.zeros((_SAMPLES, 2))
    is_decided = np.zeros(_SAMPLES, dtype=bool)
    won, lost = np.log1p(direction * bets), np.log1p(-direction * bets)
    while total < _MOST_PAIRS:
        step = max(1, round(total * (_GROWTH - 1)))
        total += step
        results += rng.multinomial(step, chances, _SAMPLES)[:, :2]
        wealth = known + results[:, :1] * won + results[:, 1:] * lost
        with np.errstate(over="ignore"):
            is_decided |= np.exp(wealth - _LOG_WEALTH).sum(axis=1) >= 1
        if is_decided.mean() >= _POWER:
            return total
    return None
