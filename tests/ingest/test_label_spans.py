"""Spans that files beside the episodes, a spec, AgiBot or steps of RLDS name are segments of their episodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ares.episode import Record
from ares.errors import SourceError
from ares.settings import settings_from_environment
from ares.workspace import open_workspace
from tests.ingest.agibot.conftest import read, write_episode, write_task
from tests.ingest.conftest import write_rlds
from tests.ingest.test_labels import load_by_key, write_episodes
from tests.ingesting import ingest_paths

HEADER = "episode,start_seconds,stop_seconds,text,author\n"


def list_spans(record: Record) -> list[tuple[float, float, str]]:
    return [(part.start_seconds, part.stop_seconds, part.text) for part in record.segments]


def test_an_export_of_label_studio_beside_the_episodes_is_by_people(tmp_path: Path) -> None:
    write_episodes(tmp_path / "d", 2)
    value = {"ranges": [{"start": 1, "end": 3}], "timelinelabels": ["lift"]}
    result = [{"type": "timelinelabels", "value": value}]
    videos = (f"/data/upload/1/0a1b2c3d-ep_{number:03d}.mp4" for number in (1, 7))
    said = [{"completed_by": 4, "result": result}]
    tasks = [{"data": {"video": video}, "annotations": said} for video in videos]
    (tmp_path / "d" / "export.json").write_text(json.dumps(tasks))
    source, records = load_by_key(tmp_path / "d")
    assert records["ep_000.npz"].segments == ()
    (segment,) = records["ep_001.npz"].segments
    assert list_spans(records["ep_001.npz"]) == [(0.0, 0.3, "lift")]
    assert (segment.style, segment.author, segment.fields) == ("subtask", "person", {"annotator": 4})
    (warning,) = source.warnings
    assert warning.startswith("export.json: spans that name episodes that are not here")
    uses = {Path(file.path).name: file.use for file in source.files()}
    assert uses["export.json"] == "metadata"


def test_faults_of_a_table_of_spans_are_one_line_each(tmp_path: Path) -> None:
    write_episodes(tmp_path / "d", 2)
    rows = [
        "ep_000,0,0.2,reach,",
        "ep_000,0,0.2,reach,",
        "ep_000,0.3,0.1,back,",
        "ep_000,nan,0.1,never,",
        "ep_000,0.1,0.2,,",
        "ep_009,0,0.2,reach,",
        "ep_001,0.1,9,lift,",
        "ep_001,7,8,late,",
        "ep_001,0.2,0.3,over,",
    ]
    (tmp_path / "d" / "spans.csv").write_text(HEADER + "\n".join(rows))
    source, records = load_by_key(tmp_path / "d")
    assert list_spans(records["ep_000.npz"]) == [(0.0, 0.2, "reach")]
    assert list_spans(records["ep_001.npz"]) == [(0.1, 0.6, "lift"), (0.2, 0.3, "over")]
    assert records["ep_001.npz"].segments[0].fields == {"stated_span": [0.1, 9.0]}
    reasons = sorted(
        line.removeprefix("spans.csv: spans that ").partition(": 1 (")[0] for line in source.warnings
    )
    assert [reason.split(",")[0] for reason in reasons] == [
        *("are named twice", "end before they start", "have no number as start or stop", "have no text"),
        "name episodes that are not here",
    ]
    warnings = [text for text in records["ep_001.npz"].warnings if "spans" in text]
    assert sorted(warnings) == [
        "spans of files beside the episodes lie outside the episode and are left out",
        "spans of files beside the episodes overlap others of their style and author, and are kept",
        "spans of files beside the episodes reach beyond the episode and are cut at its ends",
    ]


def write_spec(folder: Path, text: str) -> str:
    (folder / "spec.yaml").write_text(f"reference: us\n{text}")
    return str(folder / "spec.yaml")


def test_a_spec_names_spans(tmp_path: Path) -> None:
    write_episodes(tmp_path / "d", 2)
    (tmp_path / "spans.csv").write_text("episode,start_frame,stop_frame,text\n0,0,3,Grab cup\n1,2,4,wait\n")
    _, records = load_by_key(tmp_path / "d", write_spec(tmp_path, "spans: spans.csv\n"))
    assert list_spans(records["ep_000.npz"]) == [(0.0, 0.3, "Grab cup")]
    assert list_spans(records["ep_001.npz"]) == [(0.2, 0.4, "wait")]


def test_a_spec_with_the_unit_of_spans_is_told_that_their_table_says_it(tmp_path: Path) -> None:
    write_episodes(tmp_path / "d", 1)
    with pytest.raises(SourceError, match=r"span_unit.*the table says it: start_seconds and stop_seconds"):
        load_by_key(tmp_path / "d", write_spec(tmp_path, "spans: a.csv\nspan_unit: frames\n"))


def test_subtasks_that_a_spec_finds_in_the_metadata_are_segments(tmp_path: Path) -> None:
    write_episodes(tmp_path / "d", 1)
    parts: Any = {"parts": [{"start_frame": 0, "stop_frame": 2, "name": "go", "text": "reach"}]}
    (tmp_path / "d" / "ep_000.json").write_text(json.dumps(parts))
    _, records = load_by_key(tmp_path / "d", write_spec(tmp_path, "subtasks: parts\n"))
    (segment,) = records["ep_000.npz"].segments
    assert (segment.text, segment.stop_seconds, segment.fields) == ("reach", 0.2, {"name": "go"})


def test_faults_of_agibot_subtasks_are_told_by_reason(tmp_path: Path) -> None:
    write_episode(tmp_path / "alpha", 327, 1)
    path = write_task(tmp_path / "alpha", 327, [1])
    rows = json.loads(path.read_text())
    good = {"start_frame": 0, "end_frame": 4, "action_text": "Pick.", "skill": "Pick"}
    config = [
        good,
        {**good, "start_frame": 5},
        {**good, "end_frame": 10**12},
        {**good, "start_frame": 10**400},
        {**good, "start_frame": 100, "end_frame": 200},
        {**good, "action_text": None},
        7,
    ]
    key_frame = [{"start": 2, "end": 3, "comment": "Failure recovery"}]
    rows[0]["label_info"] = {"action_config": config, "key_frame": key_frame}
    path.write_text(json.dumps(rows))
    (record,) = read(tmp_path / "alpha")
    assert [(part.style, part.text, part.fields.get("skill")) for part in record.segments] == [
        ("subtask", "Pick.", "Pick"),
        ("subtask", "Pick.", "Pick"),
        ("key_frame", "Failure recovery", None),
    ]
    assert record.segments[1].stop_seconds == record.episode.duration_seconds
    assert sorted(record.warnings) == [
        "parts of label_info lie outside the episode and are left out",
        "parts of label_info overlap others of their style and author, and are kept",
        "parts of label_info reach beyond the episode and are cut at its ends",
        "some parts of action_config end before they start and are left out",
        "some parts of action_config have a wrong form and are left out",
        "some parts of action_config have no text and are left out",
    ]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["open it", "open it", "shut it", "shut it"], [(0.0, 0.2, "open it"), (0.2, 0.4, "shut it")]),
        (["open it", "", "open it", "shut it"], [(0, 0.1, "open it"), (0.2, 0.3, "open it"), (0.3, 0.4, "shut it")]),
        (["open it", "open it", "open it", "open it"], []),
        (["", "open it", "open it", "null"], []),
    ],
)  # fmt: skip
def test_an_instruction_that_changes_within_an_rlds_episode_is_a_segment_for_each_run(
    tmp_path: Path, texts: list[str], expected: list[tuple[float, float, str]]
) -> None:
    leaves = {"steps/action": "float32 3", "steps/language_instruction": "text"}
    changed = {"steps/language_instruction": texts}
    _, records = load_by_key(write_rlds(tmp_path, "toy", leaves, changed=changed).path)
    (record,) = records.values()
    assert [(round(a, 9), round(b, 9), text) for a, b, text in list_spans(record)] == expected
    assert all(part.fields == {"feature": "steps/language_instruction"} for part in record.segments)


@pytest.mark.slow
def test_spans_of_a_file_are_in_the_table_of_segments_and_follow_it(tmp_path: Path) -> None:
    write_episodes(tmp_path / "d", 2)
    rows = "ep_000,0,0.25,reach,human\nep_000,0.25,0.5,lift,some-model\n"
    (tmp_path / "d" / "spans.csv").write_text(HEADER + rows)
    ws = open_workspace(str(tmp_path / "ws"), settings_from_environment({}))
    for changed in (rows, rows, rows.replace("lift", "raise")):
        (tmp_path / "d" / "spans.csv").write_text(HEADER + changed)
        ingest_paths(ws.stores, [str(tmp_path / "d")], quiet=True)
        table = ws.stores.tables.segments.read().select(["start_seconds", "text", "style", "author"])
        assert sorted(tuple(row.values()) for row in table.to_pylist()) == [
            (0.0, "reach", "subtask", "person"),
            (0.25, "lift" if changed is rows else "raise", "subtask", "some-model"),
        ]
