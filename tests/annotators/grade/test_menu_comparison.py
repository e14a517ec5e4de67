"""A caption against the phrases that a blind judge may have seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from annotators.base import PaidFailure, Work
from annotators.grade.entailment import Entailment, PairEntailment
from annotators.grade.judge import Case
from annotators.grade.menu_comparison import MenuComparison, compare_with_menus
from annotators.grade.shipped_rubrics import load_rubric
from ares.annotation import Cost
from ares.episode import Json
from ares.errors import ModelError
from ares.rubric import parse_caption

_MENU = [("close the drawer", 0.7), ("open the window", 0.2), ("do nothing", 0.1)]


class _Knowing:
    """Knows that sealing is closing; keeps what it was asked."""

    settings: Mapping[str, Json] = {}
    most_pairs = 2

    def __init__(self, failure: PaidFailure | None = None) -> None:
        self.asked: list[tuple[tuple[str, str], Sequence[str]]] = []
        self._failure = failure

    def compare(
        self, pairs: Sequence[tuple[str, str]], slots: Sequence[Sequence[str]]
    ) -> Sequence[PairEntailment | PaidFailure]:
        self.asked += zip(pairs, slots, strict=True)
        return [
            self._failure or self._answer(observed, own)
            for (observed, _), own in zip(pairs, slots, strict=True)
        ]

    def _answer(self, observed: str, slots: Sequence[str]) -> PairEntailment:
        same = Entailment(0.9, 0.0, 0.1) if "close" in observed else Entailment(0.0, 0.8, 0.2)
        return PairEntailment(slots=dict.fromkeys(slots, same), cost=Cost(calls=1), paid=Cost(calls=1))


def _case(text: str) -> Case:
    criteria = [
        criterion for criterion in load_rubric("caption").criteria if criterion.slot in ("verb", "object")
    ]
    return Case(work=cast(Work, None), text=text, slots=parse_caption(text), criteria=criteria)


def _compare(text: str, model: Any) -> MenuComparison:
    (compared,) = compare_with_menus([_case(text)], [_MENU], model)
    assert isinstance(compared, MenuComparison)
    return compared


def test_an_equal_phrase_is_not_asked_about() -> None:
    model = _Knowing()
    compared = _compare("close the drawer", model)
    assert compared.slots["verb"].entailed == pytest.approx(0.7)
    assert [pair[0] for pair, _ in model.asked] == ["open the window"]


def test_other_words_are_accepted_by_the_model_alone() -> None:
    compared = _compare("seal the drawer", _Knowing())
    assert compared.slots["verb"].entailed == pytest.approx(0.7 * 0.9)
    assert compared.slots["verb"].contradicted == pytest.approx(0.2 * 0.8)
    assert compared.slots["object"].entailed == pytest.approx(0.7)
    assert compared.paid.calls == 2


def test_phrases_that_were_not_compared_stay_open() -> None:
    compared = _compare("wipe the table", _Knowing())
    assert compared.slots["verb"].entailed + compared.slots["verb"].contradicted < 0.95


def test_without_a_model_what_differs_is_contradicted() -> None:
    compared = _compare("seal the drawer", None)
    assert (compared.slots["verb"].entailed, compared.slots["verb"].contradicted) == (0.0, 1.0)


def test_a_model_that_fails_leaves_the_caption_ungraded_and_books_what_was_paid() -> None:
    failing = _Knowing(PaidFailure(ModelError("server answers 500", "try again"), Cost(calls=1)))
    (compared,) = compare_with_menus([_case("seal the drawer")], [_MENU], failing)
    assert isinstance(compared, PaidFailure)
    assert compared.cost.calls == 2
