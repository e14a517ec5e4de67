"""Whose answer narrows the interval of a share most, and what answers say that were drawn unequally from strata.

A stratum is what one judge says in one dataset, in ten intervals of how sure it is. Within a stratum items are drawn
at random, so that each has a known chance, and the share of true items is the sum of those of the strata by their size.
Its variance is least where each stratum is asked in proportion to its size and its standard deviation (Neyman, 1934;
with predictions of a model: Zrnic and Candes, arXiv 2403.03208). Where the judge carries no information all strata have
the same standard deviation, and no order is better than a random one.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.review.answers import ACCEPTABLE, INSTRUCTION, SUCCESS
from ares.review.estimates import Z_95, ShareEstimate
from ares.review.person_labels import MET, RANDOM, UNMET, LabelledItem, common_verdict, signed_rank
from ares.rubric import verdict_column
from ares.store import producer_column

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


_CELLS = 10
# The share of true items that is expected of a judge nobody has compared with people: it is less sure than it says.
_LEAST_EXPECTED, _MOST_EXPECTED = 0.1, 0.9
_EXPECTED_OF_VERDICTS: Mapping[str, float] = {MET: 0.8, UNMET: 0.2}
# Answers that the expected share counts for: in the choice of what is requested, and in the variance.
_WEIGHT_IN_CHOICE, _WEIGHT_IN_VARIANCE = 4.0, 3.0
# No stratum counts as surer when items are chosen: few answers show no error by chance, and then it would get no more.
_SUREST = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedColumns:
    """The columns with the word of a judge.

    Attributes:
        verdict: Column of the verdict.
        accepted: The word by which the judge accepts.
        certainty: Column of how sure it is: a probability for "success", else a margin; "" where there is none.
        producer: Column of its id.
    """

    verdict: str
    accepted: str
    certainty: str
    producer: str


def judged_columns(question: str) -> JudgedColumns:
    """The columns with what judges say of a question; of instructions the audit speaks, which has none."""
    if question == INSTRUCTION:
        return JudgedColumns(verdict="", accepted=MET, certainty="", producer="")
    if question == SUCCESS:
        return JudgedColumns(
            verdict="success_verdict",
            accepted="success",
            certainty="success_probability",
            producer=producer_column(SUCCESS),
        )
    producer = producer_column("grade")
    if question == ACCEPTABLE:
        return JudgedColumns(
            verdict="grade", accepted="acceptable", certainty="grade_margin", producer=producer
        )
    return JudgedColumns(
        verdict=verdict_column(question, "").name, accepted="MET", certainty="", producer=producer
    )


def judged_cell(question: str, verdict: object, certainty: float | None) -> str:
    """What a judge says and how sure it is, in ten intervals ("met 9"), by its columns; "" where it says nothing."""
    known = common_verdict(verdict)
    rank = certainty if question == SUCCESS else signed_rank(known, certainty)
    return rank_cell(known, rank)


def rank_cell(verdict: str, rank: float | None) -> str:
    """As `judged_cell`, by the verdict ("met") and the rank, 0 to 1 or None, of a `LabelledItem`."""
    if not verdict or rank is None:
        return verdict
    return f"{verdict} {min(_CELLS - 1, int(rank * _CELLS))}"


def item_stratum(item: LabelledItem) -> str:
    """The stratum of what people answered, by what the judge says of it now."""
    rank = item.rank if judged_columns(item.question).certainty else None
    return stratum_name(item.dataset, item.judge, rank_cell(item.judged, rank))


def is_drawn_at_random(item: LabelledItem, others: Collection[str]) -> bool:
    """Whether an item was drawn at random from all that are spoken of.

    Args:
        item: What people answered.
        others: Names of the queues that were drawn from other episodes.
    """
    answers = (*item.answers, *item.before_adjudication)
    return any(answer.drawn == RANDOM and answer.queue not in others for answer in answers)


def is_drawn_within_stratum(
    item: LabelledItem, queues: Collection[str], others: Collection[str] = ()
) -> bool:
    """Whether an item was drawn at random, from all or within the stratum in which it still is.

    Args:
        item: What people answered.
        queues: Names of the queues that were drawn from the episodes that are spoken of.
        others: Names of those that were drawn from other episodes.
    """
    requested = item.allocation
    is_allocated = (
        requested is not None and requested.queue in queues and requested.stratum == item_stratum(item)
    )
    return is_drawn_at_random(item, others) or is_allocated


def count_cells(question: str, verdicts: pa.Array, certainties: pa.Array | None) -> Iterator[tuple[str, int]]:
    """Yield cells of columns of a table with how many rows are in each; cells may come several times."""
    import numpy as np
    import pyarrow.compute as pc

    for verdict in pc.unique(verdicts).to_pylist():
        if not common_verdict(verdict):
            continue
        is_verdict = pc.fill_null(pc.equal(verdicts, verdict), False)
        if certainties is None:
            yield common_verdict(verdict), int(pc.sum(is_verdict).as_py() or 0)
            continue
        numbers = certainties.filter(is_verdict)
        values, counts = np.unique(np.asarray(numbers.drop_null(), np.float64), return_counts=True)
        yield judged_cell(question, verdict, None), numbers.null_count
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            yield judged_cell(question, verdict, value), count


def stratum_name(dataset: str, judge: str, cell: str) -> str:
    """The name of a stratum, as an answer stores it: the word of another judge is another stratum."""
    return f"{dataset}/{judge or 'none'}/{cell or 'none'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StratumCounts:
    """A stratum and what is known of it.

    Attributes:
        cell: What the judge says there, see `judged_cell`.
        size: Items in it, with those that are answered.
        labels: Items that people answered, drawn at random within it.
        hits: Those of them that are true.
        planned: Items that will be answered whatever is selected.
        free: Items that can be selected.
    """

    cell: str
    size: int
    labels: int = 0
    hits: int = 0
    planned: int = 0
    free: int = 0

    @property
    def expected_share(self) -> float:
        """Share of true items that is expected of the judge before anybody has answered."""
        verdict, _, number = self.cell.partition(" ")
        if not number:
            return _EXPECTED_OF_VERDICTS.get(verdict, 0.5)
        return _LEAST_EXPECTED + (_MOST_EXPECTED - _LEAST_EXPECTED) * (int(number) + 0.5) / _CELLS

    def smoothed_share(self, weight: float) -> float:
        """The share of true items, where the expected one counts as so many answers."""
        return (self.hits + weight * self.expected_share) / (self.labels + weight)


def allocate_answers(strata: Mapping[str, StratumCounts], count: int) -> list[str]:
    """The strata from which to ask next, one after another: each time that whose answer narrows the interval most.

    Every beginning of the list is the best choice of its length, so that people may stop wherever they like.

    Args:
        strata: By name.
        count: Answers that are to be requested for at most.

    Returns:
        Names of strata, at most `count`; fewer where no more items are free.
    """
    total = sum(stratum.size for stratum in strata.values())
    heap: list[tuple[float, str, int]] = []
    variances = {name: _sample_variance(stratum, total) for name, stratum in strata.items()}
    for name, stratum in strata.items():
        if stratum.free:
            requested = stratum.labels + stratum.planned
            heap.append((-_interval_gain(variances[name], requested), name, requested))
    heapq.heapify(heap)
    selected: list[str] = []
    left = {name: stratum.free for name, stratum in strata.items()}
    while heap and len(selected) < count:
        _, name, requested = heapq.heappop(heap)
        selected.append(name)
        left[name] -= 1
        if left[name]:
            heapq.heappush(heap, (-_interval_gain(variances[name], requested + 1), name, requested + 1))
    return selected


def _sample_variance(stratum: StratumCounts, total: int) -> float:
    """The variance of one answer in the estimate, as far as it is known."""
    share = min(_SUREST, max(1 - _SUREST, stratum.smoothed_share(_WEIGHT_IN_CHOICE)))
    return (stratum.size / total) ** 2 * share * (1 - share)


def _interval_gain(variance: float, requested: int) -> float:
    """By how much one more answer lessens the variance of the estimate; a stratum without one has half an answer."""
    return variance * (1 / max(requested, 0.5) - 1 / (requested + 1))


def estimate_stratified_share(strata: Iterable[StratumCounts]) -> ShareEstimate:
    """The share of true items among those of all strata, from answers drawn at random within each.

    The interval is Wilson's with as many answers as would have the same variance; the variance of a stratum is that of
    its share smoothed by the expected one, so that few answers without an error do not pretend to be sure. What is
    answered altogether is known.
    """
    known = [stratum for stratum in strata if stratum.size]
    total = sum(stratum.size for stratum in known)
    if not total:
        return ShareEstimate(share=0.5, low=0.0, high=1.0, method="stratified")
    share = variance = 0.0
    for stratum in known:
        weight, smoothed = stratum.size / total, stratum.smoothed_share(_WEIGHT_IN_VARIANCE)
        share += weight * (stratum.hits / stratum.labels if stratum.labels else smoothed)
        unknown = 1 - stratum.labels / stratum.size
        variance += weight**2 * unknown * smoothed * (1 - smoothed) / max(stratum.labels, 1)
    share = min(1.0, max(0.0, share))
    if not variance:
        return ShareEstimate(share=share, low=share, high=share, method="stratified")
    labels = sum(stratum.labels for stratum in known)
    # As in Laplace's rule: no number of answers shows that there is no error.
    within = (share * labels + 1) / (labels + 2)
    answers = within * (1 - within) / variance
    middle = (share + Z_95**2 / 2 / answers) / (1 + Z_95**2 / answers)
    spread = math.sqrt(share * (1 - share) / answers + Z_95**2 / 4 / answers**2)
    half = Z_95 * spread / (1 + Z_95**2 / answers)
    return ShareEstimate(
        share=share, low=max(0.0, middle - half), high=min(1.0, middle + half), method="stratified"
    )
