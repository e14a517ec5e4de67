"""Captions are found by their words, whatever the words are."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ares.errors import RequestError
from ares.store.lance.segments import SegmentTable, make_stored_segments
from ares.store.lance_tables import Tables

_CAPTIONS = [
    "open the top drawer",
    "close the top drawer",
    "put the spoon in the sink",
    "put the spoon on the cloth",
    "打开 抽屉",
    '<b>pour</b> "water" into the robot\'s cup; DROP TABLE segments',
]


def _rows(texts: list[str]) -> pa.Table:
    return pa.table(
        {
            "annotation_id": [f"caption{number}" for number in range(len(texts))],
            "episode_id": [f"episode{number}" for number in range(len(texts))],
            "annotator": ["caption"] * len(texts),
            "segment_id": [f"segment{number}" for number in range(len(texts))],
            "start_seconds": [float(number) for number in range(len(texts))],
            "stop_seconds": [float(number + 1) for number in range(len(texts))],
            "camera": ["front"] * len(texts),
            "text": texts,
            "maker_id": ["m"] * len(texts),
        }
    )


@pytest.fixture
def segments(tables: Tables) -> SegmentTable:
    """Six captions."""
    tables.segments.upsert(_rows(_CAPTIONS))
    return tables.segments


@pytest.mark.parametrize(
    ("text", "best"),
    [
        ("sink", 2),
        ("Opening drawers", 0),
        ("抽屉", 4),
        ("pour water", 5),
        ("spoon ON cloth", 3),
        ("robot's", 5),
    ],
)
def test_captions_are_found_by_their_words(segments: SegmentTable, text: str, best: int) -> None:
    hit = segments.search_text(text, 3)[0]
    assert hit[:3] == (f"episode{best}", float(best), f"caption{best}")
    assert hit.score > 0


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters() | st.sampled_from("'\"()*:^~-+\\&|!?{}[]\ud83d\x00"), max_size=40))
def test_any_text_can_be_searched(segments: SegmentTable, text: str) -> None:
    assert len(segments.search_text(text, 10)) <= len(_CAPTIONS)


@pytest.mark.parametrize(
    "text", ["spoon AND NOT sink", 'spoon "sink', "text:spoon", "spoon*", "(spoon", "+spoon -sink"]
)
def test_operators_are_words(segments: SegmentTable, text: str) -> None:
    hits = {hit.episode_id for hit in segments.search_text(text, 10)}
    assert {"episode2", "episode3"} <= hits


def test_equal_scores_stand_in_one_order(tables: Tables) -> None:
    rows = _rows(["push the button"] * 12)
    for number in random.Random(1).sample(range(12), 12):
        tables.segments.upsert(rows.slice(number, 1))
    expected = sorted(f"episode{number}" for number in range(12))
    for limit in (1, 7, 11, 12, 60):
        assert [hit.episode_id for hit in tables.segments.search_text("button", limit)] == expected[:limit]


def test_writing_a_segment_again_keeps_what_annotators_said_of_it(segments: SegmentTable) -> None:
    verdict = {
        "annotation_id": ["caption1", "unknown"],
        "acceptable": [True, False],
        "grade": ["acceptable"] * 2,
    }
    segments.set_values(pa.table({**verdict, "score": pa.array([None, 0.5], pa.float64())}))
    segments.upsert(_rows(_CAPTIONS))
    rows = {row["annotation_id"]: row for row in segments.read().to_pylist()}
    assert len(rows) == segments.count() == 6
    assert (rows["caption1"]["grade"], rows["caption1"]["acceptable"], rows["caption1"]["score"]) == (
        "acceptable",
        True,
        None,
    )
    assert rows["caption2"]["grade"] is None
    assert segments.count("acceptable") == 1
    with pytest.raises(RequestError, match=r"filter cannot be read.*acceptable"):
        segments.count("nope = 1")


def test_what_is_deleted_is_gone_and_nothing_else(segments: SegmentTable) -> None:
    segments.delete([])
    segments.delete(["caption1", "caption4", "is not there"])
    assert segments.count() == 4
    segments.delete_episodes(["episode0", "is not there"])
    rows = segments.read().to_pylist()
    assert [row["annotation_id"] for row in rows] == ["caption2", "caption3", "caption5"]
    assert not {"caption1", "caption0"} & {hit.annotation_id for hit in segments.search_text("drawer", 9)}


def test_what_the_table_of_an_older_version_lacks_is_empty(tables: Tables, segments: SegmentTable) -> None:
    tables.connection.newest_version("segments").drop_columns(["style", "author"])
    older = tables.segments
    assert older.scan(["text", "style"], "episode_id = 'episode2'").to_pylist() == [
        {"text": _CAPTIONS[2], "style": None}
    ]
    rows = older.read()
    assert {"style", "author", "text"} <= set(rows.column_names) and rows["author"].null_count == 6
    assert make_stored_segments(rows)[0].style == ""


def test_a_segment_as_json_has_its_columns_with_times_as_texts(segments: SegmentTable) -> None:
    noon = datetime(2026, 1, 2, 12, tzinfo=UTC)
    rows = segments.read().slice(0, 1).append_column("seen", pa.array([noon]))
    rows = rows.append_column("score_of_it", pa.array([None], pa.float64())).append_column("n", pa.array([3]))
    [segment] = make_stored_segments(rows, [0.5])
    document = segment.to_json()
    assert (document["seen"], document["n"], document["score"]) == ("2026-01-02T12:00:00+00:00", 3, 0.5)
    assert "score_of_it" not in document and json.dumps(document)
