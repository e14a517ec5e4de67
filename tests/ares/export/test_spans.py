"""Sets of spans: each is an episode of an export, with its steps, its frames and its text, read back and compared."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from ares.curation import Sets
from ares.episode import Span
from ares.errors import MediaError
from ares.export import ExportReport
from ares.workspace import Workspace
from tests.ares.export.made_episodes import make_record, make_set, read_again, read_manifest, read_rows
from tests.ares.export.rlds.test_exporter import records, values
from tests.ares.export.segments import CAPTIONER, PERSON, SEGMENTER, append, segment
from tests.thinning import some_by_day

FIRST, SECOND = f"{0:016x}", f"{1:016x}"
# Two overlapping parts that begin between keyframes, all of an episode, and one of the other episode to its end.
SPANS = ((FIRST, 0.0, 5.35), (FIRST, 0.55, 1.5), (FIRST, 1.1, 2.0), (SECOND, 2.35, 5.35))
STEPS = ((0, 107), (11, 30), (22, 40), (47, 107))


@pytest.fixture
def ws(ws: Workspace) -> Workspace:
    """Two episodes of a video of 107 steps at 20 Hz, which succeeded, and the set "parts" of SPANS, without texts."""
    make_set(ws, [make_record(number, success=True, success_source="x") for number in range(2)])
    freeze(ws, SPANS)
    return ws


def freeze(ws: Workspace, spans: Sequence[tuple[str, float, float]], name: str = "parts") -> None:
    made = [Span(episode_id=id, start_seconds=start, stop_seconds=stop) for id, start, stop in spans]
    Sets(ws.stores.annotations).create_spans(name, made, {})


def export(ws: Workspace, folder: Path, format: str, **options: Any) -> ExportReport:
    return ws.export("parts", folder, format=format, quiet=True, **options)


def source(ws: Workspace, number: int) -> tuple[Any, slice]:
    return ws.episodes[SPANS[number][0]], slice(*STEPS[number])


def test_lerobot_points_into_copied_videos_and_has_the_steps_of_the_spans(
    ws: Workspace, tmp_path: Path
) -> None:
    report = export(ws, tmp_path / "out", "lerobot")
    assert (report.episodes, report.frames, report.encoded_frames) == (4, 107 + 19 + 18 + 60, 0)
    assert report.copied_packets > report.frames, "from the keyframe before each span"
    episodes = read_again(tmp_path / "out")
    assert [episode.num_steps for episode in episodes] == [107, 19, 18, 60]
    for number, episode in enumerate(episodes):
        stored, steps = source(ws, number)
        for name in ("state", "action"):
            expected = getattr(stored.trajectory, name).values[steps]
            np.testing.assert_array_equal(getattr(episode.trajectory, name).values, expected)
        expected = stored.frames("front", stored.trajectory.timestamps[steps])
        np.testing.assert_array_equal(episode.frames("front", episode.trajectory.timestamps), expected)
    assert [episode.success for episode in episodes] == [True, None, None, None], "unknown of a part"
    for number, line in enumerate(read_manifest(tmp_path / "out")):
        assert (line["index"], line["path"]) == (number, ".")
        assert (line["episode_id"], line["start_seconds"], line["stop_seconds"]) == SPANS[number]
        assert bool(line["content_hash"]) == (number == 0), "a part is not the record of its source"


def test_v21_encodes_what_it_cannot_point_into_and_says_so(ws: Workspace, tmp_path: Path) -> None:
    report = export(ws, tmp_path / "out", "lerobot-v2.1")
    assert (report.copied_packets, report.encoded_frames) == (107 + 19, 18 + 60), "one begins with a keyframe"
    assert report.reencoded == {"a span of a video, which the format cannot point into": 2}
    episodes = read_again(tmp_path / "out")
    stored, steps = source(ws, 2)
    np.testing.assert_array_equal(episodes[2].trajectory.state.values, stored.trajectory.state.values[steps])
    shown = episodes[2].frames("front", episodes[2].trajectory.timestamps).astype(int)
    wanted = stored.frames("front", stored.trajectory.timestamps[steps]).astype(int)
    off = [np.abs(shown - wanted[[0] * len(wanted)]).mean(), np.abs(shown - wanted).mean()]
    assert off[1] < 3 and off[1] < off[0], "the frames of these steps, a little changed by the encoder"


@pytest.mark.slow
def test_another_rate_selects_steps_within_the_span(ws: Workspace, tmp_path: Path) -> None:
    report = export(ws, tmp_path / "out", "lerobot", fps=10)
    episodes = read_again(tmp_path / "out")
    assert [episode.num_steps for episode in episodes] == [54, 10, 9, 30]
    stored, _ = source(ws, 1)
    np.testing.assert_array_equal(
        episodes[1].trajectory.state.values, stored.trajectory.state.values[11:30:2]
    )
    (change,) = report.changed
    assert (change["steps_before"], change["steps_after"]) == (204, 103)


def test_rlds_has_the_steps_and_says_that_an_inner_end_is_not_terminal(ws: Workspace, tmp_path: Path) -> None:
    report = export(ws, tmp_path / "out", "rlds")
    assert report.copied_records == 0
    (folder,) = (path.parent for path in (tmp_path / "out").rglob("features.json"))
    for number, record in enumerate(records(folder)):
        stored, steps = source(ws, number)
        state = np.array(values(record, "steps/observation/state"), np.float32).reshape(-1, 2)
        np.testing.assert_array_equal(state, stored.trajectory.state.values[steps])
        assert values(record, "steps/is_last")[-1] == 1
        assert values(record, "steps/is_terminal")[-1] == (number in (0, 3))
        document = json.loads(values(record, "episode_metadata/ares_export")[0])
        assert document["span"]["start_seconds"] == SPANS[number][1]
        assert values(record, "episode_metadata/success") == [1 if number == 0 else -1]


def test_parquet_has_a_row_for_each_span_and_what_is_said_of_episodes_once(
    ws: Workspace, tmp_path: Path
) -> None:
    append(ws, [PERSON], [segment(PERSON, FIRST, (1.0, 2.5), {"text": "lift"})])
    report = export(ws, tmp_path / "out", "parquet")
    episodes = pq.read_table(tmp_path / "out" / "episodes.parquet").to_pylist()
    steps = pq.read_table(tmp_path / "out" / "steps.parquet").to_pylist()
    assert (report.episodes, report.frames) == (len(episodes), len(steps)) == (4, 204)
    for number, row in enumerate(episodes):
        stored, kept = source(ws, number)
        own = [step for step in steps if step["episode_index"] == number]
        assert (row["episode_id"], row["start_seconds"], row["stop_seconds"]) == SPANS[number]
        assert (row["episode_index"], row["num_steps"]) == (number, len(own))
        assert row["success"] is (True if number == 0 else None)
        np.testing.assert_array_equal([step["state"] for step in own], stored.trajectory.state.values[kept])
        assert own[0]["timestamp"] == 0.0
    assert pq.read_table(tmp_path / "out" / "segments.parquet")["text"].to_pylist() == ["lift"]


def test_a_text_of_a_person_is_the_task_and_one_of_an_ungraded_model_is_held_back(
    ws: Workspace, tmp_path: Path
) -> None:
    made = [
        segment(PERSON, FIRST, (1.0, 2.0), {"text": "lift"}),
        segment(CAPTIONER, FIRST, (2.0, 3.0), {"text": "drop"}),
        segment(SEGMENTER, FIRST, (3.0, 4.0), {"text": ""}),
    ]
    append(ws, [PERSON, CAPTIONER, SEGMENTER], made)
    ws.sets.create_spans("parts", where="episode_id IS NOT NULL")
    report = export(ws, tmp_path / "out", "lerobot")
    assert report.task_sources == {"instruction": 2, "caption": 0, "none": 0, "segment": 1}
    assert report.segments["task_held_back"] == {"no text": 1, "ungraded": 1}
    instructions = [episode.instruction for episode in read_again(tmp_path / "out")]
    assert instructions == ["lift", "do thing 0", "do thing 0"]
    told = ws.export("parts", tmp_path / "lines", format="jsonl", segments=["ungraded"], quiet=True)
    assert told.segments["written"] == {"person": 1, "ungraded": 1}
    lines = [json.loads(line) for line in (tmp_path / "lines" / "segments.jsonl").read_text().splitlines()]
    assert [(line["task"], line["text"]) for line in lines] == [
        ("lift", "lift"), ("drop", "drop"), ("do thing 0", ""),
    ]  # fmt: skip
    assert [line["start_seconds"] for line in lines] == [1.0, 2.0, 3.0]
    assert [line["frames"][0]["stop_seconds"] for line in lines] == [2.0, 3.0, 4.0]
    none = export(ws, tmp_path / "none", "parquet", segments=["none"])
    assert none.task_sources == {"instruction": 3, "caption": 0, "none": 0}


def test_texts_inside_a_part_are_cut_to_it_and_keep_their_steps(ws: Workspace, tmp_path: Path) -> None:
    spans = ((0.0, 1.2), (1.2, 3.0), (3.0, 5.0))
    texts = ("reach", "lift", "drop")
    made = [segment(PERSON, FIRST, span, {"text": text}) for span, text in zip(spans, texts, strict=True)]
    append(ws, [PERSON], made)
    freeze(ws, [(FIRST, 0.55, 1.5)], "parts")
    export(ws, tmp_path / "out", "lerobot")
    rows = read_rows(tmp_path / "out")
    names = pq.read_table(tmp_path / "out" / "meta" / "subtasks.parquet").to_pydict()
    by_number = dict(zip(names["subtask_index"], names["subtask"], strict=True))
    assert [by_number[row["subtask_index"]] for row in rows] == ["reach"] * 13 + ["lift"] * 6
    (persistent,) = {json.dumps([[row["content"], row["timestamp"]] for row in own["language_persistent"]])
                     for own in rows}  # fmt: skip
    assert json.loads(persistent) == [["reach", 0.0], ["lift", pytest.approx(0.65)]]


BAD = [((FIRST, 9.0, 10.0), "not within its episode"), ((FIRST, 5.0, 9.0), "not within its episode"),
       ((FIRST, 1.0, 1.05), "fewer than two steps"), ((FIRST, 2.0, 2.0), "fewer than two steps")]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("format", some_by_day(["lerobot", "lerobot-v2.1", "rlds", "parquet", "jsonl"], 2))
def test_a_span_that_cannot_be_cut_costs_itself_alone(ws: Workspace, tmp_path: Path, format: str) -> None:
    freeze(ws, [*[span for span, _ in BAD], SPANS[1], ("f" * 16, 0.0, 1.0)])
    report = export(ws, tmp_path / "out", format)
    assert (report.episodes, report.frames, report.failed) == (1, 19, 5)
    lines = (tmp_path / "out" / "manifest.failed.jsonl").read_text().splitlines()
    failed = {(line["episode_id"], line["start_seconds"], line["stop_seconds"]): line["reason"]
              for line in map(json.loads, lines)}  # fmt: skip
    assert all(reason in failed[span] for span, reason in BAD)
    assert "does not have" in failed["f" * 16, 0.0, 1.0]
    with pytest.raises(MediaError, match=r"not every episode.*0000000000000000, 1 to 1.05 s: the span has"):
        export(ws, tmp_path / "strict", format, strict=True)


def test_the_loader_gives_the_steps_and_frames_of_the_spans(ws: Workspace) -> None:
    pytest.importorskip("torch")
    dataset = ws.torch_dataset("parts", delta_timestamps={"action": [-0.05, 0.0]})
    assert (len(dataset), dataset.num_episodes) == (204, 4)
    first = 0
    for number, (start, stop) in enumerate(STEPS):
        stored = ws.episodes[SPANS[number][0]]
        state = stored.trajectory.state
        assert state is not None
        for step in (start, stop - 1):
            item = dataset[first + step - start]
            assert (item["episode_index"], item["frame_index"]) == (number, step - start)
            np.testing.assert_array_equal(item["observation.state"], state.values[step])
            expected = stored.frames("front", [stored.trajectory.timestamps[step]])[0].transpose(2, 0, 1)
            np.testing.assert_array_equal(item["observation.images.front"], expected)
        assert dataset[first]["action_is_pad"].tolist() == [True, False], "not the step before the span"
        first += stop - start
