"""Simulates judges of known error rates: how often intervals cover the truth, and how many certificates are wrong."""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass

import numpy as np

from ares.errors import RequestError
from ares.review import (
    LabelledItem,
    PersonAnswer,
    certify_items,
    estimate_shifted_share,
    estimate_true_share,
)
from ares.statistics import wilson_interval

_LABELS, _UNLABELLED, _SHIFTED, _ACCEPTED = 300, 3_000, 2_000, 400


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewSimulation:
    """What simulated judges show.

    Attributes:
        runs: Judges.
        covered: Runs in which the interval of the share of true items has the truth.
        shifted: The same where the share is another than among the labelled items.
        certified: Judges with a certificate.
        wrong: Certificates of which less is true than they say.
    """

    runs: int
    covered: int
    shifted: int
    certified: int
    wrong: int


def simulate_review(runs: int, seed: int, precision: float = 0.95) -> ReviewSimulation:
    """Draw judges, and estimate and certify each from answers of people without an error."""
    shares = [_estimate_shares(np.random.default_rng([seed, run])) for run in range(runs)]
    certificates = [_certify_drawn(seed * 1_000_003 + run, precision) for run in range(runs)]
    return ReviewSimulation(
        runs=runs,
        covered=sum(covered for covered, _ in shares),
        shifted=sum(shifted for _, shifted in shares),
        certified=sum(found is not None for found in certificates),
        wrong=sum(found is not None and found < precision for found in certificates),
    )


def _estimate_shares(source: np.random.Generator) -> tuple[bool, bool]:
    """Whether the intervals have the truth: of PPI++, and of Rogan and Gladen where the share is another."""
    share, right, other = source.uniform(0.3, 0.7), source.uniform(0.75, 0.97), source.uniform(0.2, 0.8)
    truth, rest = source.random(_LABELS) < share, source.random(_UNLABELLED) < share
    judged, judged_rest = (np.where(source.random(len(part)) < right, part, ~part) for part in (truth, rest))
    found = estimate_true_share(
        truth.tolist(), judged.astype(float).tolist(), judged_rest.astype(float).tolist()
    )
    moved = source.random(_SHIFTED) < other
    accepted = np.where(source.random(_SHIFTED) < right, moved, ~moved)
    shifted = estimate_shifted_share(
        int(accepted.sum()),
        _SHIFTED,
        true_accepted=int((truth & judged).sum()),
        true=int(truth.sum()),
        false_refused=int((~truth & ~judged).sum()),
        false=int((~truth).sum()),
    )
    return found.low <= share <= found.high, shifted.low <= other <= shifted.high


def _certify_drawn(seed: int, precision: float) -> float | None:
    """The true precision above the cut of a certificate of a drawn judge; None where it is refused."""
    low = 0.8 + 0.2 * random.Random(-seed).random()
    try:
        cut = certify_items(draw_accepted_items(seed, _ACCEPTED, low), precision).cut
    except RequestError:
        return None
    return low + (1 - low) * (1 + cut) / 2


def draw_accepted_items(seed: int, count: int, low: float, high: float = 1.0) -> list[LabelledItem]:
    """Accepted captions that are true as often as `low` where the judge is least sure, up to `high`."""
    source = random.Random(seed)
    items = []
    for number in range(count):
        margin = source.random()
        verdict = "met" if source.random() < low + (high - low) * margin else "unmet"
        items.append(
            LabelledItem(
                question="acceptable",
                subject_id=f"{seed} {number}",
                episode_id=f"{seed} {number}",
                dataset="d",
                answers=(PersonAnswer("Ada", verdict, str(number)),),
                judged="met",
                rank=0.5 + margin / 2,
            )
        )
    return items


def main() -> None:
    """Simulate, and print one line for each kind of number."""
    parser = argparse.ArgumentParser(description="Judges of known error rates, and people who make none.")
    parser.add_argument("--runs", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    found = simulate_review(arguments.runs, arguments.seed)
    for name, hits, total in (
        ("intervals of the share of true captions that have it", found.covered, found.runs),
        ("the same where the share is another", found.shifted, found.runs),
        ("judges certified at 0.95", found.certified, found.runs),
        ("certificates of which less is true, of all judges", found.wrong, found.runs),
    ):
        low, high = wilson_interval(hits, total)
        print(f"{name}: {hits} of {total} = {hits / total:.3f} [{low:.3f}, {high:.3f}]")


if __name__ == "__main__":
    main()
