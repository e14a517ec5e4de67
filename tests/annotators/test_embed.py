"""The embed annotator: which seconds, which space, and one bad episode among good ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from annotators.base import Options, Result, Work
from annotators.embed import make_embed_annotator, sample_seconds
from ares.episode import Episode
from ares.errors import MediaError
from ares.workspace import Workspace


def _seconds_of_length(episode: Episode, seconds: float) -> list[float]:
    front = episode.cameras[0]
    frames = round(seconds * front.media.rate_hz)
    longer = replace(front, media=replace(front.media, num_frames=frames))
    return list(sample_seconds(replace(episode, cameras=(longer,)))["front"])


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
    annotator = make_embed_annotator(options, ws.stores)
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


def test_the_space_can_be_found_and_loaded(options: Options, ws: Workspace) -> None:
    annotator = make_embed_annotator(options, ws.stores)
    document = ws.stores.annotations.get_document("spaces", annotator.space)
    assert isinstance(document, dict)
    assert (document["encoder"], document["dim"]) == ("clip", 128)
    again = make_embed_annotator(options, ws.stores)
    assert again.maker.maker_id == annotator.maker.maker_id
    assert ws.stores.annotations.get_document("spaces", annotator.space) == document
