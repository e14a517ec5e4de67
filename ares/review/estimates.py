"""Estimates from answers of people: shares of true items, agreement, reliability, and how many answers are missing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from ares.console import count_of
from ares.statistics import share_lower_bound, wilson_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json


# Of the two-sided 95 % interval.
Z_95 = 1.959963984540054
# Below so many answers of the rarer kind the normal interval of PPI++ covers too seldom (arXiv 2505.20178).
LEAST_RARER = 25
_RESAMPLES, _NUMBERS_PER_BLOCK = 2_000, 2_000_000
_MOST_LABELS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareEstimate:
    """A share with its two-sided 95 % interval.

    Attributes:
        share: 0 to 1.
        low: Lower end of the interval.
        high: Upper end.
        method: "ppi++", "wilson", "rogan-gladen", "bootstrap" or "stratified".
        weight: Of the judge's answers in PPI++ (lambda), 0 to 1; 0 elsewhere.
    """

    share: float
    low: float
    high: float
    method: Literal["ppi++", "wilson", "rogan-gladen", "bootstrap", "stratified"]
    weight: float = 0.0

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    def to_json(self) -> dict[str, Json]:
        """The fields, rounded to four digits."""
        return {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }


def estimate_true_share(
    labels: Sequence[bool], judged: Sequence[float], judged_unlabelled: Sequence[float]
) -> ShareEstimate:
    """The share of true items among all, from few that people labelled and many that a judge has judged.

    By PPI++ (arXiv 2311.01453); by Wilson's interval of the labels alone where the rarer label has fewer than
    `LEAST_RARER`, or no item is unlabelled.

    Args:
        labels: (n,) what people say of items drawn at random.
        judged: (n,) what the judge says of the same, 0 to 1.
        judged_unlabelled: (N,) what the judge says of the rest.

    Raises:
        ValueError: The first two differ in length.
    """
    if len(labels) != len(judged):
        raise ValueError(
            f"{count_of(len(labels), 'label')} and {count_of(len(judged), 'judgement')}: each item has one of both"
        )
    hits = sum(labels)
    if min(hits, len(labels) - hits) < LEAST_RARER or not len(judged_unlabelled):
        low, high = wilson_interval(hits, len(labels))
        share = hits / len(labels) if labels else 0.5
        return ShareEstimate(share=share, low=low, high=high, method="wilson")
    return prediction_powered_mean(labels, judged, judged_unlabelled)


def prediction_powered_mean(
    labels: Sequence[float], judged: Sequence[float], judged_unlabelled: Sequence[float]
) -> ShareEstimate:
    """The mean of labels by PPI++ with the weight that gives the least variance (arXiv 2311.01453, section 6).

    Args:
        labels: (n,) labels, n at least 2.
        judged: (n,) predictions of the same items.
        judged_unlabelled: (N,) predictions of other items, N at least 1.
    """
    import numpy as np

    known, seen, rest = (np.asarray(part, np.float64) for part in (labels, judged, judged_unlabelled))
    count, others = len(known), len(rest)
    variance = float(np.var(np.concatenate([seen, rest]), ddof=1))
    covariance = float(np.mean((known - known.mean()) * (seen - seen.mean())))
    weight = min(1.0, max(0.0, covariance / ((1 + count / others) * variance))) if variance else 0.0
    corrected = known - weight * seen
    share = float(weight * rest.mean() + corrected.mean())
    half = Z_95 * math.sqrt(weight**2 * float(rest.var()) / others + float(corrected.var()) / count)
    return ShareEstimate(share=share, low=share - half, high=share + half, method="ppi++", weight=weight)


def estimate_shifted_share(
    accepted: int, total: int, *, true_accepted: int, true: int, false_refused: int, false: int
) -> ShareEstimate:
    """The share of true items where it differs from that of the labelled ones, but the judge errs as often.

    After Rogan and Gladen (Am. J. Epidemiol. 107, 1978), with the interval of Lang and Reiczigel (Prev. Vet. Med. 113,
    2014), who add counts so that it covers with few labels, too.

    Args:
        accepted: Items that the judge accepts.
        total: Items that it judged.
        true_accepted: Labelled true ones that it accepts.
        true: Labelled true ones.
        false_refused: Labelled false ones that it does not accept.
        false: Labelled false ones.

    Raises:
        ValueError: The judge accepts true items no more often than false ones.
    """
    sensitivity, specificity = (true_accepted + 1) / (true + 2), (false_refused + 1) / (false + 2)
    power = sensitivity + specificity - 1
    if power <= 0:
        raise ValueError("the judge accepts false items as often as true ones: its share says nothing")
    seen = (accepted + Z_95**2 / 2) / (total + Z_95**2)
    share = (seen + specificity - 1) / power
    of_true = sensitivity * (1 - sensitivity) / (true + 2)
    of_false = specificity * (1 - specificity) / (false + 2)
    shift = 2 * Z_95**2 * (share * of_true - (1 - share) * of_false)
    variance = seen * (1 - seen) / (total + Z_95**2) + share**2 * of_true + (1 - share) ** 2 * of_false
    half = Z_95 * math.sqrt(variance) / power
    low, high = (min(1.0, max(0.0, share + shift + side * half)) for side in (-1, 1))
    return ShareEstimate(share=min(1.0, max(0.0, share)), low=low, high=high, method="rogan-gladen")


def krippendorff_alpha(ratings: Sequence[Mapping[str, str]]) -> float | None:
    """Agreement of people on nominal answers, of whom not everybody answered everything (Krippendorff, 2004).

    Args:
        ratings: The answer by person, of each item.

    Returns:
        1 for full agreement, 0 for that of chance; None where no item has two answers, or all answers are equal.
    """
    units = [Counter(item.values()) for item in ratings if len(item) > 1]
    totals: Counter[str] = Counter()
    for unit in units:
        totals.update(unit)
    pairable = totals.total()
    expected = pairable**2 - sum(count**2 for count in totals.values())
    if not expected:
        return None
    observed = sum(
        (unit.total() ** 2 - sum(count**2 for count in unit.values())) / (unit.total() - 1) for unit in units
    )
    return 1 - (pairable - 1) * observed / expected


def cohen_kappa(table: Mapping[tuple[str, str], int]) -> float | None:
    """Agreement of two raters beyond chance (Cohen, 1960); None where chance alone would give full agreement.

    Args:
        table: Number of items by the answers of the first and the second rater.
    """
    total = sum(table.values())
    first, second = Counter[str](), Counter[str]()
    for (left, right), count in table.items():
        first[left] += count
        second[right] += count
    chance = sum(count * second[answer] for answer, count in first.items())
    if not total or chance == total**2:
        return None
    agreed = sum(count for (left, right), count in table.items() if left == right)
    return (agreed * total - chance) / (total**2 - chance)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityBin:
    """Items whose rank lies in one interval: what the judge is sure of, beside what people say.

    Attributes:
        low: Start of the interval.
        high: Its end.
        items: Items in it.
        mean_rank: Mean of their ranks.
        true_share: Share of them that people call true.
    """

    low: float
    high: float
    items: int
    mean_rank: float
    true_share: float


def brier_score(ranks: Sequence[float], labels: Sequence[bool]) -> float | None:
    """Mean squared distance of ranks, 0 to 1, from what people say (Brier, 1950); None without items."""
    if not ranks:
        return None
    return math.fsum((rank - label) ** 2 for rank, label in zip(ranks, labels, strict=True)) / len(ranks)


def reliability_curve(
    ranks: Sequence[float], labels: Sequence[bool], bins: int = 10
) -> tuple[ReliabilityBin, ...]:
    """Items by rank in intervals of equal width; empty intervals are left out."""
    members: dict[int, list[tuple[float, bool]]] = {}
    for rank, label in zip(ranks, labels, strict=True):
        members.setdefault(min(bins - 1, int(rank * bins)), []).append((rank, label))
    return tuple(
        ReliabilityBin(
            low=number / bins,
            high=(number + 1) / bins,
            items=len(pairs),
            mean_rank=sum(rank for rank, _ in pairs) / len(pairs),
            true_share=sum(label for _, label in pairs) / len(pairs),
        )
        for number, pairs in sorted(members.items())
    )


def bootstrap_ratio(
    hits: Sequence[float], totals: Sequence[float], clusters: Sequence[Hashable], seed: int = 0
) -> ShareEstimate | None:
    """The ratio of two sums with the 95 % percentile interval of a bootstrap over clusters; None for a sum of zero.

    Args:
        hits: What counts, by item.
        totals: What it is counted of, by item.
        clusters: Cluster of each item, such as its episode.
        seed: Of the bootstrap.
    """
    import numpy as np

    numbers = {cluster: number for number, cluster in enumerate(dict.fromkeys(clusters))}
    rows_of_clusters = [numbers[cluster] for cluster in clusters]
    sums: NDArray[np.float64] = np.stack(
        [
            np.bincount(rows_of_clusters, np.asarray(part, np.float64), len(numbers))
            for part in (hits, totals)
        ],
        axis=1,
    ).astype(np.float64)
    if not sums[:, 1].sum():
        return None
    ratios = np.concatenate(list(_resampled_ratios(sums, np.random.default_rng(seed))))
    low, high = np.nanquantile(ratios, [0.025, 0.975])
    share = float(sums[:, 0].sum() / sums[:, 1].sum())
    return ShareEstimate(share=share, low=float(low), high=float(high), method="bootstrap")


def _resampled_ratios(sums: NDArray[np.float64], random: np.random.Generator) -> list[NDArray[np.float64]]:
    import numpy as np

    size = max(1, _NUMBERS_PER_BLOCK // len(sums))
    ratios = []
    for start in range(0, _RESAMPLES, size):
        shape = min(size, _RESAMPLES - start), len(sums)
        drawn = sums[random.integers(len(sums), size=shape)].sum(axis=1)
        with np.errstate(invalid="ignore"):
            ratios.append(drawn[:, 0] / drawn[:, 1])
    return ratios


def labels_for_precision(precision: float, errors: int, confidence: float = 0.95) -> int:
    """Answers that certify a precision by the exact bound of Clopper and Pearson, where so many of them are errors.

    Args:
        precision: The precision that is to be shown, above 0 and below 1.
        errors: Answers among them that call an accepted item false.
        confidence: Of the bound.

    Returns:
        For 0.95: 59 without an error, 93 with one, 124 with two.
    """
    low, high = errors, max(64, 2 * errors)
    while share_lower_bound(high - errors, high, confidence) < precision and high < _MOST_LABELS:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        enough = share_lower_bound(middle - errors, middle, confidence) >= precision
        low, high = (low, middle) if enough else (middle, high)
    return high


def labels_for_half_width(estimate: ShareEstimate, labels: int, half_width: float) -> int:
    """Answers still needed until the interval is no wider than +- `half_width`, if it shrinks with their root."""
    if not labels:
        return math.ceil(Z_95**2 * 0.25 / half_width**2)
    return max(0, math.ceil(labels * (estimate.half_width / half_width) ** 2) - labels)
