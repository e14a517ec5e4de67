"""Files of spans: what was written is what is read, and every row that is not read is counted with its reason."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from ares.errors import SourceError
from ares.input import (
    EpisodeNames,
    NamedSpan,
    SpanFile,
    SpanTally,
    convert_export,
    locate_spans,
    match_spans_to_episodes,
    parse_spans,
    read_span_file,
)
from ares.input.limits import InputBudgets

TEXTS = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Z")), min_size=1, max_size=8).filter(
    lambda text: text.lower() not in ("nan", "none", "null")
)
SECONDS = st.integers(0, 400).map(lambda value: value / 8)
FRAMES = st.integers(0, 400)


@st.composite
def written_rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows of spans whose columns say their unit, in any order; none is there twice."""
    unit, ends = draw(st.sampled_from([("seconds", SECONDS), ("frame", FRAMES)]))
    names, authors = st.sampled_from(["ep_0", "ep_1"]), st.sampled_from(["human", "model-7", ""])
    drawn = st.tuples(names, st.tuples(ends, ends).map(sorted).map(tuple), TEXTS, authors)
    return [
        {"episode": name, f"start_{unit}": start, f"stop_{unit}": stop, "text": text, "author": author}
        for name, (start, stop), text, author in draw(st.lists(drawn, min_size=1, max_size=8, unique=True))
    ]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows in the form that the name of the file says."""
    if path.suffix == ".csv":
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        path.write_bytes(text.getvalue().encode())
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("\n".join(map(json.dumps, rows)))
    return path


def list_spans(file: SpanFile) -> list[tuple[Any, ...]]:
    return sorted((s.names[0], s.start, s.stop, s.unit, s.text, s.author) for s in file.spans)


@given(written_rows(), st.sampled_from([".csv", ".jsonl", ".parquet"]))
def test_spans_that_were_written_are_read(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], form: str
) -> None:
    path = write_rows(tmp_path_factory.mktemp("spans") / f"spans{form}", rows)
    start, stop = (list(rows[0])[number] for number in (1, 2))
    expected = sorted(
        (
            row["episode"],
            row[start],
            row[stop],
            "frames" if "frame" in start else "seconds",
            row["text"],
            "person" if row["author"] == "human" else row["author"],
        )
        for row in rows
    )
    file = read_span_file(path)
    assert list_spans(file) == expected
    assert not file.tally.counts


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (
            "episode_index,start,end,subtask",
            r"needed are episode, text, and start_seconds, stop_seconds or start_frame, stop_frame; found are "
            r"episode_index, start, end, subtask; rename episode_index to episode, start to start_seconds \(or "
            r"start_frame\), end to stop_seconds \(or stop_frame\), subtask to text",
        ),
        (
            "Episode,Start frame,lastFrame,text",
            r"rename Episode to episode, Start frame to start_frame, lastFrame to stop_frame \(the first frame after",
        ),
        (
            "episode,start_ms,end_ms,text",
            r"start_ms to start_seconds \(divided by 1000\), end_ms to stop_seconds",
        ),
        ("episode,start_frame,stop_seconds,text", "found are episode, start_frame, stop_seconds, text$"),
    ],
)
def test_other_columns_are_refused_in_one_line_that_says_what_to_rename(
    tmp_path: Path, columns: str, says: str
) -> None:
    (tmp_path / "spans.csv").write_text(f"{columns}\n1,0,2,reach\n")
    with pytest.raises(SourceError, match=rf"spans\.csv lacks columns: .*{says}"):
        read_span_file(tmp_path / "spans.csv")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.csv", "episode,text\n", "a.csv has no rows"),
        (
            "a.jsonl",
            "7\n",
            "a.jsonl has no rows: .*: line is not a JSON object: .*a.jsonl, line 1: int; needed are episode",
        ),
        ("a.parquet", "episode", "a.parquet cannot be read"),
        ("a.yaml", "- episode: 1\n", "a.yaml is no table"),
        ("a.json", "{", "a.json cannot be read"),
        (
            "a.json",
            '[{"episode": 1}]',
            "a.json is no export of Label Studio: .* the columns episode",
        ),
    ],
)
def test_what_is_no_file_of_spans_is_refused_in_one_line(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SourceError, match=says):
        read_span_file(tmp_path / name)


_NAMES = (
    "episode start_seconds stop_seconds start_frame stop_frame text label labels data annotations result value "
    "ranges timelinelabels timeserieslabels file_upload completions author "
    "video id start end fps predictions type"
)
WORDS = st.sampled_from(_NAMES.split())
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(["", "ep_0", "0:01:02.5", "1.5", "nan", "seconds", "x.mp4"]),
)
DOCUMENTS = st.recursive(
    SCALARS, lambda part: st.lists(part, max_size=4) | st.dictionaries(WORDS, part, max_size=6), max_leaves=40
)


@given(DOCUMENTS)
def test_any_document_is_read_or_counted(document: Any) -> None:
    rows = document if isinstance(document, list) else [document]
    exported = convert_export(document, SpanTally(name="any.json"))
    for file in (parse_spans(rows, "any"), *([exported] if exported else [])):
        for span in file.spans:
            assert span.names and math.isfinite(span.start) and span.start <= span.stop < math.inf
            json.dumps(span.fields, allow_nan=False)
        assert len(list(file.tally.lines())) == len(file.tally.counts)
        placed, counts = locate_spans(file.spans, [0.0, 0.1, 0.2], 0.3)
        assert len(placed) + counts["lie outside the episode and are left out"] == len(file.spans)
        assert all(0 <= part.start_seconds <= part.stop_seconds <= 0.3 for part in placed)
    read = parse_spans(rows, "any")
    assert len(read.spans) + sum(read.tally.counts.values()) == len(rows)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_number_that_is_not_finite_is_a_missing_cell(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"spans.{ending}"
    row = {"episode": "ep_0", "start_frame": 1.0, "stop_frame": 3.0, "text": "a"}
    if ending == "jsonl":
        path.write_text(json.dumps(row)[:-1] + ', "score": 1e400, "more": [1e400, 2]}')
    else:
        gaps = {
            "start_seconds": math.nan,
            "stop_seconds": math.nan,
            "score": math.inf,
            "more": [math.nan, 2.0],
        }
        pq.write_table(pa.Table.from_pylist([{**row, **gaps}]), path)
    file = read_span_file(path)
    (span,) = file.spans
    assert (span.start, span.stop, span.unit, span.fields) == (1, 3, "frames", {"more": [None, 2]})
    assert not file.tally.counts


def test_each_fault_costs_its_row_and_is_counted(tmp_path: Path) -> None:
    good = {"episode": "ep_0", "start_seconds": 0.5, "stop_seconds": 1.0, "text": "reach"}
    faults: dict[str, dict[str, Any]] = {
        "end before they start": {**good, "start_seconds": 2},
        "have no number as start or stop": {**good, "stop_seconds": "soon"},
        "have no text": {**good, "text": " "},
        "are named twice": good,
        "name no episode": {**good, "episode": ""},
    }
    lines = [*map(json.dumps, [good, *faults.values()]), "7"]
    (tmp_path / "spans.jsonl").write_text("\n".join(lines))
    file = read_span_file(tmp_path / "spans.jsonl")
    assert len(file.spans) == 1
    told = list(file.tally.lines())
    assert len(told) == len(faults) + 1
    for reason in (*faults, "are lines of a wrong form"):
        assert any(line.startswith(f"spans.jsonl: spans that {reason}") for line in told), (reason, told)


@pytest.mark.parametrize("frame", [0.5, "x", None, True])
def test_a_frame_is_a_whole_number(frame: Any) -> None:
    rows = [
        {"start_frame": frame, "stop_frame": 3, "text": "a"},
        {"start_frame": 1, "stop_frame": 3, "text": "a"},
    ]
    file = parse_spans(rows, "subtasks")
    assert [(span.start, span.stop, span.unit) for span in file.spans] == [(1, 3, "frames")]
    assert sum(file.tally.counts.values()) == 1


def test_what_else_a_row_says_is_kept() -> None:
    row = {
        "start_seconds": 0,
        "stop_seconds": 1,
        "text": "a",
        "arm": "left",
        "annotator": "bo",
        "style": "plan",
    }
    (span,) = parse_spans([row], "subtasks").spans
    assert (span.author, span.style, span.fields) == ("person", "plan", {"arm": "left", "annotator": "bo"})


REGION = {"ranges": [{"start": 1, "end": 61}], "timelinelabels": ["grasp"]}


def label_studio_task(**more: Any) -> dict[str, Any]:
    results = [
        {"id": "r1", "type": "timelinelabels", "from_name": "lane", "value": REGION},
        {"id": "r1", "type": "textarea", "value": {**REGION, "text": ["grasp the mug"]}},
        {"id": "r2", "type": "videorectangle", "value": {"labels": ["hand"], "sequence": []}},
    ]
    return {
        "id": 7,
        "data": {"video": "/data/upload/3/5f1b2c3d-ep_0.mp4"},
        "annotations": [{"completed_by": {"id": 1, "email": "a@b.c"}, "result": results}],
        **more,
    }


def test_label_studio_frames_count_from_one_and_people_are_its_authors() -> None:
    prediction = {"ranges": [{"start": 3, "end": 5}], "timelinelabels": ["move"]}
    run = {"model_version": "m-2", "result": [{"type": "timelinelabels", "value": prediction}]}
    cancelled = {"was_cancelled": True, "result": [{"type": "timelinelabels", "value": prediction}]}
    task = label_studio_task(predictions=[run])
    task["annotations"].append(cancelled)
    file = convert_export([task], SpanTally(name="export.json"))
    assert file is not None
    assert list_spans(file) == [
        ("/data/upload/3/5f1b2c3d-ep_0.mp4", 0, 61, "frames", "grasp the mug", "person"),
        ("/data/upload/3/5f1b2c3d-ep_0.mp4", 2, 5, "frames", "move", "m-2"),
    ]
    assert file.spans[0].fields == {"track": "lane", "annotator": "a@b.c", "label": "grasp"}
    assert sorted(line.partition(" (")[0] for line in file.tally.lines()) == [
        "export.json: spans that are of annotations that were cancelled: 1",
        "export.json: spans that are regions without a span of time: 1",
    ]
    assert match_spans_to_episodes(file, EpisodeNames(["ep_0.mp4", "ep_1.mp4"]).find) == {
        "ep_0.mp4": list(file.spans)
    }


@pytest.mark.parametrize(
    ("data", "key"),
    [
        ({"video": "/data/local-files/?d=day%201/ep_1.mp4"}, "day 1/ep_1.mp4"),
        ({"video": "s3://lab/raw/ep_2.mp4?signature=4"}, "ep_2.mp4"),
        ({"video": "/data/upload/3/5f1b2c3d-episode_000003.mp4"}, "demo_3"),
        ({"video": "left.mp4", "episode": "demo_3"}, "demo_3"),
        ({"video": "left.mp4"}, ""),
    ],
)
def test_a_task_names_its_episode_by_a_field_or_by_its_file(data: dict[str, Any], key: str) -> None:
    file = convert_export([{**label_studio_task(), "data": data}], SpanTally(name="export.json"))
    assert file is not None
    find = EpisodeNames(["day 1/ep_1.mp4", "ep_2.mp4", "demo_3"]).find
    assert [*match_spans_to_episodes(file, find)] == [key] * bool(key)


@pytest.mark.parametrize(
    ("rate", "is_known"),
    [
        ({"fps": 30}, True),
        ({"frameRate": "30"}, True),
        ({"fps": "", "frame_rate": 30.0}, True),
        *(({"framerate": rate}, False) for rate in ("fast", 0, -24, True)),
    ],
)
def test_label_studio_frames_are_at_the_rate_that_its_task_says(rate: dict[str, Any], is_known: bool) -> None:
    task = label_studio_task()
    task["data"] |= rate
    file = convert_export([task], SpanTally(name="export.json"))
    assert file is not None
    assert [(s.start, s.stop, s.unit) for s in file.spans] == [(0, 61 / 30, "seconds")] * is_known
    assert ("are of tasks whose frame rate is no number above 0" in file.tally.counts) is not is_known


@pytest.mark.parametrize(("stop", "expected"), [(40, []), (40.5, [(10, 40.5, "seconds")])])
def test_whole_numbers_of_a_time_series_may_be_no_seconds(stop: float, expected: list[Any]) -> None:
    value = {"start": 10, "end": stop, "timeserieslabels": ["lift"]}
    task = {
        "data": {"csv": "ep_0.csv"},
        "annotations": [{"result": [{"type": "timeserieslabels", "value": value}]}],
    }
    file = convert_export([task], SpanTally(name="export.json"))
    assert file is not None and [(s.start, s.stop, s.unit) for s in file.spans] == expected
    assert [line.partition(" have")[0] for line in file.tally.lines()] == [
        "export.json: spans that are of a time series and" for _ in range(not expected)
    ]


@pytest.mark.parametrize("word", ["episode_id", "episode_index", "trajectory", "demo"])
def test_older_tasks_and_other_names_of_an_episode_are_read(word: str) -> None:
    task = label_studio_task()
    task["completions"] = task.pop("annotations")
    task["completions"][0]["result"][0]["origin"] = "prediction"
    task["data"] = {word: 3}
    file = convert_export(task, SpanTally(name="export.json"))
    assert file is not None and [span.names for span in file.spans] == [(3,)]
    assert file.spans[0].fields["origin"] == "prediction"


def test_spans_are_cut_at_the_ends_of_their_episode_and_told() -> None:
    ends = [(-2.0, 0.5), (0.5, 1.05), (0.6, 5.0), (1.0, 2.0), (-1.0, 0.0)]
    spans = [NamedSpan(names=("e",), start=a, stop=b, unit="seconds", text=str(a)) for a, b in ends]
    placed, counts = locate_spans(spans, [n / 10 for n in range(10)], 1.0)
    assert [(part.start_seconds, part.stop_seconds) for part in placed] == [(0, 0.5), (0.5, 1), (0.6, 1)]
    assert [part.span.fields.get("stated_span") for part in placed] == [[-2.0, 0.5], None, [0.6, 5.0]]
    assert [reason.split()[0] for reason, count in counts.items() for _ in range(count)] == [
        *("reach", "reach", "lie", "lie", "overlap")
    ]


def test_frames_are_at_the_seconds_of_their_steps() -> None:
    span = NamedSpan(names=("e",), start=1, stop=3, unit="frames", text="a")
    ((part,), counts) = locate_spans([span], [0.0, 0.1, 0.5], 0.75)
    assert (part.start_seconds, part.stop_seconds) == (0.1, 0.75) and not counts


def test_a_table_of_too_many_rows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spans.csv").write_text("episode,start_frame,stop_frame,text\n" + "a,0,1,b\n" * 11)
    monkeypatch.setattr("ares.input.stated_tables.input_budgets", lambda: InputBudgets(entries=10))
    with pytest.raises(SourceError, match="too many rows"):
        read_span_file(tmp_path / "spans.csv")


@pytest.mark.parametrize("value", ["1e308", "-1e308", "1e400", "9" * 5000, "nan", "0:01"])
@pytest.mark.parametrize("name", ["start_seconds", "stop_seconds", "start_frame"])
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_row_with_an_impossible_number_costs_itself_alone(
    ending: str, name: str, value: str, tmp_path: Path
) -> None:
    ends = ("start_frame", "stop_frame") if "frame" in name else ("start_seconds", "stop_seconds")
    rows = [
        {"episode": "a", ends[0]: str(row), ends[1]: str(row + 1), "text": text}
        for row, text in enumerate("xyz")
    ]
    rows[1][name] = value
    file = read_span_file(write_rows(tmp_path / f"spans.{ending}", rows))
    placed, counts = locate_spans(file.spans, [0.0, 1.0, 2.0], 3.0)
    assert {part.span.text for part in placed} >= {"x", "z"}
    is_cut = any(part.span.text == "y" and part.span.fields.get("stated_span") for part in placed)
    assert sum(file.tally.counts.values()) + counts["lie outside the episode and are left out"] == 1 - is_cut
