"""Conditions are joined so that none reaches beyond its own, and only filters built by ARES are trusted."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, strategies as st

from ares.errors import FilterError
from ares.store import TrustedFilter, batched, conjunction, ids_filter, in_condition, parenthesize
from ares.store.filters import check_filter
from ares.store.sql import split_chain

_TYPES = {"episode_id": "string", "success": "bool"}


@pytest.mark.parametrize(
    ("where", "conditions"),
    [
        ("(a = 1) AND (b = ')')", ["(a = 1)", "(b = ')')"]),
        ("((a = 1)) and\n(b IN (1, 2)) AND (c)", ["((a = 1))", "(b IN (1, 2))", "(c)"]),
        ("((a = 1) AND (b = 2))", ["(a = 1)", "(b = 2)"]),
        ("(a = 1) OR (b = 2)", None),
        ("(a = 1) AND (b = 2) OR (c = 3)", None),
        ("(a = 1) AND NOT (b = 2)", None),
        ("(a) AND (b) = false", None),
        ("(a) AND 'x' (b)", None),
        ("a BETWEEN (1) AND (2)", None),
        ("(a = 'x) AND (y')", ["(a = 'x) AND (y')"]),
        ("(a) (b)", None),
        ("a = 1", None),
        ("", None),
    ],
)
def test_a_conjunction_is_split_only_where_each_condition_has_parentheses(
    where: str, conditions: list[str] | None
) -> None:
    assert split_chain(where, "AND") == (conditions or [where])


@pytest.mark.parametrize(
    ("where", "conditions"),
    [
        ("((a = 1) or (b = ') OR ('))", ["(a = 1)", "(b = ') OR (')"]),
        ("(a = 1) OR (b = 2) AND (c = 3)", None),
        ("(a = 1) AND (b = 2)", None),
        ("NOT (a = 1) OR (b = 2)", None),
    ],
)
def test_alternatives_are_split_only_where_each_has_parentheses(
    where: str, conditions: list[str] | None
) -> None:
    assert split_chain(where, "OR") == (conditions or [where])


@given(ids=st.lists(st.text(max_size=8), max_size=5))
def test_a_list_of_ids_is_one_condition_whatever_the_ids(ids: list[str]) -> None:
    where = ids_filter(ids)
    assert where == in_condition("episode_id", ids)
    assert check_filter(str(where), _TYPES) == where


def test_a_user_s_condition_never_becomes_trusted() -> None:
    ids = ids_filter(["a"])
    joined = conjunction(["success", " ", ids])
    assert isinstance(joined, TrustedFilter)
    assert (joined.user_filter, joined.trusted) == ("(success)", "(episode_id IN ('a'))")
    assert not isinstance(conjunction(["success", "NOT success"]), TrustedFilter)
    assert conjunction(["success", "NOT success"]) == "(success) AND (NOT success)"
    again = conjunction([joined, "episode_id = 'b'"])
    assert isinstance(again, TrustedFilter)
    assert again.user_filter == "((success)) AND (episode_id = 'b')"
    assert split_chain(again, "AND") == [again]
    assert not isinstance(joined + "", TrustedFilter)


@pytest.mark.parametrize("where", ["success) OR (true", "(success", "success -- ", "'a", "success; DROP", ""])
def test_a_condition_that_would_reach_beyond_its_parentheses(where: str) -> None:
    with pytest.raises(FilterError) as caught:
        parenthesize(where)
    assert pickle.loads(pickle.dumps(caught.value)).pointer == caught.value.pointer


def test_batches_keep_the_order() -> None:
    assert list(batched(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(batched([], 2)) == []
