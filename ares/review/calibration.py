"""How well a judge agrees with people: by question, dataset and judge, from the answers that people gave."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ares.review.allocation import (
    JudgedColumns,
    StratumCounts,
    count_cells,
    estimate_stratified_share,
    is_drawn_at_random,
    is_drawn_within_stratum,
    item_stratum,
    judged_columns,
)
from ares.review.answers import INSTRUCTION
from ares.review.certificate import refuse_answer_columns
from ares.review.drawing import list_queues
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
from ares.review.person_labels import (
    MET,
    UNMET,
    LabelledItem,
    PersonAgreement,
    compare_people,
    count_verdicts,
    read_audited_columns,
    read_labelled_items,
)
from ares.statistics import effective_items, wilson_interval
from ares.store import quote_literal

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.episode import Json
    from ares.store import Stores


# Half width of the interval of the share of true items that the report names the missing answers for.
_TARGET_HALF_WIDTH = 0.03
# Items of one episode are correlated by at least so much, also where they all agree.
_LEAST_CORRELATION = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What people say of one judge, on one question in one dataset.

    Attributes:
        question: "acceptable", "success", "instruction" or a criterion.
        dataset: The dataset.
        judge: Id of the producer of the judgements; "" for what no judge has judged. Of instructions it is the audit,
            which accepts what fits its stated instruction as well as any, and refuses what it names.
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
        people: How often the word of each person did not stand.
        other_queues: Queues that were drawn from other episodes, whose answers are counted and estimate nothing here.
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
    people: tuple[PersonAgreement, ...] = field(default=())
    other_queues: tuple[str, ...] = ()

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
            "people": [person.to_json() for person in self.people],
            "other_queues": list(self.other_queues),
        }


def report_calibration(
    stores: Stores, *, question: str = "", dataset: str = "", where: str = ""
) -> list[Calibration]:
    """What people say of each judge, by question and dataset.

    What was drawn from other episodes than those that are spoken of is counted, and estimates nothing.

    Args:
        stores: Stores of the workspace.
        question: Of this question alone; "" for all.
        dataset: Of this dataset alone; "" for all.
        where: SQL filter over the episode columns.

    Raises:
        RequestError: The filter is wrong, or by what answers change.
        StoreError: The log or a table cannot be read.
    """
    refuse_answer_columns(where, "measures")
    groups: dict[tuple[str, str, str], list[LabelledItem]] = {}
    for item in read_labelled_items(stores, question=question, dataset=dataset, where=where):
        groups.setdefault((item.question, item.dataset, item.judge), []).append(item)
    producers, recipes = (
        stores.annotations.producers(),
        {queue.name: queue.recipe for queue in list_queues(stores)},
    )
    return [
        _measure_group(
            stores, items, producers[judge].model if judge in producers else items[0].model, where, recipes
        )
        for (_, _, judge), items in sorted(groups.items(), key=lambda group: group[0])
    ]


def _is_drawn_from(recipe: Mapping[str, Json], dataset: str, where: str) -> bool:
    """Whether a queue was drawn from all episodes of a dataset that fulfil a filter, perhaps among others."""
    of_dataset = {"dataset": dataset}, {"where": f"dataset = {quote_literal(dataset)}"}
    return dict(recipe) in ({}, {"where": where}, {"where": where, "dataset": dataset}, *of_dataset)


def _measure_group(
    stores: Stores,
    items: Sequence[LabelledItem],
    model: str,
    where: str,
    recipes: Mapping[str, Mapping[str, Json]],
) -> Calibration:
    first = items[0]
    matching = {name for name, recipe in recipes.items() if _is_drawn_from(recipe, first.dataset, where)}
    others = recipes.keys() - matching
    drawn = [item for item in items if item.truth and is_drawn_at_random(item, others)]
    judged = [item for item in drawn if item.judged]
    ranked = [item for item in judged if item.rank is not None]
    ranks, labels = [item.rank or 0.0 for item in ranked], [_is_true(item) for item in ranked]
    within = [item for item in items if item.truth and is_drawn_within_stratum(item, matching, others)]
    spoken = [item for item in within if item.judged]
    rest = _count_unlabelled(stores, items, where)
    share = _estimate_share(judged, spoken, rest) if spoken else None
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
        alpha=_measure_agreement(items),
        brier=brier_score(ranks, labels),
        true_share=share,
        # Nobody can answer more than there is.
        missing=min(rest.total, _count_missing(share, len(spoken))),
        reliability=reliability_curve(ranks, labels),
        people=tuple(compare_people(items)),
        other_queues=tuple(sorted(others & {answer.queue for item in items for answer in item.answers})),
    )


def _count_missing(share: ShareEstimate | None, labels: int) -> int:
    return labels_for_half_width(share, labels, _TARGET_HALF_WIDTH) if share else 0


def _measure_agreement(items: Sequence[LabelledItem]) -> float | None:
    """Agreement between people, before they knew that another one differs."""
    return krippendorff_alpha(
        [{answer.person: answer.verdict for answer in item.before_adjudication} for item in items]
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
        [sum(flags) for flags in by_episode.values()],
        [len(flags) for flags in by_episode.values()],
    )
    share = sum(hits) / len(items)
    if len(by_episode) < len(items) and 0 < share < 1:
        return bootstrap_ratio(hits, totals, list(by_episode))
    effective = (
        effective_items(hits, totals, _LEAST_CORRELATION) if len(by_episode) < len(items) else len(items)
    )
    low, high = wilson_interval(share * effective, effective)
    return ShareEstimate(share=share, low=low, high=high, method="wilson")


@dataclass(frozen=True, slots=True, kw_only=True)
class _UnlabelledItems:
    """What a judge says of the items that nobody has answered.

    Attributes:
        accepted: Items that it accepts.
        total: All that it judged.
        cells: Items by what it says and how sure it is.
    """

    accepted: int
    total: int
    cells: Mapping[str, int]


def _estimate_share(
    judged: Sequence[LabelledItem], spoken: Sequence[LabelledItem], rest: _UnlabelledItems
) -> ShareEstimate:
    """The share of true items among all, from those drawn at random, or with those of strata that were asked more.

    Where the judge accepts another share of the rest than of those drawn at random, true items are as many more or
    fewer: then its error rates decide, see `estimate_shifted_share`. Strata have their size of now in any case.
    """
    if len(spoken) > len(judged):
        return estimate_stratified_share(_count_strata(spoken, rest))
    accepted, total = rest.accepted, rest.total
    decisions = [_is_accepted(item) for item in judged]
    labels = [_is_true(item) for item in judged]
    low, high = wilson_interval(sum(decisions), len(decisions))
    true = sum(labels)
    if total and not low <= accepted / total <= high and min(true, len(labels) - true) >= LEAST_RARER:
        return estimate_shifted_share(
            accepted + sum(decisions),
            total + len(decisions),
            true_accepted=sum(map(operator.and_, decisions, labels)),
            true=true,
            false_refused=sum(
                not (accepts or label) for accepts, label in zip(decisions, labels, strict=True)
            ),
            false=len(labels) - true,
        )
    return estimate_true_share(
        labels, list(map(float, decisions)), [1.0] * accepted + [0.0] * (total - accepted)
    )


def _count_strata(spoken: Sequence[LabelledItem], rest: _UnlabelledItems) -> list[StratumCounts]:
    """The strata of one judge in one dataset."""
    labels: dict[str, list[bool]] = {}
    for item in spoken:
        labels.setdefault(item_stratum(item).rpartition("/")[2], []).append(_is_true(item))
    return [
        StratumCounts(
            cell=cell,
            size=rest.cells.get(cell, 0) + len(labels.get(cell, ())),
            labels=len(labels.get(cell, ())),
            hits=sum(labels.get(cell, ())),
        )
        for cell in sorted({*rest.cells, *labels})
    ]


def _count_unlabelled(stores: Stores, items: Sequence[LabelledItem], where: str) -> _UnlabelledItems:
    """What the judge says of the items without an answer among the episodes of a filter, by columns of the tables."""
    import pyarrow as pa
    import pyarrow.compute as pc

    first, counts, cells = items[0], [0, 0], Counter[str]()
    judged = judged_columns(first.question)
    known = [item.subject_id if first.is_segment else item.episode_id for item in items]
    answered = pa.array(known, pa.string())
    for batch in _judged_columns(stores, first, judged, where):
        others = batch.filter(pc.invert(pc.is_in(batch["key"], value_set=answered)))
        counts[0] += pc.sum(pc.equal(others["verdict"], judged.accepted)).as_py() or 0
        counts[1] += len(others)
        certainties = others["certainty"] if "certainty" in others.column_names else None
        for cell, count in count_cells(first.question, others["verdict"], certainties):
            cells[cell] += count
    return _UnlabelledItems(accepted=counts[0], total=counts[1], cells=cells)


def _judged_columns(
    stores: Stores, item: LabelledItem, judged: JudgedColumns, where: str
) -> Iterator[pa.Table]:
    """Tables with "key", "verdict" and, if there is one, "certainty": all that the judge has judged in the dataset.

    Args:
        stores: Stores of the workspace.
        item: An item of the judge and the dataset.
        judged: The columns.
        where: SQL filter over the episode columns; "" for the whole dataset.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    tables = stores.tables
    in_dataset = f"dataset = {quote_literal(item.dataset)}{f' AND ({where})' if where else ''}"
    if item.question == INSTRUCTION:
        yield from read_audited_columns(stores, item.dataset, item.judge, in_dataset)
        return
    existing = (
        tables.segments.scan([], "false").column_names if item.is_segment else tables.episodes.columns()
    )
    if not {judged.verdict, judged.producer} <= set(existing):
        return
    is_judged = f"{judged.producer} = {quote_literal(item.judge)} AND {judged.verdict} IS NOT NULL"
    columns = [judged.verdict, *([judged.certainty] if judged.certainty in existing else ())]
    names = ["key", "verdict", "certainty"][: len(columns) + 1]
    if not item.is_segment:
        for batch in tables.episodes.scan(["episode_id", *columns], f"{in_dataset} AND {is_judged}"):
            yield pa.table([batch[name] for name in ("episode_id", *columns)], names)
        return
    rows = tables.segments.scan(["annotation_id", "episode_id", *columns], is_judged)
    is_in_dataset = pc.is_in(
        rows["episode_id"], value_set=pa.array(tables.episodes.ids(in_dataset), pa.string())
    )
    yield rows.filter(is_in_dataset).select(["annotation_id", *columns]).rename_columns(names)
