"""Files of spans: what was written is what is read, and every row that is not read is counted with its reason."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from ares.errors import SourceError
from ares.input import (
    EpisodeNames,
    NamedSpan,
    SpanFile,
    locate_spans,
    match_spans_to_episodes,
    parse_spans,
    read_span_file,
    read_text_mapping,
    rename_text,
)
from ares.input.limits import InputBudgets

TEXTS = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Z")), min_size=1, max_size=8).filter(
    lambda text: text.lower() not in ("nan", "none", "null")
)
SECONDS = st.integers(0, 400).map(lambda value: value / 8)
# No end lies one frame before a start: that says that ends are last frames.
FRAMES = st.integers(0, 100).map(lambda value: value * 4)


@st.composite
def written_rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows of spans whose columns say their unit, in any order; none is there twice."""
    unit, ends = draw(
        st.sampled_from([("seconds", SECONDS), ("frame", FRAMES), ("ms", FRAMES), ("step", FRAMES)])
    )
    start, stop = draw(st.sampled_from([(f"start_{unit}", f"end_{unit}"), (f"{unit}_begin", f"{unit}_stop")]))
    rows = [
        {"episode": name, start: min(pair), stop: max(pair), "text": text, "author": author}
        for name, pair, text, author in draw(
            st.lists(
                st.tuples(
                    st.sampled_from(["ep_0", "ep_1"]),
                    st.tuples(ends, ends),
                    TEXTS,
                    st.sampled_from(["human", "model-7", ""]),
                ),
                min_size=1,
                max_size=8,
                unique=True,
            )
        )
    ]
    return list({json.dumps(row): row for row in rows}.values())


def write_rows(rows: list[dict[str, Any]], form: str) -> bytes:
    if form == ".csv":
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().encode()
    if form == ".jsonl":
        return "\n".join(map(json.dumps, rows)).encode()
    by_episode = {name: [row for row in rows if row.get("episode") == name] for name in ("ep_0", "ep_1")}
    if form == ".yaml":
        return yaml.safe_dump({"made by": "us", "spans": rows}, allow_unicode=True).encode()
    return json.dumps(by_episode if form == "by episode.json" else rows).encode()


def list_spans(file: SpanFile | None) -> list[tuple[Any, ...]]:
    assert file is not None
    return sorted((s.names[0], s.start, s.stop, s.unit, s.text, s.author) for s in file.spans)


@given(written_rows(), st.sampled_from([".csv", ".jsonl", ".json", ".yaml", "by episode.json"]))
def test_spans_that_were_written_are_read(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], form: str
) -> None:
    path = tmp_path_factory.mktemp("spans") / f"spans{form}"
    path.write_bytes(write_rows(rows, form))
    start, stop = (list(rows[0])[number] for number in (1, 2))
    scale = 1000 if "ms" in start else 1
    is_frames = "frame" in start or "step" in start
    expected = sorted(
        (
            row["episode"],
            row[start] / scale,
            row[stop] / scale,
            "frames" if is_frames else "seconds",
            row["text"],
            "person" if row["author"] == "human" else row["author"],
        )
        for row in rows
    )
    file = read_span_file(path)
    assert list_spans(file) == expected
    assert file is not None and file.total == len(rows) and not file.tally.counts


WORDS = st.sampled_from(
    [
        *(
            "episode",
            "start",
            "end",
            "start_frame",
            "last_frame",
            "text",
            "label",
            "labels",
            "subtasks",
            "unit",
        ),
        *(
            "data",
            "annotations",
            "result",
            "value",
            "ranges",
            "timelinelabels",
            "timeserieslabels",
            "support",
        ),
        *("timestamps", "samples", "filepath", "detections", "_cls", "classes", "author", "video", "id"),
    ]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(["", "ep_0", "0:01:02.5", "1.5", "nan", "TemporalDetections", "seconds", "x.mp4"]),
)
DOCUMENTS = st.recursive(
    SCALARS, lambda part: st.lists(part, max_size=4) | st.dictionaries(WORDS, part, max_size=6), max_leaves=40
)


@given(DOCUMENTS)
def test_any_document_is_read_or_counted(document: Any) -> None:
    file = parse_spans(document, "any.json")
    if file is None:
        return
    assert file.total == len(file.spans) + sum(file.tally.counts.values())
    for span in file.spans:
        assert (
            span.names and math.isfinite(span.start) and math.isfinite(span.stop) and span.start <= span.stop
        )
    assert len(list(file.tally.lines())) == len(file.tally.counts)
    placed, counts = locate_spans(file.spans, [0.0, 0.1, 0.2], 0.3)
    assert len(placed) + counts["lie outside the episode and are left out"] == len(file.spans)
    assert all(0 <= part.start_seconds <= part.stop_seconds <= 0.3 for part in placed)


