"""A view survives the URL, and its SQL cannot be broken out of."""

from __future__ import annotations

import numpy as np
import pytest

from ares.errors import RequestError
from ares_app.dashboard.cards import make_grade_badge
from ares_app.dashboard.column_words import value_line
from ares_app.dashboard.markdown_text import escape_markdown
from ares_app.dashboard.player_data import thin_times, thin_values
from ares_app.dashboard.results import list_sort_columns
from ares_app.dashboard.view_state import (
    ColumnFilter,
    ViewState,
    view_filter_sql,
    view_from_params,
    view_to_params,
)

_COLUMNS = {"dataset": "string", "success": "bool", "num_steps": "int64"}


@pytest.mark.parametrize(
    "view",
    [
        ViewState(),
        ViewState(text="open", cut=0.0),
        ViewState(words="drawer it's"),
        ViewState(text="open", cut=0.9901),
        ViewState(text="open & shut", where="a = 'b'", sort="num_steps", descending=True, page=3),
        ViewState(
            filters={"dataset": ColumnFilter(column="dataset", values=("~missing", "a", "~~"), missing=True)}
        ),
        ViewState(
            filters={"num_steps": ColumnFilter(column="num_steps", low=1 / 3, high=11.666666666666666)}
        ),
        ViewState(filters={"num_steps": ColumnFilter(column="num_steps", low=-2.0)}),
    ],
)
def test_a_view_is_the_same_after_a_trip_through_the_url(view: ViewState) -> None:
    assert view_from_params(view_to_params(view)) == view


def test_the_sql_of_filters() -> None:
    view = ViewState(
        where="num_steps > 3",
        filters={
            "dataset": ColumnFilter(column="dataset", values=("it's",), missing=True),
            "success": ColumnFilter(column="success", values=("true",)),
        },
    )
    assert view_filter_sql(view, _COLUMNS) == (
        "(num_steps > 3) AND ((dataset IN ('it''s')) OR (dataset IS NULL)) AND ((success IS TRUE))"
    )
    assert "dataset" not in view_filter_sql(view, _COLUMNS, leave_out="dataset")


def test_the_sql_of_words_wants_each_in_the_instruction_or_the_caption() -> None:
    columns = {"instruction": "string", "caption": "string"}
    assert view_filter_sql(ViewState(words="Open it's"), columns) == (
        "((contains(lower(instruction), 'open')) OR (contains(lower(caption), 'open'))) AND "
        "((contains(lower(instruction), 'it''s')) OR (contains(lower(caption), 'it''s')))"
    )


def test_the_sql_of_ranges_fits_the_type_of_the_column() -> None:
    kinds = {"num_steps": "int64", "rate_hz": "float64", "ingested": "timestamp", "tags": "list<string>"}
    expected = {
        "num_steps": "(num_steps >= 4 AND num_steps <= 20)",
        "rate_hz": "(rate_hz >= 3.5 AND rate_hz <= 20.0)",
        "ingested": "(ingested >= to_timestamp_micros(3500000) AND ingested <= to_timestamp_micros(20000000))",
    }
    for column, sql in expected.items():
        assert sql in view_filter_sql(
            ViewState(filters={column: ColumnFilter(column=column, low=3.5, high=20.0)}), kinds
        )
    view = ViewState(filters={"tags": ColumnFilter(column="tags", values=("it's",))})
    assert view_filter_sql(view, kinds) == "((array_has(tags, 'it''s')))"


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(RequestError, match="no column 'evil'"):
        view_filter_sql(ViewState(filters={"evil": ColumnFilter(column="evil", values=("1",))}), _COLUMNS)
    gone = ViewState(filters={"grade_trust": ColumnFilter(column="grade_trust", values=("trusted",))})
    with pytest.raises(
        RequestError, match="no column 'grade_trust': it is gone: use acceptable, which is empty"
    ):
        view_filter_sql(gone, _COLUMNS)


def test_markdown_in_data_is_made_harmless() -> None:
    assert escape_markdown("![p](http://x) <b>\n*") == "\\!\\[p\\]\\(http\\://x\\) \\<b\\> \\*"


def test_a_long_signal_keeps_the_spikes_of_every_dimension() -> None:
    values = np.random.default_rng(0).normal(0, 0.01, (100_000, 3)).astype(np.float32)
    values[12_345, 0], values[70_001, 1], values[99_999, 2] = 5, -7, 9
    values[20_000:30_000, 2] = np.nan
    times = np.arange(len(values)) / 10
    thinned, seconds = thin_values(values), thin_times(times)
    assert thinned.shape == (2000, 3) and seconds.shape == (2000,)
    assert (np.diff(seconds) > 0).all() and (seconds[0], seconds[-1]) == (times[0], times[-1])
    assert np.nanmax(thinned, axis=0).tolist() == np.nanmax(values, axis=0).tolist()
    assert np.nanmin(thinned, axis=0).tolist() == np.nanmin(values, axis=0).tolist()
    for number, step in ((0, 12_345), (1, 70_001), (2, 99_999)):
        assert abs(seconds[np.nanargmax(np.abs(thinned[:, number]))] - times[step]) <= 10
    assert np.isnan(thinned[450:550, 2]).all()
    assert (thin_values(values[:50]) == values[:50])[:, 0].all()


def test_columns_to_sort_by_have_the_usual_ones_first_then_groups_and_letters() -> None:
    names = [
        "zeta",
        "grade_score",
        "verb",
        "sparc",
        "jerk_ldlj",
        "duration_seconds",
        "dataset",
        "arm",
        "alpha",
    ]
    assert list_sort_columns({**dict.fromkeys(names, "float64"), "tags": "list<string>"}) == [
        *("dataset", "duration_seconds", "alpha", "zeta", "arm", "verb"),
        *("jerk_ldlj", "sparc", "grade_score"),
    ]


@pytest.mark.parametrize(
    ("grade", "refuted", "text", "tone"),
    [
        ("acceptable", None, "acceptable", "good"),
        ("not_acceptable", None, "not acceptable", "bad"),
        ("acceptable", True, "graded acceptable by a refuted judge: does not count", "open"),
        ("not_acceptable", True, "graded not acceptable by a refuted judge: does not count", "open"),
        ("unsure", True, "unsure", "open"),
        ("error", None, "error", "open"),
        (None, None, "ungraded", "none"),
    ],
)
def test_one_badge_says_the_grade_and_whether_it_counts(
    grade: str | None, refuted: bool | None, text: str, tone: str
) -> None:
    badge = make_grade_badge({"grade": grade, "grade_refuted": refuted, "caption": "a"})
    assert (badge["text"], badge["tone"]) == (text, tone)


@pytest.mark.parametrize(
    ("column", "value", "unit", "line"),
    [
        ("duration_seconds", 5.46, "", "duration: 5.5 s"),
        ("rate_hz", 10.0, "", "rate: 10 Hz"),
        ("path_length", 0.25, "m", "path length: 0.25 m"),
        ("success", False, "", "outcome (success or failure): failure"),
        ("outcome", "partial", "", "outcome: partial"),
        ("grade_score", None, "", "grade score: no value"),
    ],
)
def test_what_orders_a_card_is_said_with_name_value_and_unit(
    column: str, value: object, unit: str, line: str
) -> None:
    assert value_line(column, value, unit, {}) == line
