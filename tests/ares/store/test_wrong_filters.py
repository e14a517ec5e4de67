"""A filter with a typing error is evaluated, or refused in one line; none reaches beyond its own condition."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ares.curation import selected_ids
from ares.errors import FilterError, RequestError
from ares.jobs import EpisodeSelection
from ares.search import compute_facets
from ares.settings import Settings
from ares.store import parenthesize
from ares.workspace import Workspace, open_workspace
from benchmarks.synthetic_episodes import add_synthetic_episodes, set_annotator_columns
from tests.ares.store.random_filters import RandomFilter, filters

_COLUMNS: dict[str, list[Any]] = {
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
    workspace = open_workspace(str(tmp_path_factory.mktemp("wrong") / "ws"), Settings())
    add_synthetic_episodes(workspace, 50)
    set_annotator_columns(workspace)
    return workspace


def test_the_statement_that_lance_makes_of_a_filter_is_not_shown(ws: Workspace) -> None:
    with pytest.raises(FilterError, match=r"Expected: an expression, found: ,$"):
        ws.stores.tables.episodes.count("(dataset IS NULL) AND (dataset IN (,'it''s'))")


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    correct=filters(_COLUMNS, leaves=4),
    at=st.floats(0, 1),
    sign=st.sampled_from(_SIGNS) | st.text(max_size=6),
    cut=st.integers(0, 2),
)
def test_a_filter_with_a_typing_error_is_evaluated_or_refused(
    ws: Workspace, capfd: pytest.CaptureFixture[str], correct: RandomFilter, at: float, sign: str, cut: int
) -> None:
    offset = int(at * len(correct.sql))
    where = correct.sql[:offset] + sign + correct.sql[offset + cut :]
    version = ws.stores.tables.episodes.version()
    try:
        assert 0 <= ws.stores.tables.episodes.count(where) <= 50
    except FilterError as error:
        assert error.reason == "the filter cannot be read"
        assert error.position is not None and 0 <= error.position <= len(where)
        message = error.detail.removeprefix(repr(where))
        assert not any(noise in message for noise in ("\n", ".rs:", "LanceError", "SELECT 1 FROM"))
        # Lance names no column and no function, and reports no syntax error, as these were checked before.
        assert not any(
            words in message for words in ("No field named", "Invalid function", "sql parser error")
        )
    assert ws.stores.tables.episodes.version() == version
    # A panic of the library is printed here, even if it becomes an exception.
    assert "panicked" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "where",
    ["success) OR (true", "success OR true) AND (true", "(success", "success -- ", "'a", "success; DROP", ""],
)
def test_a_filter_that_is_joined_with_others_stays_inside_its_parentheses(ws: Workspace, where: str) -> None:
    with pytest.raises(FilterError) as caught:
        parenthesize(where)
    assert pickle.loads(pickle.dumps(caught.value)).pointer == caught.value.pointer
    if where:
        episode_id = next(iter(ws.stores.tables.episodes.ids("NOT success")))
        with pytest.raises(FilterError):
            list(selected_ids(ws.stores, EpisodeSelection(where=where, ids=[episode_id])))
        with pytest.raises(RequestError):
            compute_facets(ws.stores, where)


def test_two_lists_of_one_column_leave_no_row_without_a_value(ws: Workspace) -> None:
    """DataFusion replaces them by a constant."""
    num_graded = ws.stores.tables.episodes.count("grade IS NOT NULL")
    assert 0 < num_graded < 50
    for where in (
        "grade NOT IN ('error') OR grade NOT IN ('unsure')",
        "NOT (grade IN ('error') AND Grade IN ('unsure', 'in (x'))",
        "NOT (grade IN ('error') AND `grade` IN ('unsure') AND grade IN ('acceptable'))",
    ):
        assert ws.stores.tables.episodes.count(where) == num_graded
        assert len(ws.stores.tables.episodes.ids(where)) == num_graded
        (facet,) = compute_facets(ws.stores, where, ["grade"])
        assert sum(count for _, count in facet.counts) == num_graded


@pytest.mark.parametrize(
    "where",
    [
        "Num_Steps > 3 AND array_length(Instructions) > 0",
        "lower(GRADE) IN ('error') OR length(Dataset) > 2",
        "in_polygon(NUM_STEPS, num_steps, '0 0, 9 0, 9 99')",
    ],
)
def test_a_name_in_capitals_is_the_column_everywhere(ws: Workspace, where: str) -> None:
    assert ws.stores.tables.episodes.ids(where) == ws.stores.tables.episodes.ids(where.lower())
