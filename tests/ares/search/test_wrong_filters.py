"""Whatever is written as a filter is a condition, or is refused in one line that points into it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ares.curate.choose import choose
from ares.errors import FilterError, RequestError
from ares.search.facets import facets
from ares.settings import Settings
from ares.store.filters import alone
from ares.workspace import Workspace, open_workspace
from benchmarks.grow import annotate, grow
from tests.ares.search.odd_filters import Filter, filters

_KNOWN: dict[str, list[Any]] = {
    "dataset": ["dataset_1", "it's"], "num_steps": [20, 400], "success": [True], "path_length": [0.5, 1.0],
    "instructions": [["open the drawer"]],
}  # fmt: skip
_SIGNS = [
    *"()'\"`;:-*/?$ =<>aéN5.,%_\n\\[]{}|&!~^@#+", "", "", " AND ", "NOT ", " nope ", " IN ", "' OR 1=1",
    "; DROP TABLE episodes", "(SELECT 1)", "read_csv('/etc/passwd')", "N'", "now()", '"num_steps"',
]  # fmt: skip


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Fifty episodes."""
    made = open_workspace(str(tmp_path_factory.mktemp("wrong") / "ws"), Settings())
    grow(made, 50)
    annotate(made)
    return made


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    asked=filters(_KNOWN, leaves=4), at=st.floats(0, 1), sign=st.sampled_from(_SIGNS), cut=st.integers(0, 2)
)
def test_a_filter_with_a_slip_is_read_or_pointed_into(
    ws: Workspace, capfd: pytest.CaptureFixture[str], asked: Filter, at: float, sign: str, cut: int
) -> None:
    right = asked.sql
    place = int(at * len(right))
    where = right[:place] + sign + right[place + cut :]
    version = ws.tables.episodes.version()
    try:
        assert 0 <= ws.tables.episodes.count(where) <= 50
    except FilterError as error:
        assert error.reason == "the filter cannot be read"
        assert error.place is not None and 0 <= error.place <= len(where)
        said = error.detail.removeprefix(repr(where))
        assert not any(noise in said for noise in ("\n", ".rs:", "LanceError", "SELECT 1 FROM"))
        assert "No field named" not in said or "there are the columns" in said
    assert ws.tables.episodes.version() == version
    # A panic of the library is told here, whatever becomes of it.
    assert "panicked" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("where", "pointed"),
    [
        ("success success", "success"),
        ("num_steps > 3 AND num_steps IN () OR (success)", ") OR"),
        ("(success AND (num_steps > 3)", "(success"),
        ("success AND lower(num_steps) = 'a' AND dataset = 'b'", "lower"),
        ("success AND CASE WHEN success THEN true END", "CASE"),
        ("num_steps > 15 AND key = 5 AND success", "5 AND success"),
        ("success AND 1 / (num_steps - num_steps) > 0", "/ (num_steps"),
        ("success OR CAST(instruction AS INT) > 0", "CAST"),
        ("success AND dataset = N'a'", "N'a'"),
        ("success AND :name", ":name"),
        ("success AND ingested > now()", "now()"),
        ("success AND ingested > CURRENT_DATE", "CURRENT_DATE"),
        ("success AND \"dataset\" = 'dataset_1'", '"dataset"'),
        ("success AND num_steps = 1e2", "num_steps = 1e2"),
        ("success AND read_csv('/etc/passwd') = 'a'", "read_csv"),
        ("success AND EXISTS (SELECT 1)", "EXISTS"),
    ],
)
def test_the_fault_is_pointed_at(ws: Workspace, where: str, pointed: str) -> None:
    with pytest.raises(FilterError) as caught:
        ws.tables.episodes.ids(where)
    assert where[caught.value.place :].startswith(pointed)


@pytest.mark.parametrize(
    "where", ["success) OR (true", "success OR true) AND (true", "(success", "success -- ", "'a"]
)
def test_a_filter_that_is_joined_with_others_stays_alone(ws: Workspace, where: str) -> None:
    one = next(iter(ws.tables.episodes.ids("NOT success")))
    with pytest.raises(FilterError):
        list(choose(ws, where=where, ids=[one])[0])
    with pytest.raises(RequestError):
        facets(ws, where)
    for joined in ("success) OR (true", "(success", "success -- "):
        with pytest.raises(FilterError):
            alone(joined)


def test_two_lists_of_one_column_leave_no_row_without_a_value(ws: Workspace) -> None:
    """DataFusion takes them for a constant."""
    there = ws.tables.episodes.count("grade IS NOT NULL")
    assert 0 < there < 50
    for where in (
        "grade NOT IN ('error') OR grade NOT IN ('unsure')",
        "NOT (grade IN ('error') AND Grade IN ('unsure', 'in (x'))",
        "NOT (grade IN ('error') AND `grade` IN ('unsure') AND grade IN ('acceptable'))",
    ):
        assert ws.tables.episodes.count(where) == len(ws.tables.episodes.ids(where)) == there
        assert sum(facets(ws, where, ["grade"])[0].counts[number][1] for number in range(2)) <= there


@pytest.mark.parametrize(
    ("where", "place"),
    [("grade IN ('error', NULL)", 19), ("num_steps = null", 12), ("num_steps BETWEEN NULL AND 3", 18)],
)
def test_a_comparison_with_null_is_pointed_at(ws: Workspace, where: str, place: int) -> None:
    """It is never true, and DataFusion folds some of them to what is."""
    with pytest.raises(FilterError, match="stands only in IS NULL and IS NOT NULL") as caught:
        ws.tables.episodes.count(where)
    assert caught.value.place == place
    assert ws.tables.episodes.count("grade IS  NULL OR grade is not null AND instruction <> 'NULL'") == 50


_LONG = [
    "(" * 20_000 + "success" + ")" * 20_000,
    "NOT " * 20_000 + "success",
    " OR ".join(f"(num_steps = {number} AND success)" for number in range(3_000)),
    " OR ".join(f"num_steps = {number}" for number in range(3_000)) + " OR nope = 1 OR nope = 2",
    f"episode_id IN ({', '.join(repr(str(number)) for number in range(20_000))})",
]


def test_a_filter_of_any_length_is_answered_soon(ws: Workspace) -> None:
    """In another process: a stack that runs over ends it."""
    program = f"""
import json, sys, ares
from ares.errors import FilterError
ws = ares.open({ws.path!r})
for where in json.load(sys.stdin):
    try:
        print(ws.tables.episodes.count(where))
    except FilterError:
        print("refused")
"""
    asked = json.dumps(_LONG)
    ended = subprocess.run(
        [sys.executable, "-c", program], input=asked, capture_output=True, text=True, timeout=20, check=False
    )
    successes = ws.tables.episodes.count("success AND num_steps < 3000")
    assert ended.stdout.split() == ["refused", "refused", str(successes), "refused", "0"], ended.stderr[-500:]
