"""Trims at an export: still ends and interventions, and sets of spans, read back and compared with the source."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from ares import check
from ares.clock import time_tolerance
from ares.curation import CurationSet
from ares.episode import INTERVENTION, Record, Signal
from ares.errors import RequestError, SourceError
from ares.export import ExportReport, ExportRequest, TrimRequest, export_set, open_reader
from ares.export.base import ExportFailures
from ares.export.retime import cut_record
from ares.media import VideoEncoding, encode_mp4, frames_at
from ares.workspace import Workspace
from tests.ares.export.made_episodes import FRONT, make_record, make_set, read_again, read_json, read_manifest
from tests.ares.export.rlds.test_exporter import records, values
from tests.ares.export.segments import PERSON, append, segment
from tests.ares.media.written_videos import span_ref

STEPS, RATE = 107, 20.0
# Steps that stand still at the start and at the end of each episode; the last never moves.
STILL = ((30, 41), (0, 0), (60, 2), (3, 25), (STEPS, STEPS))
# What stays of the first four with half a second of stillness.
KEPT = ((20, 76), (0, 107), (50, 107), (0, 92))
IDLE = TrimRequest(idle_seconds=0.5)


def moving(record: Record, still: tuple[int, int]) -> Record:
    """The record with an arm that stands still at the start and the end, with a little noise."""
    start, stop = still
    steps = record.episode.num_steps
    numbers = np.arange(steps)
    course = np.where(numbers < start, 0, np.where(numbers < steps - stop, 0.5 + numbers / steps, 2))
    noise = np.random.default_rng(start).normal(size=(steps, 2)) * 1e-5
    arm = np.stack([course, np.sin(course)], axis=1) + noise
    state, action = (Signal(own.astype(np.float32), ("joint_1", "joint_2")) for own in (arm, arm * 1.01))
    episode = replace(record.episode, state_names=state.names, action_names=action.names)
    return replace(record, episode=episode, trajectory=replace(record.trajectory, state=state, action=action))


@pytest.fixture
def filled(ws: Workspace) -> Workspace:
    """Five episodes of one H.264 video, which succeeded, and the set "made"."""
    own = [
        make_record(number, success=True, success_source="x", reward=False) for number in range(len(STILL))
    ]
    make_set(ws, [moving(record, still) for record, still in zip(own, STILL, strict=True)])
    return ws


def export(filled: Workspace, folder: Path, format: str, trim: TrimRequest, **options: Any) -> ExportReport:
    return filled.export("made", folder, format=format, trim=trim, quiet=True, **options)


def stored_state(filled: Workspace, number: int) -> NDArray[np.float32]:
    state = filled.episodes[f"{number:016x}"].trajectory.state
    assert state is not None
    values: NDArray[np.float32] = state.values
    return values


def make_spans(ws: Workspace, rows: Iterable[tuple[str, float, float]]) -> CurationSet:
    """A set of spans, each of which a person has named."""
    named = [segment(PERSON, id, (start, stop), {"text": "part"}) for id, start, stop in rows]
    append(ws, [PERSON], named)
    return ws.sets.create_spans("parts", where="text = 'part'")


def test_still_starts_and_ends_are_cut_and_the_frames_of_the_rest_are_those_of_the_source(
    filled: Workspace, tmp_path: Path
) -> None:
    report = export(filled, tmp_path / "out", "lerobot", IDLE)
    assert (report.episodes, report.frames, report.failed) == (4, 56 + 107 + 57 + 92, 0)
    assert (report.encoded_frames, report.reencoded) == (0, {})
    assert report.left_out[0] == "1 episode: it stands still from start to end"
    assert report.changed[0] == {
        "reason": "steps were cut: starts and ends that stand still longer than 0.5 s",
        "episodes": 3,
        "steps_before": 321,
        "steps_after": 205,
    }
    lines = read_manifest(tmp_path / "out")
    assert [tuple(line["source_steps"]) for line in lines] == list(KEPT)
    assert [line["steps"] for line in lines] == [56, 107, 57, 92]
    for line, episode in zip(lines, read_again(tmp_path / "out"), strict=True):
        stored, steps = filled.episodes[line["episode_id"]], slice(*line["source_steps"])
        np.testing.assert_array_equal(episode.trajectory.state.values, stored.trajectory.state.values[steps])
        np.testing.assert_array_equal(episode.trajectory.timestamps, np.arange(line["steps"]) / RATE)
        expected = stored.frames("front", stored.trajectory.timestamps[steps])
        np.testing.assert_array_equal(episode.frames("front", episode.trajectory.timestamps), expected)
        assert episode.success is True, "what is cut is no part of the attempt"


@pytest.mark.slow
def test_statistics_are_those_of_the_kept_steps_and_no_check_finds_stillness(
    filled: Workspace, tmp_path: Path
) -> None:
    export(filled, tmp_path / "out", "lerobot", IDLE)
    stats = read_json(tmp_path / "out" / "meta" / "stats.json")["action"]
    ids = [line["episode_id"] for line in read_manifest(tmp_path / "out")]
    rows = [
        filled.episodes[id].trajectory.action.values[slice(*kept)] for id, kept in zip(ids, KEPT, strict=True)
    ]
    every = np.concatenate(rows).astype(np.float64)
    assert stats["count"] == [len(every)]
    np.testing.assert_allclose(stats["mean"], every.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(stats["std"], every.std(axis=0), rtol=1e-12)
    np.testing.assert_array_equal([stats["min"], stats["max"]], [every.min(axis=0), every.max(axis=0)])
    filled.export("made", tmp_path / "whole", format="lerobot", quiet=True)
    counted = [check(str(tmp_path / name)).datasets[0].counts for name in ("whole", "out")]
    codes = [{count.code for count in counts} for counts in counted]
    assert codes[0] >= {"A010", "A011"} and not codes[1] & {"A010", "A011"}


@pytest.mark.slow
def test_any_parts_of_a_video_with_few_keyframes_are_copied(ws: Workspace, tmp_path: Path) -> None:
    rng, rate = np.random.default_rng(3), 30000 / 1001
    noise = rng.integers(0, 255, (4, 64, 64, 3), dtype=np.uint8)
    pictures = [np.roll(noise[number % 4], number, axis=1) for number in range(90)]
    encode_mp4(pictures, tmp_path / "long.mp4", rate, VideoEncoding("libsvtav1", {}, keyframe_every=60))
    made = []
    for number, first in enumerate((0, 40)):  # two episodes of one file, the second from between keyframes
        media = span_ref(tmp_path / "long.mp4", 40, rate, first / rate)
        camera = replace(FRONT, width=64, height=64, codec="av1", media=media)
        made.append(make_record(number, 40, cameras=(camera,), rate_hz=rate))
    make_set(ws, made)
    edges = [sorted(rng.choice(41, 2, replace=False)) for _ in range(8)]
    parts = {(f"{k % 2:016x}", int(a), int(b)) for k, (a, b) in enumerate(edges) if b - a > 1}
    spans = make_spans(ws, ((id, first / rate, stop / rate) for id, first, stop in sorted(parts)))
    report = ws.export(spans, tmp_path / "out", format="lerobot", quiet=True)
    assert (report.episodes, report.encoded_frames) == (len(parts), 0)
    lines = read_manifest(tmp_path / "out")
    assert {(line["episode_id"], *line["source_steps"]) for line in lines} == parts
    for line, episode in zip(lines, read_again(tmp_path / "out"), strict=True):
        (camera,) = ws.stores.tables.episodes.get_episode(line["episode_id"]).cameras
        expected = frames_at(camera.media, list(np.arange(*line["source_steps"]) / rate))
        assert len({frame.tobytes() for frame in expected}) == len(expected)
        np.testing.assert_array_equal(episode.frames("front", episode.trajectory.timestamps), expected)


def test_spans_at_any_rate_keep_the_steps_whose_stamps_lie_in_them(ws: Workspace, tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    rates = [0.3, 1, 23.976, 30, 30000 / 1001, 50, 240, 1000, *rng.uniform(0.1, 500, 52)]
    own = [make_record(k, int(rng.integers(2, 90)), rate_hz=rate, cameras=()) for k, rate in enumerate(rates)]
    make_set(ws, own)
    rows, expected = [], set()
    for record in own:
        id, rate, count = record.episode.episode_id, record.episode.rate_hz, record.episode.num_steps
        for start, stop in rng.uniform(0, count / rate, (6, 2)):
            start, stop = min(start, stop), max(start, stop)
            if rng.random() < 0.5:  # exactly at steps, as people and sources name them
                start, stop = round(start * rate) / rate, round(stop * rate) / rate
            if stop > start:
                rows.append((id, start, stop))
                stamps, tolerance = np.arange(count) / rate, time_tolerance(rate)
                inside = np.flatnonzero((stamps >= start - tolerance) & (stamps < stop - tolerance))
                expected |= {(id, inside[0], inside[-1] + 1)} if len(inside) > 1 else set()
    request = ExportRequest(set=make_spans(ws, rows), destination=tmp_path / "x", format="lerobot")
    found = set()
    for batch in open_reader(request, ws.stores).member_batches(ExportFailures(tmp_path, strict=True)):
        for _, episode, span in batch.members:
            assert span is not None
            with suppress(SourceError):  # of one step or none
                kept = cut_record(episode, batch.trajectories[episode.episode_id], span).kept
                found.add((episode.episode_id, kept.start, kept.stop))
    assert found == expected and len(expected) > 200


def test_progress_of_an_export_in_parts_ends_at_the_number_of_episodes(ws: Workspace, tmp_path: Path) -> None:
    """Two episodes of which one has five parts: no bar passes its end."""
    flags = [np.arange(STEPS) // 10 % 2 == 1, np.arange(STEPS) < 20]
    own = []
    for number, flag in enumerate(flags):
        record = make_record(number)
        extra = {INTERVENTION: Signal(flag.astype(np.float32)[:, None], (INTERVENTION,))}
        own.append(replace(record, trajectory=replace(record.trajectory, extra=extra)))
    make_set(ws, own)
    trim = TrimRequest(interventions="only")
    for format in ("lerobot", "parquet"):
        destination, counts = tmp_path / format, list[int]()
        request = ExportRequest(set=ws.sets["made"], destination=destination, format=format, trim=trim)
        assert export_set(request, ws.stores, counts.append).episodes == 6
        assert sum(counts) == 2 and min(counts) >= 0


def test_rlds_and_parquet_have_the_kept_steps_and_the_outcome(filled: Workspace, tmp_path: Path) -> None:
    export(filled, tmp_path / "rlds", "rlds", IDLE)
    (folder,) = (path.parent for path in (tmp_path / "rlds").rglob("features.json"))
    made = list(records(folder))
    for number, (record, kept) in enumerate(zip(made, KEPT, strict=True)):
        state: NDArray[np.float32] = np.array(values(record, "steps/observation/state"), np.float32)
        expected = stored_state(filled, number)[slice(*kept)]
        np.testing.assert_array_equal(state.reshape(-1, 2), expected)
        assert values(record, "steps/is_terminal")[-1] == 1 == values(record, "episode_metadata/success")[0]
        span = json.loads(values(record, "episode_metadata/ares_export")[0])["span"]
        assert (span["source_steps"], span["steps"], span["annotation_id"]) == (
            list(kept),
            len(state) // 2,
            "",
        )
    export(filled, tmp_path / "table", "parquet", IDLE)
    rows = pq.read_table(tmp_path / "table" / "episodes.parquet").to_pylist()
    assert [row["num_steps"] for row in rows] == [56, 107, 57, 92]
    assert [(row["success"], row["annotation_id"]) for row in rows] == [(True, "")] * 4
    assert pq.read_table(tmp_path / "table" / "steps.parquet").num_rows == 312


def test_a_set_of_spans_is_not_trimmed(filled: Workspace, tmp_path: Path) -> None:
    spans = make_spans(filled, [(f"{2:016x}", 2.0, 4.0)])
    with pytest.raises(RequestError, match="a set of spans is not trimmed"):
        filled.export(spans, tmp_path / "no", format="lerobot", trim=IDLE, quiet=True)


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "a trim cuts still ends or goes by interventions: got neither of"),
    ({"idle_seconds": 0.5, "interventions": "only"}, "got both of idle_seconds and interventions"),
    ({"interventions": "all"}, "interventions are 'only' or 'without': got 'all'"),
    ({"idle_seconds": -1.0}, "0 s or more.*got -1"),
]


def test_a_wrong_trim_is_one_line() -> None:
    for fields, says in BAD:
        with pytest.raises(RequestError, match=says):
            TrimRequest(**fields)
