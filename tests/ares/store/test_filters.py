"""Filters: what SQL says is found, and what cannot be read is told with the columns there are."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ares.episode import Record
from ares.errors import FilterError, RequestError
from ares.store import filters
from ares.store.tables import Tables, open_tables

Make = Callable[..., Record]


@pytest.mark.parametrize(
    ("where", "cause"),
    [
        ("nope = 1", "No field named nope"),
        ("datset = 'set1'", "No field named datset"),
        ("dataset = ", "Expected: an expression"),
        ("dataset = 'set1' AND", "Expected: an expression"),
        ("dataset = 'set1", "Unterminated string"),
        ("num_steps > 'many'", "'many' does not fit: num_steps is int64, to be compared with a whole number"),
        ("num_steps > 2.5", "2.5 does not fit: num_steps is int64"),
        ("key > 5", "5 does not fit: key is string, to be compared with text"),
        ("success = 'yes'", "success is bool, to be compared with true or false"),
        ("ingested > '2026-01-01'", "a time such as TIMESTAMP"),
        ("sleep(3)", "there is no function 'sleep'"),
        ("random() > 0.5", "'random' cannot stand in a filter"),
        ("_rowid > 5", "'_rowid' cannot stand in a filter"),
        ("num_steps > 3) OR (true", "this ')' closes nothing"),
        ("num_steps > 3 -- and so on", "comments"),
        ("num_steps > 3 /* */", "comments"),
        ("num_steps > 3 num_steps < 5", "found: num_steps"),
        ("num_steps", "does not return a boolean"),
        ("1 / (num_steps - num_steps) > 0", "Divide by zero"),
        ("CAST(instruction AS INT) > 0", "Cannot cast string"),
        ("num_steps IN (SELECT 1)", "not supported"),
        ("count(*) > 1", "AggregateFunction"),
        ("num_steps > 3; DROP TABLE episodes", "one condition"),
        ("num_steps > ?", "one condition"),
        ("\x00", "Expected: an expression"),
    ],
)
def test_a_filter_that_cannot_be_read(filled: Tables, where: str, cause: str) -> None:
    for ask in (filled.episodes.count, filled.episodes.ids, lambda where: list(filled.episodes.read(where))):
        with pytest.raises(RequestError) as caught:
            ask(where)
        assert caught.value.reason == "the filter cannot be read"
        detail = caught.value.detail
        assert detail.startswith(repr(where))
        assert any(each in detail for each in cause.split("|"))
        if "cannot stand" not in detail and "one condition" not in detail and "closes nothing" not in detail:
            assert "there are the columns" in detail
            assert "num_steps" in detail
        assert ".rs:" not in detail
        assert "\n" not in detail
    assert filled.episodes.count() == 30


def test_a_filter_may_hold_signs_of_sql_inside_quotes(filled: Tables, make_record: Make) -> None:
    filled.episodes.add([make_record(200, instruction="what; is it? $5 -- 'so'")])
    assert filled.episodes.count("instruction = 'what; is it? $5 -- ''so'''") == 1
    assert filled.episodes.count("array_has(instructions, 'pull the handle')") == 31


@pytest.mark.parametrize(
    ("where", "pointed"),
    [
        ("success AND datset = 'a'", "datset"),
        ("num_steps > 'many'", "'many'"),
        ("num_steps > 3 AND key = 5", "5"),
        ("'datset' = dataset AND datset = 'x'", "datset = 'x'"),
        ("success AND foo(num_steps) > 1", "foo"),
        ("success AND dataset = 'open", "'open"),
        ("dataset = ", ""),
        ("num_steps > 3) OR (true", ")"),
        ("instruction = 'it''s; -- ok' AND success; DROP", ";"),
        ("success AND\n  datset = 'a'", "datset"),
    ],
)
def test_the_fault_is_pointed_at(filled: Tables, where: str, pointed: str) -> None:
    with pytest.raises(FilterError) as caught:
        filled.episodes.count(where)
    assert caught.value.place is not None
    assert where[caught.value.place :].startswith(pointed)
    text, caret = caught.value.pointer.split("\n")
    assert text[caret.index("^") :].startswith(pointed)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.pointer) == (str(caught.value), caught.value.pointer)


def test_the_closest_column_comes_first(filled: Tables) -> None:
    with pytest.raises(RequestError, match=r"did you mean 'num_steps'.*there are the columns num_steps,"):
        filled.episodes.count("numsteps > 3")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.text(st.sampled_from("()'\"`;-/*?$ =<>aé5.,%_\n") | st.characters(), max_size=30))
def test_no_text_is_more_than_a_condition(
    module_tables: tuple[Tables, sqlite3.Connection], where: str
) -> None:
    """Whatever is typed either counts episodes or is refused in one line."""
    tables, _ = module_tables
    try:
        assert 0 <= tables.episodes.count(where) <= 30
    except RequestError as error:
        assert error.reason == "the filter cannot be read"


def test_a_blank_filter_is_none(filled: Tables) -> None:
    assert filled.episodes.count(" \n") == len(filled.episodes.ids(" ")) == 30


_conditions = st.recursive(
    st.one_of(
        st.builds("num_steps {} {}".format, st.sampled_from(["<", ">=", "=", "<>"]), st.integers(4, 12)),
        st.builds("dataset = 'set{}'".format, st.integers(0, 3)),
        st.builds("key LIKE '{}%'".format, st.integers(0, 3)),
        st.sampled_from(["success", "success IS NULL", "success IS NOT TRUE", "instruction <> ''"]),
        st.builds("num_steps BETWEEN {} AND {}".format, st.integers(4, 8), st.integers(6, 12)),
    ),
    lambda inner: (
        st.builds("({} AND {})".format, inner, inner)
        | st.builds("({} OR {})".format, inner, inner)
        | st.builds("(NOT {})".format, inner)
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=_conditions)
def test_filters_find_what_sql_says(module_tables: tuple[Tables, sqlite3.Connection], where: str) -> None:
    """SQLite reads the same conditions by the same three-valued logic."""
    tables, other = module_tables
    wanted = {row[0] for row in other.execute(f"SELECT episode_id FROM episodes WHERE {where}")}
    assert tables.episodes.ids(where) == wanted
    assert tables.episodes.count(where) == len(wanted)


@pytest.fixture(scope="module")
def module_tables(
    tmp_path_factory: pytest.TempPathFactory, make_record: Make
) -> Iterator[tuple[Tables, sqlite3.Connection]]:
    """Thirty episodes in Lance and the same in SQLite."""
    tables = open_tables(str(tmp_path_factory.mktemp("filters")))
    records = [make_record(number, steps=5 + number % 7) for number in range(30)]
    tables.episodes.add(records)
    columns = ["episode_id", "num_steps", "dataset", "key", "success", "instruction"]
    with closing(sqlite3.connect(":memory:")) as other:
        other.execute("PRAGMA case_sensitive_like = ON")
        other.execute(f"CREATE TABLE episodes ({', '.join(columns)})")
        rows = [[getattr(record.episode, name) for name in columns] for record in records]
        other.executemany("INSERT INTO episodes VALUES (?, ?, ?, ?, ?, ?)", rows)
        yield tables, other


@pytest.mark.parametrize(
    ("where", "parts"),
    [
        ("(a = 1) AND (b = ')')", ["(a = 1)", "(b = ')')"]),
        ("((a = 1)) and\n(b IN (1, 2)) AND (c)", ["((a = 1))", "(b IN (1, 2))", "(c)"]),
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
def test_conditions_are_taken_apart_only_where_each_stands_alone(where: str, parts: list[str] | None) -> None:
    assert filters.conjuncts(where) == (parts or [where])
