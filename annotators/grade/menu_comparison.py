"""Compares a caption with what a blind judge may have seen: by equality first, then by a model of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from annotators.base import PaidFailure
from annotators.grade.entailment import Entailment, EntailmentModel, PairEntailment
from annotators.grade.judge import Case
from annotators.grade.word_order import is_out_of_order
from ares.annotation import Cost
from ares.rubric import CaptionSlots, contradicts, parse_caption, slot_matches

_CONTRADICTED = Entailment(0.0, 1.0, 0.0)
cached_parse = lru_cache(maxsize=50_000)(parse_caption)


@dataclass(frozen=True, slots=True)
class SlotBelief:
    """What is believed of the claims of a caption in one slot; what is left of 1 is open.

    Attributes:
        entailed: Belief that what was seen says them too.
        contradicted: Belief that what was seen says something else.
    """

    entailed: float
    contradicted: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuComparison:
    """A caption against the phrases that a judge may have seen.

    Attributes:
        slots: Belief by slot.
        outcome: What the model of texts makes of the outcome that the caption states; empty where it was not asked.
        cost: What the comparison cost, whenever it was paid.
        paid: What was paid for it now.
    """

    slots: Mapping[str, SlotBelief]
    outcome: Mapping[str, float]
    cost: Cost
    paid: Cost


@dataclass(frozen=True, slots=True)
class _Contest:
    """A phrase that does not equal the caption in some slots."""

    phrase: str
    belief: float
    slots: Sequence[str]


def compare_with_menus(
    cases: Sequence[Case],
    menus: Sequence[Sequence[tuple[str, float]]],
    model: EntailmentModel | None,
) -> list[MenuComparison | PaidFailure]:
    """The beliefs in the claims of each case; the model is asked about all cases at once.

    Args:
        cases: The captions.
        menus: For each the phrases with the belief in each, which add up to 1.
        model: What rules on claims in other words than the phrase; None where they count as contradicted.
    """
    slots = [_slots(case) for case in cases]
    contests = [
        _contests(case, menu, own, model.most_pairs if model else 0)
        for case, menu, own in zip(cases, menus, slots, strict=True)
    ]
    answers = iter(_ask(cases, contests, model))
    return [
        _beliefs(case, menu, own, [(contest, next(answers)) for contest in contested], model is None)
        for case, menu, own, contested in zip(cases, menus, slots, contests, strict=True)
    ]


def _ask(
    cases: Sequence[Case], contests: Sequence[Sequence[_Contest]], model: EntailmentModel | None
) -> Sequence[PairEntailment | PaidFailure]:
    pairs = [
        (contest.phrase, case.text) for case, own in zip(cases, contests, strict=True) for contest in own
    ]
    if model is None or not pairs:
        return ()
    return model.compare(pairs, [contest.slots for own in contests for contest in own])


def _slots(case: Case) -> list[str]:
    return [criterion.slot for criterion in case.criteria if criterion.slot and criterion.slot != "outcome"]


def _contests(
    case: Case, menu: Sequence[tuple[str, float]], slots: Sequence[str], most: int
) -> list[_Contest]:
    """The likeliest phrases that differ from the caption in a slot."""
    ranked = sorted(menu, key=lambda item: -item[1])[:most]
    contests = [
        _Contest(phrase, belief, [slot for slot in slots if not _equal(slot, case.slots, phrase)])
        for phrase, belief in ranked
    ]
    return [contest for contest in contests if contest.slots]


def _equal(slot: str, claimed: CaptionSlots, phrase: str) -> bool:
    return slot_matches(slot, claimed, cached_parse(phrase))


def _beliefs(
    case: Case,
    menu: Sequence[tuple[str, float]],
    slots: Sequence[str],
    answers: Sequence[tuple[_Contest, PairEntailment | PaidFailure]],
    is_strict: bool,
) -> MenuComparison | PaidFailure:
    failures = [answer for _, answer in answers if isinstance(answer, PaidFailure)]
    known = [(contest, answer) for contest, answer in answers if isinstance(answer, PairEntailment)]
    paid = sum((answer.paid for _, answer in known), Cost())
    if failures:
        return PaidFailure(failures[0].error, sum((failure.cost for failure in failures), paid))
    # The phrases of a menu exclude each other: what is said in the words of one needs no model.
    is_strict = is_strict or _is_on_menu(case, menu, slots)
    is_heap = is_out_of_order(case.slots, [cached_parse(phrase) for phrase, _ in menu])
    beliefs = {}
    for slot in slots:
        equal = sum(belief for phrase, belief in menu if _equal(slot, case.slots, phrase))
        compared = (
            []
            if is_heap
            else [
                (contest.belief, _slot_entailment(slot, case.slots, contest, answer))
                for contest, answer in known
                if slot in contest.slots
            ]
        )
        entailed = equal + sum(belief * answer.entailed for belief, answer in compared)
        contradicted = sum(belief * answer.contradicted for belief, answer in compared)
        # What is said twice, code sees, and the model overlooks.
        is_strict_here = is_strict or (slot == "additions" and _is_repeated(case.slots))
        beliefs[slot] = (
            SlotBelief(equal, 1.0 - equal) if is_strict_here else SlotBelief(entailed, contradicted)
        )
    outcome = known[0][1].outcome if known else {}
    return MenuComparison(
        slots=beliefs, outcome=outcome, cost=sum((answer.cost for _, answer in known), Cost()), paid=paid
    )


def _slot_entailment(
    slot: str, claimed: CaptionSlots, contest: _Contest, answer: PairEntailment
) -> Entailment:
    """What the model says of a slot, unless code knows better."""
    is_contradicted = contradicts(slot, claimed, cached_parse(contest.phrase))
    return _CONTRADICTED if is_contradicted else answer.slot(slot)


def _is_on_menu(case: Case, menu: Sequence[tuple[str, float]], slots: Sequence[str]) -> bool:
    claims = [slot for slot in slots if slot != "additions"]
    return any(all(_equal(slot, case.slots, phrase) for slot in claims) for phrase, _ in menu)


def _is_repeated(slots: CaptionSlots) -> bool:
    return len(set(slots.events)) < len(slots.events)
