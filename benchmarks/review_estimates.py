"""Simulates judges of known error rates: whether intervals and certificates hold, and what answers are worth."""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ares.errors import RequestError
from ares.review import (
    LabelledItem,
    PersonAnswer,
    StratumCounts,
    allocate_answers,
    certify_items,
    compare_people,
    estimate_shifted_share,
    estimate_stratified_share,
    estimate_true_share,
)
from ares.statistics import wilson_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LABELS, _UNLABELLED, _SHIFTED, _ACCEPTED = 300, 3_000, 2_000, 400
# Half width that is to be reached, and random answers before the first queue by worth.
HALF_WIDTH, _PILOT = 0.03, 60
PREVALENCES = [0.5, 0.8, 0.95]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedJudge:
    """A judge of a large set, by its ten intervals of rank.

    Attributes:
        name: What it is like.
        prevalence: Share of true items.
        sizes: (10,) share of the items in each interval.
        true_shares: (10,) share of true items in each.
        accuracy: Share of the items on which it is right.
    """

    name: str
    prevalence: float
    sizes: tuple[float, ...]
    true_shares: tuple[float, ...]
    accuracy: float

    @property
    def cells(self) -> list[str]:
        """The cells of its intervals, see `ares.review.allocation`."""
        return [f"{'met' if number >= 5 else 'unmet'} {number}" for number in range(10)]

    @property
    def least_part(self) -> float:
        """The part of the labels of random order that the best order needs, where all shares are known (Neyman)."""
        pairs = zip(self.sizes, self.true_shares, strict=True)
        spread = sum(size * math.sqrt(share * (1 - share)) for size, share in pairs)
        return spread**2 / (self.prevalence * (1 - self.prevalence))


def make_judges(prevalence: float) -> list[SimulatedJudge]:
    """Judges from no information to nearly none missing; logits of the truth are normal with the given deviation.

    The rank of a judge is the chance that the item is true, its logit times a confidence: 1 is calibrated.
    """
    source = np.random.default_rng(0)
    noise = source.normal(size=200_000)
    kinds = (
        ("hardly informed", 1.0, 1.0),
        ("middling", 3.0, 1.0),
        ("middling, twice as sure as it should be", 3.0, 2.0),
        ("good", 6.0, 1.0),
        ("good, half as sure as it should be", 6.0, 0.5),
    )
    judges = [_judge_of_ranks("no information", source.random(len(noise)), np.full(len(noise), prevalence))]
    for name, deviation, confidence in kinds:
        low, high = -20.0, 20.0
        for _ in range(50):
            middle = (low + high) / 2
            is_low = (1 / (1 + np.exp(-deviation * noise - middle))).mean() < prevalence
            low, high = (middle, high) if is_low else (low, middle)
        logits = deviation * noise + low
        ranks = 1 / (1 + np.exp(-confidence * logits))
        judges.append(_judge_of_ranks(name, ranks, 1 / (1 + np.exp(-logits))))
    for right in (0.85, 0.95):
        truth = source.random(len(noise)) < prevalence
        verdicts = np.where(source.random(len(noise)) < right, truth, ~truth)
        judges.append(_judge_of_ranks(f"two words, right in {right:.2f}", verdicts * 0.98 + 0.01, truth))
    return judges


def _judge_of_ranks(name: str, ranks: NDArray[np.float64], chances: NDArray[Any]) -> SimulatedJudge:
    cells = np.minimum(9, (ranks * 10).astype(int))
    sizes = np.bincount(cells, minlength=10)
    sums = np.bincount(cells, chances.astype(float), minlength=10)
    return SimulatedJudge(
        name=name,
        prevalence=float(chances.mean()),
        sizes=tuple((sizes / len(ranks)).tolist()),
        true_shares=tuple((sums / np.maximum(sizes, 1)).tolist()),
        accuracy=float(np.where(ranks >= 0.5, chances, 1 - chances).mean()),
    )


class Reached(NamedTuple):
    """Labels until the interval was +- 0.03, and whether it had the truth then."""

    labels: int
    has_truth: bool


def reach_by_worth(judge: SimulatedJudge, source: np.random.Generator, queue_size: int) -> Reached:
    """A person answers 60 random items, then queues by worth of so many, until the interval is narrow enough."""
    size, step = 1_000_000, 10
    labels = source.multinomial(_PILOT, judge.sizes)
    hits = source.binomial(labels, judge.true_shares)
    order: list[str] = []
    while True:
        strata = {
            cell: StratumCounts(cell=cell, size=round(share * size), labels=int(n), hits=int(k), free=size)
            for cell, share, n, k in zip(judge.cells, judge.sizes, labels, hits, strict=True)
            if share
        }
        found = estimate_stratified_share(strata.values())
        if found.half_width <= HALF_WIDTH:
            return Reached(int(labels.sum()), found.low <= judge.prevalence <= found.high)
        order = order or allocate_answers(strata, queue_size)
        for cell, count in Counter(order[:step]).items():
            number = int(cell.rpartition(" ")[2])
            labels[number] += count
            hits[number] += source.binomial(count, judge.true_shares[number])
        order = order[step:]


