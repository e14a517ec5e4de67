"""The embed annotator: which seconds, which space, and one bad episode among good ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ares.doctor import run_checks
from ares.episode import Episode, Record, Trajectory
from ares.errors import MediaError, RequestError
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import Options, Result, Work
from ares_annotators.embed import EmbedAnnotator, parse_frame_sampling
from tests.annotators.runs import annotate, estimate_cost


def _seconds_of_length(episode: Episode, seconds: float, sampling: str = "auto") -> list[float]:
    front = episode.cameras[0]
    frames = round(seconds * front.media.rate_hz)
    longer = replace(front, media=replace(front.media, num_frames=frames))
    return list(parse_frame_sampling(sampling).seconds(replace(episode, cameras=(longer,)))["front"])


def test_one_second_apart_but_at_least_four_and_at_most_240(episodes: dict[str, Episode]) -> None:
    episode = episodes["drawer-close_000"]
    assert len(_seconds_of_length(episode, 0.5)) == 4
    assert len(_seconds_of_length(episode, 30)) == 30
    hour = _seconds_of_length(episode, 3600)
    assert len(hour) == 240
    assert hour == sorted(hour)
    assert 0 <= hour[0] < 15 and 3585 < hour[-1] < 3600


def test_vectors_of_a_batch_go_to_their_own_frames(
    options: Options, ws: Workspace, episodes: dict[str, Episode], work_for: Callable[..., Work]
) -> None:
    annotator = EmbedAnnotator(options, ws.stores)
    names = ("drawer-close_000", "gone", "basketball_009")
    works = [work_for(episodes[name], [annotator]) for name in names]
    drawer, gone, basketball = annotator.process(works)
    assert isinstance(gone, MediaError)
    assert isinstance(drawer, Result) and isinstance(basketball, Result)
    (single,) = annotator.process([works[2]])
    assert isinstance(single, Result)
    for actual, expected in zip(basketball.vectors, single.vectors, strict=True):
        assert (actual.camera, actual.episode_id) == (expected.camera, expected.episode_id)
        assert np.allclose(actual.vectors, expected.vectors, atol=1e-5)
        assert actual.vectors.shape == (len(actual.seconds), 128)
    assert [frames.camera for frames in drawer.vectors] == ["front", "wrist"]
    frames = sum(len(camera.seconds) for camera in drawer.vectors)
    assert drawer.annotations[0].value == {"frames": frames, "space": annotator.space}


def test_an_episode_without_a_camera_has_nothing_to_embed_and_is_counted_so(
    tmp_path: Path, demo_samples: Path
) -> None:
    settings = Settings(embed_model="hash:16")
    with open_workspace(str(tmp_path / "w"), settings) as opened:
        opened.ingest(demo_samples / "video", limit=2, media="none", quiet=True)
        records = list[Record]()
        for number, own in enumerate(opened.stores.tables.episodes.read()):
            trajectory = Trajectory(timestamps=np.arange(own.num_steps) / own.rate_hz)
            bare = replace(own, episode_id=f"{number:016x}", cameras=())
            records.append(Record(episode=bare, trajectory=trajectory))
        opened.remove(where="true")
        opened.stores.tables.episodes.add(records)
        (report,) = annotate(opened.stores, ["embed"], Options(settings=settings), quiet=True)
        assert (report.planned, report.kept, report.failed) == (2, 2, 0)
        assert [(entry.reason, entry.count) for entry in report.warnings] == [
            ("nothing to embed: the episode has no camera", 2)
        ]
        assert run_checks(opened.stores) == []


def test_the_space_can_be_found_and_loaded(options: Options, ws: Workspace) -> None:
    annotator = EmbedAnnotator(options, ws.stores)
    annotator.preflight([annotator.producer])
    document = ws.stores.annotations.get_document("spaces", annotator.space)
    assert isinstance(document, dict)
    assert (document["encoder"], document["dim"]) == ("clip", 128)
    again = EmbedAnnotator(options, ws.stores)
    again.preflight([again.producer])
    assert again.producer.maker_id == annotator.producer.maker_id
    assert ws.stores.annotations.get_document("spaces", annotator.space) == document


@pytest.mark.parametrize("load_models", [True, False])
def test_making_the_annotator_registers_no_space(options: Options, ws: Workspace, load_models: bool) -> None:
    EmbedAnnotator(replace(options, model="hash:24", load_models=load_models), ws.stores)
    assert ws.stores.annotations.get_document("spaces", "hash-24") is None


def test_a_run_registers_its_space_and_a_quote_writes_nothing(tmp_path: Path, demo_samples: Path) -> None:
    settings = Settings(embed_model="hash:24")
    with open_workspace(str(tmp_path / "w"), settings) as opened:
        opened.ingest(demo_samples / "video", limit=1, quiet=True)
        log = opened.stores.annotations
        before = log.position()
        (quote,) = estimate_cost(opened.stores, ["embed"], Options(settings=settings))
        assert quote.planned == 1
        assert log.position() == before and not dict(log.find_documents("spaces"))
        annotate(opened.stores, ["embed"], Options(settings=settings), quiet=True)
        assert list(dict(log.find_documents("spaces"))) == ["hash-24"]


@pytest.mark.slow
def test_a_model_that_moved_is_found_where_it_is_though_nothing_is_left_to_embed(
    tmp_path: Path, demo_samples: Path, reference_models: Path
) -> None:
    before, after = tmp_path / "here" / "clip", tmp_path / "there" / "clip"
    shutil.copytree(reference_models / "reference-clip", before)
    with open_workspace(str(tmp_path / "w"), Settings()) as opened:
        opened.ingest(demo_samples / "video", limit=1, quiet=True)
        annotate(
            opened.stores,
            ["embed"],
            Options(settings=Settings(), model=f"local-dir:{before}", device="cpu"),
            quiet=True,
        )
        before.parent.rename(after.parent)
        annotate(
            opened.stores,
            ["embed"],
            Options(settings=Settings(), model=f"local-dir:{after}", device="cpu"),
            quiet=True,
        )
        spaces = dict(opened.stores.annotations.find_documents("spaces"))
        assert [space["model"] for space in spaces.values() if isinstance(space, dict)] == [
            f"local-dir:{after}"
        ], spaces


def test_frames_by_rate(episodes: dict[str, Episode]) -> None:
    episode = episodes["drawer-close_000"]  # of 20 frames a second
    assert len(_seconds_of_length(episode, 30, "rate:2.5")) == 75
    assert len(_seconds_of_length(episode, 0.01, "rate:1")) == 1
    # Frames of a camera are in memory together: a long episode is spread over the most that there may be.
    hour = _seconds_of_length(episode, 3600, "rate:5")
    assert len(hour) == 1000 and hour == sorted(hour) and hour[-1] > 3590


@pytest.mark.parametrize("text", ["", "rate", "rate:0", "rate:x", "every:2", "change:0.1", "auto:1"])
def test_a_sampling_that_cannot_be_read(text: str) -> None:
    with pytest.raises(RequestError, match="there are: auto, and rate:HZ"):
        parse_frame_sampling(text)


def test_another_rate_is_another_producer_with_more_vectors(
    options: Options, ws: Workspace, episodes: dict[str, Episode], work_for: Callable[..., Work]
) -> None:
    usual = EmbedAnnotator(options, ws.stores)
    dense = EmbedAnnotator(replace(options, values={"sample": "rate:4"}), ws.stores)
    assert usual.producer.maker_id != dense.producer.maker_id
    episode, counts = episodes["drawer-close_000"], []
    for made in (usual, dense):
        (result,) = made.process([work_for(episode, [made])])
        assert isinstance(result, Result)
        counts.append(sum(len(camera.seconds) for camera in result.vectors))
        assert result.annotations[0].value["frames"] == counts[-1]
    assert counts[0] < counts[1]
