"""The embed annotator: which seconds, which space, and one bad episode among good ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from annotators.base import Options, Result, Work
from annotators.embed import EmbedAnnotator, parse_frame_sampling
from ares.doctor import run_checks
from ares.episode import Episode, Record, Trajectory
from ares.errors import MediaError, RequestError
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace


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
    from tests.annotators.runs import annotate

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
    document = ws.stores.annotations.get_document("spaces", annotator.space)
    assert isinstance(document, dict)
    assert (document["encoder"], document["dim"]) == ("clip", 128)
    again = EmbedAnnotator(options, ws.stores)
    assert again.maker.maker_id == annotator.maker.maker_id
    assert ws.stores.annotations.get_document("spaces", annotator.space) == document


def test_frames_by_rate_and_by_number(episodes: dict[str, Episode]) -> None:
    episode = episodes["drawer-close_000"]  # of 20 frames a second
    assert len(_seconds_of_length(episode, 30, "rate:2.5")) == 75
    every = _seconds_of_length(episode, 3, "every:6")
    assert np.allclose(every, np.arange(0.025, 3, 0.3)) and len(every) == 10
    assert len(_seconds_of_length(episode, 0.01, "rate:1")) == 1
    # Frames of a camera are in memory together: a long episode is spread over the most that there may be.
    for sampling in ("rate:5", "every:1"):
        hour = _seconds_of_length(episode, 3600, sampling)
        assert len(hour) == 1000 and hour == sorted(hour) and hour[-1] > 3590


@pytest.mark.parametrize(
    "text", ["", "rate", "rate:0", "rate:x", "every:1.5", "every:0", "change:2", "auto:1"]
)
def test_a_sampling_that_cannot_be_read(text: str) -> None:
    with pytest.raises(RequestError, match="there are: auto, rate:HZ, every:K"):
        parse_frame_sampling(text)


def test_only_frames_that_changed_are_kept() -> None:
    angles = np.asarray([0.0, 0.1, 0.2, 0.6, 0.7, 1.5, 1.4])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    # 1 - cos(0.6) is 0.17, and 1 - cos(0.2) is 0.02.
    assert parse_frame_sampling("change:0.1").kept_rows(vectors).tolist() == [0, 3, 5]
    assert parse_frame_sampling("rate:1").kept_rows(vectors).tolist() == list(range(7))


def test_vectors_that_changed_go_with_their_seconds(
    options: Options, ws: Workspace, episodes: dict[str, Episode], work_for: Callable[..., Work]
) -> None:
    usual = EmbedAnnotator(options, ws.stores)
    changing = EmbedAnnotator(replace(options, values={"sample": "change:0.02"}), ws.stores)
    dense = EmbedAnnotator(replace(options, values={"sample": "rate:4"}), ws.stores)
    assert len({usual.maker.maker_id, changing.maker.maker_id, dense.maker.maker_id}) == 3
    episode = episodes["drawer-close_000"]
    results = [made.process([work_for(episode, [made])])[0] for made in (changing, dense)]
    kept, all_frames = results
    assert isinstance(kept, Result) and isinstance(all_frames, Result)
    count = sum(len(camera.seconds) for camera in kept.vectors)
    assert 2 <= count < sum(len(camera.seconds) for camera in all_frames.vectors)
    assert kept.annotations[0].value["frames"] == count
    for camera, dense_camera in zip(kept.vectors, all_frames.vectors, strict=True):
        rows = np.searchsorted(dense_camera.seconds, camera.seconds)
        assert np.allclose(camera.vectors, dense_camera.vectors[rows], atol=1e-5)
        assert (np.sum(camera.vectors[1:] * camera.vectors[:-1], axis=1) <= 0.98 + 1e-6).all()