def reach_at_random(judge: SimulatedJudge, source: np.random.Generator) -> Reached:
    """The same in random order, from the labels alone (Wilson)."""
    labels = hits = 0
    while True:
        labels, hits = labels + 10, hits + int(source.binomial(10, judge.prevalence))
        low, high = wilson_interval(hits, labels)
        if (high - low) / 2 <= HALF_WIDTH:
            return Reached(labels, low <= judge.prevalence <= high)


def reach_with_judge(judge: SimulatedJudge, source: np.random.Generator) -> Reached:
    """The same in random order, with what the judge says of 20,000 others (`estimate_true_share`)."""
    drawn = source.choice(10, 22_000, p=np.array(judge.sizes) / sum(judge.sizes))
    judged = (drawn >= 5).astype(float)
    truth = source.random(len(drawn)) < np.array(judge.true_shares)[drawn]
    for labels in range(20, 2_000, 20):
        found = estimate_true_share(
            truth[:labels].tolist(), judged[:labels].tolist(), judged[2_000:].tolist()
        )
        if found.half_width <= HALF_WIDTH:
            break
    return Reached(labels, found.low <= judge.prevalence <= found.high)


def print_worth(runs: int, seed: int) -> None:
    """Print a row for each judge: labels by worth beside those of random order, and the coverage."""
    print(
        "judge | true | right | random | random, judge | one queue | by worth | part | least part | covered"
    )
    for prevalence in PREVALENCES:
        for number, judge in enumerate(make_judges(prevalence)):
            source = np.random.default_rng([seed, number, round(100 * prevalence)])
            # Means need fewer runs than coverages.
            random_order = [reach_at_random(judge, source).labels for _ in range(max(1, runs // 20))]
            with_judge = [reach_with_judge(judge, source).labels for _ in range(max(1, runs // 200))]
            single = [reach_by_worth(judge, source, 5_000) for _ in range(max(1, runs // 4))]
            found = [reach_by_worth(judge, source, 100) for _ in range(runs)]
            worth = np.mean([one.labels for one in found])
            print(
                f"{judge.name} | {judge.prevalence:.2f} | {judge.accuracy:.2f} | {np.mean(random_order):.0f} | "
                f"{np.mean(with_judge):.0f} | {np.mean([one.labels for one in single]):.0f} "
                f"({np.mean([one.has_truth for one in single]):.3f}) | {worth:.0f} | "
                f"{worth / np.mean(random_order):.2f} | {judge.least_part:.2f} | "
                f"{np.mean([one.has_truth for one in found]):.3f}",
                flush=True,
            )


def print_people(runs: int, seed: int) -> None:
    """Print how often a person with 20 % random answers stands out, and one with 3 %, by answers of three people."""
    print("items | doubled | 20 % random stands out | one with 3 % does, beside two like that")
    for items in (60, 300, 600, 1_000, 2_000, 4_000):
        source = random.Random(f"{seed} {items}")
        wrong = sum(_stands_out(source, items, {"A": 0.2, "B": 0.03, "C": 0.03}) for _ in range(runs))
        right = sum(_stands_out(source, items, {"A": 0.03, "B": 0.03, "C": 0.03}) for _ in range(runs))
        print(f"{items} | {items // 10} | {wrong / runs:.3f} | {right / runs:.3f}", flush=True)


def _stands_out(source: random.Random, items: int, random_parts: Mapping[str, float]) -> bool:
    """Whether A is named; each doubled item has two of the people, and the third decides where they differ."""
    labelled = []
    for number in range(items // 10):
        truth = source.random() < 0.7
        first, second, third = (
            _say(source, truth, person, random_parts[person]) for person in source.sample("ABC", 3)
        )
        asked = (first, second)
        decided = (third._replace(drawn="adjudicate"),) if first.verdict != second.verdict else ()
        labelled.append(
            LabelledItem(
                question="acceptable",
                subject_id=str(number),
                episode_id=str(number),
                dataset="d",
                answers=(*asked, *decided),
                before_adjudication=asked,
            )
        )
    return any(row.person == "A" and row.stands_out for row in compare_people(labelled))


def _say(source: random.Random, truth: bool, person: str, random_part: float) -> PersonAnswer:
    says = source.random() < 0.5 if source.random() < random_part else truth
    return PersonAnswer(person, "met" if says else "unmet", person)


def main() -> None:
    """Simulate, and print one line for each kind of number."""
    parser = argparse.ArgumentParser(description="Judges of known error rates, and people who make none.")
    parser.add_argument("--runs", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--what", choices=("review", "worth", "people"), default="review")
    arguments = parser.parse_args()
    if arguments.what != "review":
        (print_worth if arguments.what == "worth" else print_people)(arguments.runs, arguments.seed)
        return
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
