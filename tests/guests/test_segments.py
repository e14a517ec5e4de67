"""A package outside ARES brings segments and a judge of segments: they filter, search, show and export as ours do."""

from __future__ import annotations

import importlib
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from annotators.base import Options, Result, Subject, Work, new_annotation
from app.dashboard import cached_reads
from ares import media, registry
from ares.annotation import Annotation, Producer
from ares.episode import MediaRef
from ares.search import Facet
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares.workspace.summary import describe_episode
from tests.annotators.runs import annotate
from tests.guests.conftest import Ares

COLUMNS = {"brightness_change", "num_phases", "segment_labels", "segment_success"}


@pytest.fixture
def workspace(annotated: Path) -> Iterator[Workspace]:
    """The annotated workspace; this process does not have the guest."""
    assert not {"phases", "brightness"} & set(registry.annotators.names())
    opened = open_workspace(str(annotated), Settings())
    yield opened
    opened.close()


@pytest.fixture
def own_copy(ingested: Path, tmp_path: Path) -> Path:
    """A workspace without annotations that the test may write to."""
    return shutil.copytree(ingested, tmp_path / "ws")


def annotations_of(opened: Workspace, name: str) -> list[Annotation]:
    ids = sorted(opened.stores.tables.episodes.ids())
    return list(opened.stores.annotations.find_annotations(ids, [name]))


def counts(documents: Sequence[dict[str, Any]]) -> dict[str, tuple[int, int, int]]:
    return {
        document["annotator"]: (document["planned"], document["already"], document.get("failed", 0))
        for document in documents
    }


def brightness_change(opened: Workspace, annotation: Annotation) -> float:
    """The change of brightness between the frames at the seconds that an annotation names, decoded again."""
    reference = (
        opened.stores.tables.episodes.get_episode(annotation.episode_id).camera(annotation.camera).media
    )
    first, last = media.frames_at(reference, annotation.frames)
    return abs(float(np.mean(last)) - float(np.mean(first)))


def test_the_judge_gets_the_frames_of_each_segment_of_the_same_run(workspace: Workspace) -> None:
    segments = annotations_of(workspace, "phases")
    rulings = annotations_of(workspace, "brightness")
    assert len(rulings) == len(segments) > 2 * 24
    spans = {(row.episode_id, row.start_seconds, row.stop_seconds) for row in segments}
    for ruling in rulings:
        span = (ruling.start_seconds, ruling.stop_seconds)
        assert (ruling.subject_kind, (ruling.episode_id, *span) in spans) == ("segment", True)
        assert all(span[0] <= second < span[1] for second in ruling.frames) and len(ruling.frames) == 2
        expected = brightness_change(workspace, ruling)
        assert ruling.value["brightness_change"] == pytest.approx(expected, abs=1e-5)


def test_a_later_run_judges_as_the_same_run_does(
    workspace: Workspace, own_copy: Path, run_ares: Ares
) -> None:
    run_ares("annotate", "phases", workspace=own_copy)
    run_ares("annotate", "brightness", workspace=own_copy)
    later = open_workspace(str(own_copy), Settings())
    judged = [annotations_of(opened, "brightness") for opened in (workspace, later)]
    later.close()
    same_run, later_run = ({(row.annotation_id, str(row.value)) for row in rows} for rows in judged)
    assert same_run == later_run


