"""Which frames a model gets, and as which images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from annotators.base import Frames, make_episode_subject
from annotators.caption import compute_even_seconds, plan_frames
from annotators.caption.frame_plan import choose_camera
from ares.episode import Episode, MediaRef
from ares.errors import MediaError


def test_tiles_are_first_middle_and_last_frame_of_the_front_camera(episodes: dict[str, Episode]) -> None:
    from ares.media import all_frames

    episode = episodes["drawer-close_000"]
    seconds = plan_frames(make_episode_subject(episode), "tiles", "").by_camera
    assert list(seconds) == ["front"]
    frames = Frames(episode, [seconds])
    frames.decode()
    all_images = list(all_frames(episode.camera("front").media))
    shown = frames.at("front", seconds["front"])
    for image, index in zip(shown, (0, round((len(all_images) - 1) / 2), len(all_images) - 1), strict=True):
        assert np.array_equal(image, all_images[index])


def test_each_wanted_frame_is_decoded_once_and_shared(
    episodes: dict[str, Episode], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ares import media

    decoded_counts: list[int] = []
    frames_at = media.frames_at

    def counted(ref: MediaRef, seconds: Sequence[float]) -> NDArray[np.uint8]:
        decoded_counts.append(len(seconds))
        return frames_at(ref, seconds)

    monkeypatch.setattr(media, "frames_at", counted)
    episode = episodes["drawer-close_000"]
    frames = Frames(episode, [{"front": [0.0, 1.0]}, {"front": [1.0, 2.0]}, {"wrist": [0.0]}, {}])
    frames.decode()
    assert sorted(decoded_counts) == [1, 3]
    assert frames.at("front", [2.0, 0.0]).shape == (2, 192, 192, 3)


def test_a_camera_that_cannot_be_decoded_fails_those_who_ask_for_it(episodes: dict[str, Episode]) -> None:
    frames = Frames(episodes["gone"], [{"front": [0.0]}])
    frames.decode()
    with pytest.raises(MediaError):
        frames.at("front", [0.0])


def test_tiles_are_single_images(episodes: dict[str, Episode]) -> None:
    frames = np.arange(3 * 4 * 5 * 3, dtype=np.uint8).reshape(3, 4, 5, 3)
    tiles = plan_frames(make_episode_subject(episodes["drawer-close_000"]), "tiles", "")
    assert [image.shape for image in tiles.arrange(lambda camera, seconds: frames)] == [(4, 5, 3)] * 3
    assert tiles.legend().startswith("3 images in order of time, at 0.00 s, ")


def test_a_flagged_camera_is_not_chosen(episodes: dict[str, Episode]) -> None:
    episode = episodes["drawer-close_000"]
    front, wrist = episode.cameras
    black = replace(episode, cameras=(replace(front, flags=("black",)), wrist))
    camera = choose_camera(black, "")
    assert camera is not None
    assert camera.name == "wrist"
    assert choose_camera(episode, "roof") is None


def test_a_short_episode_gives_each_frame_once(make_spread: Callable[[int, int], list[float]]) -> None:
    assert make_spread(1, 3) == [0.0]
    assert len(make_spread(2, 8)) == 2


@pytest.fixture()
def make_spread(episodes: dict[str, Episode]) -> Callable[[int, int], list[float]]:
    camera = episodes["drawer-close_000"].cameras[0]
    return lambda frames, count: compute_even_seconds(
        replace(camera, media=replace(camera.media, num_frames=frames)), count
    )