def test_each_fault_costs_its_row_and_is_counted() -> None:
    good = {"episode": "ep_0", "start_seconds": 0.5, "end_seconds": 1.0, "text": "reach"}
    faults = {
        "end before they start": {**good, "start_seconds": 2},
        "have no number as start or end": {**good, "end_seconds": math.nan},
        "have no text": {**good, "text": " "},
        "are named twice": good,
        "name no episode": {**good, "episode": ""},
        "have times of the day": {**good, "start_seconds": 1.7e9, "end_seconds": 1.8e9},
    }
    file = parse_spans([good, *faults.values()], "spans.json")
    assert file is not None and len(file.spans) == 1 and file.total == 7
    lines = list(file.tally.lines())
    assert len(lines) == len(faults)
    for reason in faults:
        assert any(line.startswith(f"spans.json: spans that {reason}") for line in lines), (reason, lines)


def plain_rows(*ends: tuple[Any, Any], **more: Any) -> list[dict[str, Any]]:
    return [{"episode": "ep_0", "start": a, "end": b, "text": f"t{a}", **more} for a, b in ends]


@pytest.mark.parametrize(
    ("rows", "unit", "expected"),
    [
        (plain_rows((0, 1), (1, 2.5)), "", ["seconds", "seconds"]),
        (plain_rows(("0:00", "0:01:01")), "", ["seconds"]),
        (plain_rows((0, 10), (10, 20)), "", []),
        (plain_rows((0.0, 10.0), (10.0, 20.0)), "", []),
        (plain_rows((0, 10)), "frames", ["frames"]),
        (plain_rows((0, 10)), "seconds", ["seconds"]),
        (plain_rows((0, 10), unit="frames"), "", ["frames"]),
        (plain_rows((0, 10), unit="s"), "frames", ["seconds"]),
        ([{"episode": "ep_0", "start_frame": 0, "end_seconds": 1.0, "text": "a"}], "", []),
        ([{"episode": "ep_0", "start_frame": 0.5, "end_frame": 3, "text": "a"}], "", []),
    ],
)  # fmt: skip
def test_seconds_and_frames_are_told_apart_or_refused(
    rows: list[dict[str, Any]], unit: str, expected: list[str]
) -> None:
    file = parse_spans(rows, "spans.json", unit=unit)
    assert file is not None
    assert [span.unit for span in file.spans] == expected
    assert len(list(file.tally.lines())) == (not expected)


def test_an_ambiguous_file_says_what_to_do() -> None:
    file = parse_spans(plain_rows((0, 10), (10, 20)), "spans.csv")
    assert file is not None
    (line,) = file.tally.lines()
    assert line.startswith("spans.csv: spans that have whole numbers") and "start_frame" in line


def test_last_frames_belong_to_their_span() -> None:
    named = [{"episode": "e", "first_frame": 0, "last_frame": 4, "text": "a"}]
    evident = [{"episode": "e", "start_frame": 5 * n, "end_frame": 5 * n + 4, "text": "a"} for n in range(3)]
    half_open = [
        {"episode": "e", "start_frame": 5 * n, "end_frame": 5 * n + 5, "text": "a"} for n in range(3)
    ]
    for rows in (named, evident, half_open):
        file = parse_spans(rows, "spans.json")
        assert file is not None and [span.stop for span in file.spans] == [5, 10, 15][: len(rows)]


def test_the_number_of_a_span_in_its_episode_is_no_number_of_an_episode() -> None:
    row = {"id": 1, "start": 0.5, "end": 1.5, "text": "reach"}
    file = parse_spans({"ep_3": [row], "ep_4": {"id": 0, "subtasks": [row]}}, "spans.json")
    assert file is not None
    find = EpisodeNames([f"ep_{number}" for number in range(5)]).find
    assert {key: len(spans) for key, spans in match_spans_to_episodes(file, find).items()} == {
        "ep_3": 1,
        "ep_4": 1,
    }
    assert file.spans[0].fields == {"id": 1}


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
    file = parse_spans([task], "export.json")
    assert file is not None and file.kind == "Label Studio"
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
    file = parse_spans([{**label_studio_task(), "data": data}], "export.json")
    assert file is not None
    find = EpisodeNames(["day 1/ep_1.mp4", "ep_2.mp4", "demo_3"]).find
    assert [*match_spans_to_episodes(file, find)] == [key] * bool(key)


def test_label_studio_frames_are_at_the_rate_that_its_task_says() -> None:
    task = label_studio_task()
    task["data"]["fps"] = 30
    file = parse_spans([task], "export.json")
    assert file is not None and [(s.start, s.stop, s.unit) for s in file.spans] == [(0, 61 / 30, "seconds")]


