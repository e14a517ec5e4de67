"""Plants faults into the metadata of an episode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from ares.episode import Episode

MetadataPlanter = Callable[["Episode", "np.random.Generator"], "Episode | None"]
_PLACEHOLDERS = ("none", "null", "N/A", "unknown", "test", "123", "...", "todo")
_LOST_FRAMES = 3


def _single_step(episode: Episode, rng: np.random.Generator) -> Episode:
    return replace(episode, num_steps=1)


def _lost_frames(episode: Episode, rng: np.random.Generator) -> Episode | None:
    """Three frames fewer in a random camera that has a frame for each step."""
    if not episode.cameras:
        return None
    number = int(rng.integers(len(episode.cameras)))
    camera = episode.cameras[number]
    media = replace(camera.media, num_frames=max(1, camera.media.num_frames - _LOST_FRAMES))
    cameras = [*episode.cameras]
    cameras[number] = replace(camera, media=media)
    return replace(episode, cameras=tuple(cameras))


def _no_instruction(episode: Episode, rng: np.random.Generator) -> Episode:
    return replace(episode, instruction="")


def _placeholder(episode: Episode, rng: np.random.Generator) -> Episode:
    return replace(episode, instruction=str(rng.choice(_PLACEHOLDERS)))


METADATA_PLANTERS: Mapping[str, MetadataPlanter] = {
    "A051": _single_step,
    "A052": _lost_frames,
    "A053": _no_instruction,
    "A054": _placeholder,
}