@pytest.fixture
def guest_in_this_process(guest_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds the guest to the annotators of this process, for one test."""
    registry.annotators.names()  # they are read once, here without the guest's own entry points
    monkeypatch.syspath_prepend(str(guest_folder))
    registry.annotators.add("phases", importlib.import_module("guest_segments.segmenter").Segmenter)
    registry.annotators.add("brightness", importlib.import_module("guest_segments.judge").BrightnessJudge)


def add_reader_of_first_frames(rulings: Sequence[Annotation]) -> None:
    """Add the annotator `thumbnail`, which describes episodes by the first frame that each ruling names."""
    producer = Producer(annotator="thumbnail", version="1")
    seconds: dict[str, list[float]] = {}
    for ruling in rulings:
        seconds.setdefault(ruling.episode_id, []).append(ruling.frames[0])

    def select_frames(subject: Subject) -> dict[str, list[float]]:
        return {subject.episode.cameras[0].name: seconds[subject.id]}

    def process(works: Sequence[Work]) -> list[Result]:
        return [Result(annotations=[new_annotation(work, producer, {})]) for work in works]

    annotator = SimpleNamespace(producer=producer, process=process, select_frames=select_frames)
    registry.annotators.add("thumbnail", lambda options, stores: annotator)


def test_each_frame_is_decoded_once(
    workspace: Workspace, own_copy: Path, guest_in_this_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: Counter[tuple[MediaRef, float]] = Counter()
    frames_at = media.frames_at

    def counting(reference: MediaRef, seconds: Sequence[float]) -> Any:
        decoded.update((reference, second) for second in seconds)
        return frames_at(reference, seconds)

    rulings = annotations_of(workspace, "brightness")
    add_reader_of_first_frames(rulings)
    monkeypatch.setattr(media, "frames_at", counting)
    opened = open_workspace(str(own_copy), Settings())
    names = ["thumbnail", "phases", "brightness"]
    annotate(opened.stores, names, Options(settings=opened.settings), quiet=True)
    opened.close()
    assert set(decoded.values()) == {1}
    assert len(decoded) == sum(len(ruling.frames) for ruling in rulings) > 0


def test_a_second_run_finds_all_of_it_done(annotated: Path, run_ares: Ares) -> None:
    again = run_ares("annotate", "phases", "brightness", workspace=annotated)
    judged = counts(again)["brightness"][0]
    assert counts(again) == {"phases": (24, 24, 0), "brightness": (judged, judged, 0)}
    assert not any(document["kept"] for document in again)


def test_a_dry_run_counts_segments(annotated: Path, ingested: Path, run_ares: Ares) -> None:
    """Segments that are there are counted; those that the run would make are not known."""
    line = ("annotate", "phases", "brightness", "--dry-run")
    assert counts(run_ares(*line, workspace=ingested)) == {"phases": (24, 0, 0), "brightness": (0, 0, 0)}
    planned = counts(run_ares(*line, "--max-change", "9", workspace=annotated))
    quote = run_ares("annotate", "brightness", "--dry-run", "--max-change", "9", workspace=annotated)
    assert planned["phases"] == (24, 24, 0)
    assert planned["brightness"] == (quote["planned"], 0, 0) and quote["frames"] == 2 * quote["planned"]


def test_columns_of_segments_roll_up_to_columns_of_episodes(workspace: Workspace) -> None:
    rulings = annotations_of(workspace, "brightness")
    failures = {row.episode_id for row in rulings if not row.value["segment_success"]}
    assert workspace.stores.tables.episodes.ids("NOT segment_success") == failures
    assert 0 < len(failures) < 24
    labels = {
        row["episode_id"]: row["segment_labels"]
        for row in workspace.stores.tables.episodes.read_columns(
            ["episode_id", "segment_labels"], "num_phases = 3"
        ).to_pylist()
    }
    assert ["part 1", "part 2", "part 3"] in labels.values()
    segments = annotations_of(workspace, "phases")
    assert {key: len(value) for key, value in labels.items()} == {
        key: count for key, count in Counter(row.episode_id for row in segments).items() if count == 3
    }


def test_a_contradiction_with_the_source_is_a_conflict(workspace: Workspace) -> None:
    rows = workspace.stores.tables.episodes.read_columns(
        ["success", "segment_success", "conflict"]
    ).to_pylist()
    contradictions = [row for row in rows if row["success"] is not row["segment_success"]]
    assert {row["conflict"] for row in rows if row not in contradictions} == {None}
    assert {row["conflict"] for row in contradictions} == {
        "source: success, brightness: failure",
        "source: failure, brightness: success",
    }


def test_the_page_gets_a_facet_of_every_column(workspace: Workspace) -> None:
    cached_reads.use_workspace(workspace)
    facets: dict[str, Facet] = {facet.column: facet for facet in cached_reads.read_facets("")}
    assert facets.keys() >= COLUMNS
    failures = len(workspace.stores.tables.episodes.ids("NOT segment_success"))
    assert dict(facets["segment_success"].counts) == {True: 24 - failures, False: failures}
    assert {"open", "shut", "part 1"} <= {value for value, _ in facets["segment_labels"].counts}
    assert facets["segment_labels"].meaning == "Label of every segment, in order."
    assert sum(facets["num_phases"].histogram) == 24


def test_words_find_the_start_of_a_segment(annotated: Path, workspace: Workspace, run_ares: Ares) -> None:
    hits = run_ares("search", "shut", "--by", "captions", "--limit", "24", workspace=annotated)
    starts: dict[str, list[float]] = {}
    for segment in annotations_of(workspace, "phases"):
        if segment.value["text"] == "gripper shut":
            starts.setdefault(segment.episode_id, []).append(segment.start_seconds)
    assert {hit["episode_id"] for hit in hits} == starts.keys()
    assert all(hit["seconds"] in starts[hit["episode_id"]] for hit in hits)
    assert any(hit["seconds"] > 0 for hit in hits)
    failed = run_ares(
        *("search", "shut", "--by", "captions", "--where", "NOT segment_success"), workspace=annotated
    )
    failures = workspace.stores.tables.episodes.ids("NOT segment_success")
    assert {hit["episode_id"] for hit in failed} == starts.keys() & failures


def test_show_status_and_doctor_know_the_guest(annotated: Path, workspace: Workspace, run_ares: Ares) -> None:
    segment = annotations_of(workspace, "phases")[0]
    shown = run_ares("show", segment.episode_id, workspace=annotated)
    assert shown == json.loads(json.dumps(describe_episode(workspace.stores, segment.episode_id)))
    rows = [row for row in shown["annotations"] if row["annotation_id"] == segment.annotation_id]
    assert [(row["annotator"], row["value"]["text"]) for row in rows] == [("phases", segment.value["text"])]
    done = run_ares("status", workspace=annotated)["annotations"]
    assert {name: (done[name]["done"], done[name]["failed"]) for name in ("phases", "brightness")} == {
        "phases": (24, 0),
        "brightness": (24, 0),
    }
    assert run_ares("doctor", workspace=annotated) == []


def test_a_set_of_failures_is_exported_with_its_segments(
    annotated: Path, workspace: Workspace, run_ares: Ares, tmp_path: Path
) -> None:
    path = shutil.copytree(annotated, tmp_path / "ws")
    created = run_ares("set", "create", "failures", "--where", "NOT segment_success", workspace=path)
    failures = workspace.stores.tables.episodes.ids("NOT segment_success")
    assert created["episodes"] == len(failures)
    run_ares("export", "failures", str(tmp_path / "out"), "--format", "parquet", workspace=path)
    rows = pq.read_table(tmp_path / "out" / "segments.parquet").to_pylist()
    expected = {
        row.annotation_id: row.value
        for row in annotations_of(workspace, "phases")
        if row.episode_id in failures
    }
    assert {row["annotation_id"] for row in rows} == expected.keys()
    for row in rows:
        assert row["segment_labels"] == expected[row["annotation_id"]]["segment_labels"]
        assert row["segment_success"] is (row["brightness_change"] <= 1)
    kinds = Counter(pq.read_table(tmp_path / "out" / "annotations.parquet")["subject_kind"].to_pylist())
    assert kinds["segment"] == len(rows)


def test_columns_of_a_guest_arrive_in_lerobot(
    annotated: Path, workspace: Workspace, run_ares: Ares, tmp_path: Path
) -> None:
    path = shutil.copytree(annotated, tmp_path / "ws")
    run_ares("set", "create", "all", "--where", "dataset = 'metaworld_sawyer'", workspace=path)
    run_ares("export", "all", str(tmp_path / "out"), "--format", "lerobot", workspace=path)
    names = ["episode_id", *sorted(COLUMNS)]
    expected = {
        row["episode_id"]: row for row in workspace.stores.tables.episodes.read_columns(names).to_pylist()
    }
    (file,) = (tmp_path / "out").glob("meta/episodes/*/*.parquet")
    table = pq.read_table(file, columns=[f"ares/{name}" for name in names])
    rows = table.rename_columns(names).to_pylist()
    assert len(rows) == 12 and all(row == expected[row["episode_id"]] for row in rows)


def test_other_segments_take_the_place_of_the_first(own_copy: Path, run_ares: Ares) -> None:
    run_ares("annotate", "phases", "brightness", workspace=own_copy)
    both = run_ares("annotate", "phases", "brightness", "--parts", "2", workspace=own_copy)
    opened = open_workspace(str(own_copy), Settings())
    shown = opened.stores.tables.segments.read().to_pylist()
    undecided = opened.stores.tables.episodes.count("segment_success IS NULL")
    halves = opened.stores.tables.episodes.ids("array_has(segment_labels, 'part 2')")
    thirds = opened.stores.tables.episodes.ids("array_has(segment_labels, 'part 3')")
    opened.close()
    assert counts(both)["brightness"][0] == len(shown)
    assert undecided == 0 and len(halves) == 12 and not thirds
    assert {row["segment_success"] for row in shown} == {True, False}
    assert run_ares("doctor", workspace=own_copy) == []
