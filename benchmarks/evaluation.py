"""How often `ares evaluate compare` is wrong, and whether the number of further trials that it says is right.

.venv/bin/python -m benchmarks.evaluation --seed 7
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import chain, product

import numpy as np
from numpy.typing import NDArray

from ares.evaluation import Trial, compare_trials, rules_out
from ares.statistics import wilson_interval

RATES, STARTS_THAT_DECIDE = (0.2, 0.5, 0.8, 0.95), (0.0, 0.5, 0.9)
_LOOK, _MOST_TRIALS, _MOST_FURTHER = 10, 300, 1_000


def main() -> None:
    """Measure both, and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--samples", type=int, default=2_000, help="pairs of equal policies, of each kind")
    parser.add_argument("--comparisons", type=int, default=100, help="that say how many trials are missing")
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    for line in chain(measure_errors(rng, args.samples), measure_numbers(rng, args.comparisons)):
        print(line, flush=True)


def draw_results(
    rng: np.random.Generator, rates: tuple[float, float], luck: float, trials: int
) -> NDArray[np.float64]:
    """Successes of two policies, (2, trials): so large a share of starts decides alone whether a policy succeeds."""
    common = np.where(rng.random(trials) < luck, rng.random(trials), np.nan)
    drawn = np.where(np.isnan(common), rng.random((2, trials)), common)
    return (drawn < np.array(rates)[:, None]).astype(float)


def measure_errors(rng: np.random.Generator, samples: int) -> Iterator[str]:
    """How often equal policies are told apart, looked at after every ten trials of each, in a line for each kind."""
    for rate, luck in product(RATES, STARTS_THAT_DECIDE):
        wrong = 0
        for _ in range(samples):
            first, second = draw_results(rng, (rate, rate), luck, _MOST_TRIALS)
            wrong += any(
                rules_out((first - second)[:count], 0.0) for count in range(_LOOK, _MOST_TRIALS + 1, _LOOK)
            )
        low, high = wilson_interval(wrong, samples)
        yield (
            f"equal policies, success {rate:g}, {luck:.0%} of starts decide: wrong in {wrong} of {samples} "
            f"({wrong / samples:.1%}, {low:.1%} to {high:.1%})"
        )


def measure_numbers(rng: np.random.Generator, comparisons: int) -> Iterator[str]:
    """The further trials that undecided comparisons say for a difference of .2, against those that decide 80 %."""
    for rates, luck, seen in product(((0.5, 0.7), (0.75, 0.95)), STARTS_THAT_DECIDE, (10, 30)):
        said, ratios = list[int](), list[float]()
        while len(ratios) < comparisons:
            first, second = draw_results(rng, rates, luck, _MOST_FURTHER)
            sides = [
                [Trial("", "t", str(start), float(score)) for start, score in enumerate(side[:seen])]
                for side in (first, second)
            ]
            missing = compare_trials(("a", "b"), sides[0], sides[1], 0.2).missing
            if missing:
                looks = range(seen + _LOOK, _MOST_FURTHER + 1, _LOOK)
                decided = (count for count in looks if rules_out((first - second)[:count], 0.0))
                said.append(missing)
                ratios.append((next(decided, np.inf) - seen) / missing)
        needed, by_then = np.quantile(ratios, 0.8, method="higher"), np.mean(np.array(ratios) <= 1)
        yield (
            f"success {rates[0]:g} and {rates[1]:g}, {luck:.0%} of starts decide, after {seen} trials: said "
            f"{np.median(said):.0f} more ({np.quantile(said, 0.1):.0f} to {np.quantile(said, 0.9):.0f}); "
            f"{by_then:.0%} are decided by then, 80 % by {needed:.2f} times as many"
        )


if __name__ == "__main__":
    main()
