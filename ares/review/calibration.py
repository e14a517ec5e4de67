"""How well a judge agrees with people: by question, dataset and judge, from the answers that people gave."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ares.review.answers import ACCEPTABLE, SUCCESS
from ares.review.estimates import (
    LEAST_RARER,
    ReliabilityBin,
    ShareEstimate,
    bootstrap_ratio,
    brier_score,
    cohen_kappa,
    estimate_shifted_share,
    estimate_true_share,
    krippendorff_alpha,
    labels_for_half_width,
    reliability_curve,
)
from ares.review.person_labels import MET, UNMET, LabelledItem, count_verdicts, read_labelled_items
from ares.rubric import verdict_column
from ares.statistics import effective_items, wilson_interval
from ares.store import maker_column, quote_literal

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.episode import Json
    from ares.store import Stores


# Half width of the interval of the share of true items that the report names the missing answers for.
_TARGET_HALF_WIDTH = 0.03
# Items of one episode are correlated by at least so much, also where they all agree.
_LEAST_CORRELATION = 0.1
# The columns with the word of a judge about what is no criterion, and the word by which it accepts.
JUDGED_COLUMNS: Mapping[str, tuple[str, str]] = {
    ACCEPTABLE: ("grade", "acceptable"),
    SUCCESS: ("success_verdict", "success"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What people say of one judge, on one question in one dataset.

    Attributes:
        question: "acceptable", "success", "instruction" or a criterion.
        dataset: The dataset.
        judge: Id of the maker of the judgements; "" for what no judge has judged.
        model: Its model.
        items: Items that people answered.
        random_items: Those drawn at random; all but counts and agreement of people rests on these alone.
        disputed: Items on which people differ, and nobody has adjudicated.
        table: Items by what the judge and what people say.
        coverage: Share of the items on which the judge decides.
        precision: Share of those it accepts that people call true; "cannot tell" is not true.
        recall: Share of what people call true that it accepts.
        kappa: Agreement of judge and people beyond chance.
        alpha: Agreement between people (Krippendorff).
        brier: Mean squared distance of its ranks from what people say.
        reliability: Its ranks by intervals, beside what people say.
        true_share: Share of true items among all that it judged.
        missing: Answers still needed until that share is known to +- 0.03, at most those that are left.
    """

    question: str
    dataset: str
    judge: str
    model: str
    items: int
    random_items: int
    disputed: int
    table: Mapping[tuple[str, str], int]
    coverage: ShareEstimate | None
    precision: ShareEstimate | None
    recall: ShareEstimate | None
    kappa: float | None
    alpha: float | None
    brier: float | None
    true_share: ShareEstimate | None
    missing: int
    reliability: tuple[ReliabilityBin, ...] = field(default=())

    def to_json(self) -> dict[str, Json]:
        """The report as a document; the table by "judge/people"."""
        estimates = {
            name: estimate.to_json() if estimate else None
            for name, estimate in (
                ("coverage", self.coverage),
                ("precision", self.precision),
                ("recall", self.recall),
                ("true_share", self.true_share),
            )
        }
        return {
            "question": self.question,
            "dataset": self.dataset,
            "judge": self.judge,
            "model": self.model,
            "items": self.items,
            "random_items": self.random_items,
            "disputed": self.disputed,
            "table": {f"{judged}/{truth}": count for (judged, truth), count in sorted(self.table.items())},
            **estimates,
            "kappa": self.kappa,
            "alpha": self.alpha,
            "brier": self.brier,
            "reliability": [
                {
                    "low": part.low,
                    "high": part.high,
                    "items": part.items,
                    "mean_rank": part.mean_rank,
                    "true_share": part.true_share,
                }
                for part in self.reliability
            ],
            "missing": self.missing,
        }


def report_calibration(
    stores: Stores, *, question: str = "", dataset: str = "", where: str = ""
) -> list[Calibration]:
    """What people say of each judge, by question and dataset.

    Args:
        stores: Stores of the workspace.
        question: Of this question alone; "" for all.
        dataset: Of this dataset alone; "" for all.
        where: SQL filter over the episode columns.

    Raises:
        RequestError: The filter is wrong.
        StoreError: The log or a table cannot be read.
    """
    groups: dict[tuple[str, str, str], list[LabelledItem]] = {}
    for item in read_labelled_items(stores, question=question, dataset=dataset, where=where):
        groups.setdefault((item.question, item.dataset, item.judge), []).append(item)
    makers = stores.annotations.makers()
    return [
        _measure_group(stores, items, makers[judge].model if judge else "")
        for (_, _, judge), items in sorted(groups.items(), key=lambda group: group[0])
    ]


