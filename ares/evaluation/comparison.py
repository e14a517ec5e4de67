"""Which of two policies succeeds more often: an interval of the difference that is valid after every look.

A bettor who bets a share of the wealth on each pair of trials wins nothing in the mean where the difference is the one
that is bet against. Many bets are mixed; their wealth reaches 20 in at most one of 20 samples, whenever one stops
(Waudby-Smith and Ramdas, JRSS B 2024). The interval has the differences at which it has not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from math import log
from typing import TYPE_CHECKING, NamedTuple

from ares.errors import RequestError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json
    from ares.evaluation.results import Trial


# 1 / .05: the wealth that one of 20 samples reaches.
_LOG_WEALTH = log(20)
_BETS, _LEAST_BET, _LARGEST_BET = 80, 0.003, 0.995
_PRECISION = 1e-4
# The number of further pairs is that at which so many of simulated samples are decided.
_POWER, _SAMPLES, _MOST_PAIRS, _STEP = 0.8, 500, 100_000, 1.08
# Before any trial half of all pairs differ, with the weight of so many pairs.
_PAIRS_BEFORE, _SHARE_BEFORE = 10, 0.5


class Interval(NamedTuple):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskComparison:
    """Two policies in one task.

    Attributes:
        task: The task.
        trials: Number of trials of each.
        success: Success of each, 0 to 1; each interval is valid alone.
        pairs: Number of pairs that are compared.
        is_by_start: Whether a pair has the same start; else trials are paired in their order.
        difference: Success of the first less that of the second, -1 to 1, over the pairs.
    """

    task: str
    trials: tuple[int, int]
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
        only_first: Pairs in which the first policy did better.
        only_second: Pairs in which the second did better.
        left_out: Trials of each without a partner: in a task, or from a start, that the other has not tried.
        difference: Success of the first less that of the second over all pairs.
        better: Name of the better policy, "" while it is not decided.
        planned: The difference that is to be decided.
        is_ruled_out: Whether so large a difference is outside the interval.
        missing: Further trials of each that decide such a difference with a chance of 80 %; None where it is decided,
            ruled out, or beyond 100,000.
    """

    policies: tuple[str, str]
    tasks: tuple[TaskComparison, ...]
    pairs: int
    only_first: int
    only_second: int
    left_out: tuple[int, int]
    difference: Interval
    better: str
    planned: float
    is_ruled_out: bool
    missing: int | None

    @property
    def verdict(self) -> str:
        """What is decided, in a line."""
        if self.better:
            return f"decided: {self.better} is better"
        if self.is_ruled_out:
            return f"not decided; a difference of {self.planned:g} is ruled out"
        count = "more than 100,000" if self.missing is None else f"about {self.missing:,}"
        return f"not decided; {count} more trials of each would decide a difference of {self.planned:g}"

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON, intervals by name of their parts."""
        tasks: list[Json] = [
            {
                **asdict(task),
                "success": [part._asdict() for part in task.success],
                "difference": task.difference._asdict(),
            }
            for task in self.tasks
        ]
        return {
            **asdict(self),
            "tasks": tasks,
            "difference": self.difference._asdict(),
            "verdict": self.verdict,
        }


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
        RequestError: No task was tried by both, or the difference is none.
    """
    import numpy as np

    if not 0 < planned < 1:
        raise RequestError("a difference lies between 0 and 1", f"got {planned:g}; .15 is one")
    by_task = tuple(_group_by_task(trials) for trials in (first, second))
    shared = [task for task in by_task[0] if task in by_task[1]]
    if not shared:
        tried = (f"{name}: {', '.join(tasks)}" for name, tasks in zip(policies, by_task, strict=True))
        raise RequestError("no task was tried by both policies", "; ".join(tried))
    tasks: list[TaskComparison] = []
    differences: list[NDArray[np.float64]] = []
    for task in shared:
        sides = by_task[0][task], by_task[1][task]
        pairs, is_by_start = _pair_trials(*sides)
        differences.append(np.array([one.score - other.score for one, other in pairs]))
        tasks.append(
            TaskComparison(
                task=task,
                trials=(len(sides[0]), len(sides[1])),
                success=(bound_success(sides[0]), bound_success(sides[1])),
                pairs=len(pairs),
                is_by_start=is_by_start,
                difference=_bound_mean(differences[-1]),
            )
        )
    values = np.concatenate(differences)
    difference = _bound_mean(values)
    is_decided = rules_out(values, 0.0)
    is_ruled_out = difference.high < planned and difference.low > -planned
    return Comparison(
        policies=policies,
        tasks=tuple(tasks),
        pairs=len(values),
        only_first=int((values > 0).sum()),
        only_second=int((values < 0).sum()),
        left_out=(len(first) - len(values), len(second) - len(values)),
        difference=difference,
        better=policies[difference.mean < 0] if is_decided else "",
        planned=planned,
        is_ruled_out=is_ruled_out,
        missing=None if is_decided or is_ruled_out else _count_missing(values, difference, planned),
    )


