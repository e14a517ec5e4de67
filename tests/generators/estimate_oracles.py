"""Writes tests/fixtures/estimates.json by ppi-python 0.2.3 and krippendorff 0.9.0, in an environment that has them."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

_SEED, _CASES = 20261126, 15


def make_means(random: np.random.Generator) -> list[dict[str, Any]]:
    """Labels and judgements of random sizes and error rates, with the mean and interval of PPI++."""
    ppi_py = import_module("ppi_py")
    cases = []
    for _ in range(_CASES):
        count, rest, share = (
            int(random.integers(5, 40)),
            int(random.integers(5, 60)),
            random.uniform(0.1, 0.9),
        )
        labels, hidden = random.random(count) < share, random.random(rest) < share
        if random.random() < 0.7:
            right = random.uniform(0.5, 1)
            judged, others = (
                np.where(random.random(len(truth)) < right, truth, ~truth).astype(float)
                for truth in (labels, hidden)
            )
        else:
            judged, others = (
                np.round(np.clip(truth * 0.6 + random.normal(0.2, 0.2, len(truth)), 0, 1), 3)
                for truth in (labels, hidden)
            )
        known = labels.astype(float)
        low, high = ppi_py.ppi_mean_ci(known, judged, others, alpha=0.05)
        mean = ppi_py.ppi_mean_pointestimate(known, judged, others)
        numbers = {name: float(np.ravel(v)[0]) for name, v in (("mean", mean), ("low", low), ("high", high))}
        lists = {"labels": known.tolist(), "judged": judged.tolist(), "rest": others.tolist()}
        cases.append({**lists, **numbers})
    return cases


def make_alphas(random: np.random.Generator) -> list[dict[str, Any]]:
    """Ratings of two to five people with gaps, with Krippendorff's alpha."""
    krippendorff, cases = import_module("krippendorff"), list[dict[str, Any]]()
    while len(cases) < _CASES:
        people, items, kinds = (int(random.integers(*span)) for span in ((2, 6), (2, 20), (2, 5)))
        truth = random.integers(0, kinds, items)
        agrees = random.random((people, items)) < random.uniform(0.3, 1)
        ratings = np.where(agrees, truth, random.integers(0, kinds, (people, items))).astype(float)
        ratings[random.random((people, items)) < random.uniform(0, 0.6)] = np.nan
        try:
            alpha = float(krippendorff.alpha(reliability_data=ratings, level_of_measurement="nominal"))
        except ValueError:
            continue
        if not np.isnan(alpha):
            rows = [[None if np.isnan(v) else int(v) for v in row] for row in ratings.T.tolist()]
            cases.append({"ratings": rows, "alpha": alpha})
    return cases


if __name__ == "__main__":
    source = np.random.default_rng(_SEED)
    document = {"means": make_means(source), "alphas": make_alphas(source)}
    Path(sys.argv[1]).write_text(json.dumps(document) + "\n")
