"""Estimates equal those of the packages that define them, and their intervals cover the truth as often as they say."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from ares.review import LabelledItem, PersonAnswer, StratumCounts, allocate_answers, compare_people
from ares.review.allocation import estimate_stratified_share
from ares.review.estimates import (
    brier_score,
    cohen_kappa,
    estimate_shifted_share,
    estimate_true_share,
    krippendorff_alpha,
    labels_for_half_width,
    labels_for_precision,
    prediction_powered_mean,
    reliability_curve,
)
from benchmarks.review_estimates import make_judges, reach_at_random, reach_by_worth, simulate_review

_ORACLES = json.loads((Path(__file__).parents[2] / "fixtures" / "estimates.json").read_text())


@pytest.mark.parametrize("case", _ORACLES["means"])
def test_prediction_powered_means_equal_those_of_ppi_python(case: dict[str, list[float]]) -> None:
    found = prediction_powered_mean(case["labels"], case["judged"], case["rest"])
    expected = (case["mean"], case["low"], case["high"])
    assert (found.share, found.low, found.high) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("case", _ORACLES["alphas"])
def test_alpha_equals_that_of_krippendorff(case: dict[str, list[list[int | None]]]) -> None:
    ratings = [{f"person {n}": str(v) for n, v in enumerate(row) if v is not None} for row in case["ratings"]]
    assert krippendorff_alpha(ratings) == pytest.approx(case["alpha"], abs=1e-9)


def test_agreement_is_unknown_where_nothing_could_differ() -> None:
    assert krippendorff_alpha([{"Ada": "met"}, {"Bob": "unmet"}]) is None
    assert krippendorff_alpha([{"Ada": "met", "Bob": "met"}]) is None
    assert cohen_kappa({}) is None
    assert cohen_kappa({("met", "met"): 9}) is None
    # Worked example of Cohen (1960): 20, 5, 10, 15.
    assert cohen_kappa({("y", "y"): 20, ("y", "n"): 5, ("n", "y"): 10, ("n", "n"): 15}) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("precision", "errors", "labels"), [(0.95, 0, 59), (0.95, 1, 93), (0.95, 2, 124), (0.99, 0, 299)]
)
def test_answers_that_certify_a_precision(precision: float, errors: int, labels: int) -> None:
    assert labels_for_precision(precision, errors) == labels


def test_few_answers_of_one_kind_are_estimated_without_the_judge() -> None:
    labels = [True] * 90 + [False] * 10
    few = estimate_true_share(labels, [1.0] * 100, [1.0] * 900)
    assert (few.method, few.share) == ("wilson", 0.9)
    many = estimate_true_share(labels * 3, [float(label) for label in labels * 3], [1.0] * 810 + [0.0] * 90)
    assert many.method == "ppi++"
    assert many.half_width < few.half_width
    assert labels_for_half_width(few, 100, few.half_width) == 0
    assert labels_for_half_width(few, 100, few.half_width / 2) == 300
    with pytest.raises(ValueError, match="each item has one of both"):
        estimate_true_share([True], [], [])


@pytest.mark.slow
def test_intervals_cover_the_truth_and_few_certificates_are_wrong() -> None:
    # 150 runs are within 3.6 points of their rate; benchmarks/RESULTS.md has 2,000.
    found = simulate_review(150, seed=7)
    assert 0.91 * 150 <= found.covered <= 0.99 * 150
    assert 0.91 * 150 <= found.shifted <= 0.99 * 150
    assert 0 < found.wrong < found.certified
    assert found.wrong <= 0.05 * 150


def _strata(labels: int, hits: tuple[int, int], **counts: int) -> dict[str, StratumCounts]:
    """Nine in ten items that a judge is sure of, and a tenth on which it is not."""
    sure = StratumCounts(cell="met 9", size=9_000, labels=labels, hits=hits[0], **counts)
    return {
        "sure": sure,
        "unsure": StratumCounts(cell="met 5", size=1_000, labels=labels, hits=hits[1], **counts),
    }


def test_what_narrows_the_interval_most_is_asked_first() -> None:
    order = allocate_answers(_strata(40, (40, 20), free=5_000), 200)
    assert order[:3] == ["sure"] * 3, "few answers for nine tenths of the items"
    counts = Counter(order)
    # Neyman: 0.9 * sqrt(.95 * .05) to 0.1 * sqrt(.5 * .5), and both have 40 answers.
    assert counts["sure"] + 40 == pytest.approx(280 * 0.9 * 0.218 / (0.9 * 0.218 + 0.1 * 0.5), abs=3)
    few = allocate_answers(_strata(40, (40, 20), free=7), 200)
    assert Counter(few) == {"sure": 7, "unsure": 7}
    assert allocate_answers({}, 5) == []


def test_answers_count_by_the_size_of_their_stratum() -> None:
    found = estimate_stratified_share(_strata(100, (98, 50)).values())
    assert found.share == pytest.approx(0.9 * 0.98 + 0.1 * 0.5)
    assert found.low < found.share < found.high < 1
    few = estimate_stratified_share(_strata(5, (5, 5)).values())
    assert few.share == 1 and few.low < 0.8, "five answers without an error show little"
    done = estimate_stratified_share([StratumCounts(cell="met 9", size=40, labels=40, hits=39)])
    assert (done.low, done.share, done.high) == (0.975,) * 3, "nothing is left to be asked"
    assert estimate_stratified_share([]).half_width == 0.5


def test_a_good_judge_halves_the_labels_and_the_interval_covers() -> None:
    # 100 runs; benchmarks/RESULTS.md has 2,000 for each of 24 judges.
    middling = make_judges(0.5)[2]
    source = np.random.default_rng(9)
    found = [reach_by_worth(middling, source, 100) for _ in range(100)]
    assert np.mean([one.labels for one in found]) <= 0.5 * reach_at_random(middling, source).labels
    assert sum(one.has_truth for one in found) >= 89


def test_who_is_overruled_more_often_than_others_stands_out() -> None:
    def item(number: int, verdicts: dict[str, str], decided: str) -> LabelledItem:
        asked = tuple(PersonAnswer(person, verdict, person) for person, verdict in verdicts.items())
        answers = (*asked, PersonAnswer("Cleo", decided, "c", drawn="adjudicate")) if decided else asked
        return LabelledItem(
            question="acceptable", subject_id=str(number), episode_id=str(number), dataset="d",
            answers=answers, before_adjudication=asked,
        )  # fmt: skip

    items = [item(number, {"Ada": "met", "Ben": "met"}, "") for number in range(20)]
    items += [item(number, {"Ada": "met", "Ben": "unmet"}, "met") for number in range(20, 25)]
    items += [item(30, {"Ada": "met", "Ben": "unmet"}, "")]
    ada, ben = compare_people(items)
    assert (ada.compared, ada.overruled, ben.overruled, ben.others_overruled) == (25, 0, 5, 0)
    assert ben.stands_out and not ada.stands_out
    assert not any(row.stands_out for row in compare_people(items[:22]))


def test_a_judge_without_power_says_nothing_of_another_share() -> None:
    with pytest.raises(ValueError, match="its share says nothing"):
        estimate_shifted_share(50, 100, true_accepted=10, true=20, false_refused=10, false=20)


def test_ranks_beside_what_people_say() -> None:
    ranks, labels = [0.05, 0.95, 0.95, 1.0], [False, True, False, True]
    assert brier_score(ranks, labels) == pytest.approx((0.05**2 + 0.05**2 + 0.95**2) / 4)
    assert [(part.low, part.items, part.true_share) for part in reliability_curve(ranks, labels)] == [
        (0.0, 1, 0.0),
        (0.9, 3, pytest.approx(2 / 3)),
    ]
    assert brier_score([], []) is None