def bound_success(trials: Iterable[Trial]) -> Interval:
    """The mean success of some trials, 0 to 1, with its interval."""
    import numpy as np

    bounds = _bound_mean(np.array([2 * trial.score - 1 for trial in trials]))
    return Interval(*((part + 1) / 2 for part in bounds))


def _group_by_task(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    by_task: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        by_task[trial.task].append(trial)
    return dict(by_task)


def _pair_trials(first: Sequence[Trial], second: Sequence[Trial]) -> tuple[list[tuple[Trial, Trial]], bool]:
    """The pairs of two policies in a task, and whether they are those of the same starts.

    Where they share a start, only equal starts are paired, the first trial from one with the first; else in order.
    """
    keyed = tuple(_key_by_start(trials) for trials in (first, second))
    pairs = [(trial, keyed[1][key]) for key, trial in keyed[0].items() if key in keyed[1]]
    return (pairs, True) if pairs else (list(zip(first, second, strict=False)), False)


def _key_by_start(trials: Iterable[Trial]) -> dict[tuple[str, int], Trial]:
    """Trials by their start and the number of the trial from it; without those whose start is not known."""
    counts: dict[str, int] = defaultdict(int)
    keyed: dict[tuple[str, int], Trial] = {}
    for trial in trials:
        if trial.start:
            keyed[trial.start, counts[trial.start]] = trial
            counts[trial.start] += 1
    return keyed


@cache
def _bets() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
    """The mean of values from -1 to 1, (N,), and its interval; 0 in (-1, 1) without values."""
    import numpy as np

    if not len(values):
        return Interval(0.0, -1.0, 1.0)
    mean = float(values.mean())
    return Interval(mean, _find_end(values, mean, -1.0), _find_end(values, mean, 1.0))


def _find_end(values: NDArray[np.float64], mean: float, limit: float) -> float:
    """The mean next to that of the values, towards a limit, that they rule out; else the limit."""
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

    bets, weights = _bets()
    distinct, counts = np.unique(values, return_counts=True)
    # The worst value is -1 for a bet on more, and 1 for one on less: the largest bet leaves little of the wealth.
    shares = bets / (1 + np.sign(bets) * mean)
    gains = counts @ np.log1p(shares * (distinct[:, None] - mean))
    return float(np.logaddexp.reduce(weights + gains)) >= _LOG_WEALTH


def _count_missing(values: NDArray[np.float64], difference: Interval, planned: float) -> int | None:
    """Further pairs by which a difference is decided in 80 % of samples that go on from those of today.

    The samples have pairs with a winner, as many as today have, and a look at every step.
    """
    import numpy as np

    bets, weights = _bets()
    sign = 1 if difference.mean >= 0 or difference.low > -planned else -1
    spread = (float((values**2).sum()) + _PAIRS_BEFORE * _SHARE_BEFORE) / (len(values) + _PAIRS_BEFORE)
    differing = max(spread, planned)
    chances = [(differing + planned) / 2, (differing - planned) / 2, 1 - differing]
    rng, gains = np.random.default_rng(0), np.log1p(bets * values[:, None]).sum(axis=0)
    wins, losses, is_decided = np.zeros(_SAMPLES), np.zeros(_SAMPLES), np.zeros(_SAMPLES, bool)
    total = 0
    while total < _MOST_PAIRS:
        step = max(1, round(total * (_STEP - 1)))
        drawn = rng.multinomial(step, chances, _SAMPLES)
        total, wins, losses = total + step, wins + drawn[:, 0], losses + drawn[:, 1]
        wealth = (
            weights + gains + wins[:, None] * np.log1p(sign * bets) + losses[:, None] * np.log1p(-sign * bets)
        )
        is_decided |= np.logaddexp.reduce(wealth, axis=1) >= _LOG_WEALTH
        if is_decided.mean() >= _POWER:
            return total
    return None
