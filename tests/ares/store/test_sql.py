"""Conditions are joined so that none reaches beyond its own, and only filters built by ARES are trusted."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ares.store import TrustedFilter, conjunction, ids_filter, in_condition
from ares.store.filters import check_filter
from ares.store.sql import split_chain

_TYPES = {"episode_id": "string", "success": "bool"}


@pytest.mark.parametrize(
    ("joined_by", "where", "conditions"),
    [
        ("AND", "(a = 1) AND (b = ')')", ["(a = 1)", "(b = ')')"]),
        ("AND", "((a = 1)) and\n(b IN (1, 2)) AND (c)", ["((a = 1))", "(b IN (1, 2))", "(c)"]),
        ("AND", "((a = 1) AND (b = 2))", ["(a = 1)", "(b = 2)"]),
        ("AND", "(a = 1) OR (b = 2)", None),
        ("AND", "(a = 1) AND (b = 2) OR (c = 3)", None),
        ("AND", "(a = 1) AND NOT (b = 2)", None),
        ("AND", "(a) AND (b) = false", None),
        ("AND", "(a) AND 'x' (b)", None),
        ("AND", "a BETWEEN (1) AND (2)", None),
        ("AND", "(a = 'x) AND (y')", None),
        ("AND", "(a) (b)", None),
        ("AND", "a = 1", None),
        ("AND", "", None),
        ("OR", "((a = 1) or (b = ') OR ('))", ["(a = 1)", "(b = ') OR (')"]),
        ("OR", "(a = 1) OR (b = 2) AND (c = 3)", None),
        ("OR", "(a = 1) AND (b = 2)", None),
        ("OR", "NOT (a = 1) OR (b = 2)", None),
    ],
)
def test_conditions_are_split_only_where_each_has_parentheses(
    joined_by: str, where: str, conditions: list[str] | None
) -> None:
    assert split_chain(where, joined_by) == (conditions or [where])


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