def _measure_group(stores: Stores, items: Sequence[LabelledItem], model: str) -> Calibration:
    first, drawn = items[0], [item for item in items if item.is_random and item.truth]
    judged = [item for item in drawn if item.judged]
    ranked = [(item.rank, item.truth == MET) for item in judged if item.rank is not None]
    ranks, labels = [rank for rank, _ in ranked], [label for _, label in ranked]
    rest = _count_unlabelled(stores, items)
    share = _estimate_share(judged, rest) if judged else None
    table = count_verdicts(judged)
    return Calibration(
        question=first.question,
        dataset=first.dataset,
        judge=first.judge,
        model=model,
        items=len(items),
        random_items=len(drawn),
        disputed=sum(not item.truth for item in items),
        table=table,
        coverage=_estimate_ratio(judged, lambda item: item.judged in (MET, UNMET)),
        precision=_estimate_ratio([item for item in judged if _is_accepted(item)], _is_true),
        recall=_estimate_ratio([item for item in judged if _is_true(item)], _is_accepted),
        kappa=cohen_kappa(table),
        alpha=krippendorff_alpha(
            [{answer.person: answer.verdict for answer in item.before_adjudication} for item in items]
        ),
        brier=brier_score(ranks, labels),
        true_share=share,
        # Nobody can answer more than there is.
        missing=min(rest[1], labels_for_half_width(share, len(judged), _TARGET_HALF_WIDTH)) if share else 0,
        reliability=reliability_curve(ranks, labels),
    )


def _is_true(item: LabelledItem) -> bool:
    return item.truth == MET


def _is_accepted(item: LabelledItem) -> bool:
    return item.judged == MET


def _estimate_ratio(
    items: Sequence[LabelledItem], is_hit: Callable[[LabelledItem], bool]
) -> ShareEstimate | None:
    """The share of hits, by bootstrap over episodes; by Wilson where each has one item, or all items agree."""
    if not items:
        return None
    by_episode: dict[str, list[bool]] = {}
    for item in items:
        by_episode.setdefault(item.episode_id, []).append(is_hit(item))
    hits, totals = (
        [sum(own) for own in by_episode.values()],
        [len(own) for own in by_episode.values()],
    )
    share = sum(hits) / len(items)
    if len(by_episode) < len(items) and 0 < share < 1:
        return bootstrap_ratio(hits, totals, list(by_episode))
    effective = (
        effective_items(hits, totals, _LEAST_CORRELATION) if len(by_episode) < len(items) else len(items)
    )
    low, high = wilson_interval(share * effective, effective)
    return ShareEstimate(share=share, low=low, high=high, method="wilson")


def _estimate_share(judged: Sequence[LabelledItem], rest: tuple[int, int]) -> ShareEstimate:
    """The share of true items among all; `rest` are accepted and all unlabelled ones.

    Where the judge accepts another share of these than of the labelled, true items are as many more or fewer: then its
    error rates decide, see `estimate_shifted_share`.
    """
    accepted, total = rest
    own = [_is_accepted(item) for item in judged]
    labels = [_is_true(item) for item in judged]
    low, high = wilson_interval(sum(own), len(own))
    true = sum(labels)
    if total and not low <= accepted / total <= high and min(true, len(labels) - true) >= LEAST_RARER:
        return estimate_shifted_share(
            accepted + sum(own),
            total + len(own),
            true_accepted=sum(map(operator.and_, own, labels)),
            true=true,
            false_refused=sum(not (accepts or label) for accepts, label in zip(own, labels, strict=True)),
            false=len(labels) - true,
        )
    return estimate_true_share(labels, list(map(float, own)), [1.0] * accepted + [0.0] * (total - accepted))


def _count_unlabelled(stores: Stores, items: Sequence[LabelledItem]) -> tuple[int, int]:
    """How many items without an answer the judge accepts, and how many there are, by the columns of the tables."""
    import pyarrow as pa
    import pyarrow.compute as pc

    first = items[0]
    column, accepted = _find_judged_column(first.question)
    known = [item.subject_id if first.is_segment else item.episode_id for item in items]
    answered, counts = pa.array(known, pa.string()), [0, 0]
    for keys, values in _judged_columns(stores, first, column):
        others = pc.filter(values, pc.invert(pc.is_in(keys, value_set=answered)))
        counts[0] += pc.sum(pc.equal(others, accepted)).as_py() or 0
        counts[1] += len(others)
    return counts[0], counts[1]


def _judged_columns(stores: Stores, item: LabelledItem, column: str) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Keys and judgements of everything that the judge of an item has judged in its dataset, in batches."""
    import pyarrow as pa
    import pyarrow.compute as pc

    maker = maker_column(SUCCESS if item.question == SUCCESS else "grade")
    in_dataset, tables = f"dataset = {quote_literal(item.dataset)}", stores.tables
    existing = (
        tables.segments.scan([], "false").column_names if item.is_segment else tables.episodes.columns()
    )
    if not {column, maker} <= set(existing):
        return
    is_judged = f"{maker} = {quote_literal(item.judge)} AND {column} IS NOT NULL"
    if not item.is_segment:
        for batch in tables.episodes.scan(["episode_id", column], f"{in_dataset} AND {is_judged}"):
            yield batch["episode_id"], batch[column]
        return
    rows = tables.segments.scan(["annotation_id", "episode_id", column], is_judged)
    is_in_dataset = pc.is_in(
        rows["episode_id"], value_set=pa.array(tables.episodes.ids(in_dataset), pa.string())
    )
    for batch in rows.filter(is_in_dataset).to_batches():
        yield batch["annotation_id"], batch[column]


def _find_judged_column(question: str) -> tuple[str, str]:
    """The column with what a judge says of a question, and the word by which it accepts."""
    if question in JUDGED_COLUMNS:
        return JUDGED_COLUMNS[question]
    return verdict_column(question, "").name, "MET"
