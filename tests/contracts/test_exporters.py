"""What every installed exporter promises, ours and guests': every episode accounted for, a folder whole or absent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ares.annotation import Annotation, Producer
from ares.curation import CurationSet
from ares.errors import AresError, RequestError
from ares.export import ExportReport, ExportRequest, export_set
from ares.registry import exporters
from ares.workspace import Workspace


@pytest.fixture(params=exporters.names())
def exporter(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def everything(sample_workspace: Workspace) -> CurationSet:
    return sample_workspace.sets["all"]


def _export(
    exporter: str,
    workspace: Workspace,
    selection: CurationSet,
    folder: Path,
    progress: Callable[[int], None] = lambda episodes: None,
) -> ExportReport:
    request = ExportRequest(set=selection, destination=folder, format=exporter)
    return export_set(request, workspace.stores, progress)


def test_every_episode_of_the_set_is_accounted_for_and_progress_adds_up_to_it(
    exporter: str, sample_workspace: Workspace, everything: CurationSet, tmp_path: Path
) -> None:
    steps: list[int] = []
    report = _export(exporter, sample_workspace, everything, tmp_path / "out", steps.append)
    assert report.episodes + report.failed == sum(steps) == 24
    episodes = sample_workspace.stores.tables.episodes.read()
    assert report.frames == sum(episode.num_steps for episode in episodes)
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_manifest_names_the_producers_of_all_annotations_of_the_set(
    exporter: str, tmp_path: Path, video_ws: Workspace
) -> None:
    """Each in full; and no producer that annotated other episodes alone."""
    log, ids = video_ws.stores.annotations, sorted(video_ws.stores.tables.episodes.ids())[:3]
    producers = [Producer(annotator="words", version=version, model="m") for version in ("1", "2", "3")]
    for producer, episode_id in zip(producers, ids, strict=True):
        log.add_producer(producer)
        log.append([_annotation(producer, episode_id)])
    selection = video_ws.sets.create("two", ids[:2], {})
    _export(exporter, video_ws, selection, tmp_path / "out")
    used = {annotation.maker_id for annotation in log.find_annotations(ids[:2])}
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    written = manifest["makers"]
    # When it was made is told elsewhere: the same set gives the same manifest.
    assert manifest["set"]["name"] == "two" and "created" not in manifest["set"]
    assert manifest["rubrics"] == {}  # none of them judges by one
    assert written.keys() == used >= {producer.maker_id for producer in producers[:2]}
    assert producers[2].maker_id not in written
    assert [written[producer.maker_id]["version"] for producer in producers[:2]] == ["1", "2"]


def _annotation(producer: Producer, episode_id: str) -> Annotation:
    return Annotation(
        episode_id=episode_id,
        name=producer.annotator,
        value={"words": 1},
        maker_id=producer.maker_id,
        subject=episode_id,
        start_seconds=0.0,
        stop_seconds=1.0,
        created="2026-11-01T00:00:00+00:00",
    )


def test_a_folder_with_something_in_it_is_refused_and_stays(
    exporter: str, sample_workspace: Workspace, everything: CurationSet, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep me")
    with pytest.raises(RequestError):
        _export(exporter, sample_workspace, everything, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_an_export_that_fails_leaves_no_folder(
    exporter: str, sample_workspace: Workspace, everything: CurationSet, tmp_path: Path
) -> None:
    def stop(episodes: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _export(exporter, sample_workspace, everything, tmp_path / "out", stop)
    assert not (tmp_path / "out").exists()


def test_a_set_whose_episodes_are_gone_is_no_silent_success(
    exporter: str, sample_workspace: Workspace, tmp_path: Path
) -> None:
    gone = sample_workspace.sets.create("gone", ["0" * 16], {})
    try:
        report = _export(exporter, sample_workspace, gone, tmp_path / "out")
    except AresError as error:
        assert "0" * 16 in str(error)
        return
    assert report.failed == 1 and report.episodes == 0