@pytest.mark.parametrize("form", [".json", ".csv"])
def test_short_exports_of_label_studio_are_read(tmp_path: Path, form: str) -> None:
    cell: Any = [REGION, {"start": 0.25, "end": 1.5, "instant": False, "timeserieslabels": ["rest"]}]
    row = {"id": 1, "video": "/d/ep_1.mp4", "lane": cell, "annotator": 3}
    path = tmp_path / f"min{form}"
    path.write_bytes(write_rows([row if form == ".json" else {**row, "lane": json.dumps(cell)}], form))
    assert list_spans(read_span_file(path)) == [
        ("/d/ep_1.mp4", 0, 61, "frames", "grasp", "person"),
        ("/d/ep_1.mp4", 0.25, 1.5, "seconds", "rest", "person"),
    ]


def test_supports_of_fiftyone_count_from_one_and_hold_their_last_frame() -> None:
    detections = [{"label": 1, "support": [1, 10], "confidence": 0.5}, {"label": 0, "timestamps": [0, 1]}]
    labels = {"classes": ["open", "shut"], "labels": {"ep_0": detections, "ep_1": None}}
    sample = {
        "filepath": "/d/ep_1.mp4",
        "events": {"_cls": "TemporalDetections", "detections": [{"label": "shut", "support": [11, 20]}]},
    }
    assert list_spans(parse_spans(labels, "labels.json")) == [
        ("ep_0", 0, 1, "seconds", "open", ""),
        ("ep_0", 0, 10, "frames", "shut", ""),
    ]
    assert list_spans(parse_spans({"samples": [sample]}, "samples.json")) == [
        ("/d/ep_1.mp4", 10, 20, "frames", "shut", "")
    ]


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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("names.yaml", "Grab  the cup: pick the mug\nput: place the mug\n"),
        ("names.json", '{"grab the Cup": "pick the mug"}'),
        ("names.csv", "old,new\ngrab the cup,pick the mug\n"),
    ],
)
def test_old_names_of_subtasks_become_new_ones(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    new_texts = read_text_mapping(tmp_path / name)
    assert rename_text("Grab the cup", {"arm": "left"}, new_texts) == (
        "pick the mug",
        {"arm": "left", "source_text": "Grab the cup"},
    )
    assert rename_text("wait", {}, new_texts) == ("wait", {})


@pytest.mark.parametrize("text", ["a: ''\n", "[1, 2]", "{", "A: b\na: c\n", ""])
def test_a_file_of_new_names_with_a_fault_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "names.yaml").write_text(text)
    with pytest.raises(SourceError, match=r"names\.yaml"):
        read_text_mapping(tmp_path / "names.yaml")


def test_a_table_about_something_else_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "signals.csv").write_text("time,x,y\n" + "0.1,2,3\n" * 2000)
    monkeypatch.setattr("ares.input.span_files.input_budgets", lambda: InputBudgets(entries=1500))
    assert read_span_file(tmp_path / "signals.csv") is None


def test_a_table_of_too_many_rows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spans.csv").write_text("episode,start_frame,end_frame,text\n" + "a,0,1,b\n" * 11)
    monkeypatch.setattr("ares.input.span_files.input_budgets", lambda: InputBudgets(entries=10))
    with pytest.raises(SourceError, match="too many rows"):
        read_span_file(tmp_path / "spans.csv")


@pytest.mark.parametrize("value", ["1e308", "-1e308", "1e400", "9" * 400 + ":00", "9" * 5000 + ":00", "nan"])
@pytest.mark.parametrize("name", ["start_seconds", "end_seconds", "start_frame"])
@pytest.mark.parametrize("ending", ["csv", "jsonl", "json", "yaml"])
def test_a_row_with_an_impossible_number_costs_itself_alone(
    ending: str, name: str, value: str, tmp_path: Path
) -> None:
    ends = ("start_frame", "end_frame") if "frame" in name else ("start_seconds", "end_seconds")
    rows = [
        {"episode": "a", ends[0]: str(row), ends[1]: str(row + 1), "text": text}
        for row, text in enumerate("xyz")
    ]
    rows[1][name] = value
    path = tmp_path / f"spans.{ending}"
    if ending == "csv":
        lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
        path.write_text("\n".join(lines))
    elif ending == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        path.write_text(json.dumps(rows) if ending == "json" else yaml.safe_dump(rows))
    file = read_span_file(path, is_named=True)
    assert file is not None
    assert {span.text for span in file.spans} == {"x", "z"} and sum(file.tally.counts.values()) == 1
