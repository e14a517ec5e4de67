"""Embed: the embedding pipeline from mp4 to vectors, against the embedder alone on frames that lie in memory."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Row, in_turn

if TYPE_CHECKING:
    from annotators.base import Annotator, Bundle, Work
    from ares.episode import Episode

_EPISODES = 24
_SECONDS = 16
_SIZE = 256


def embed_pipeline(model: str, called: str, rounds: int = 5) -> Iterator[Row]:
    """Benchmark 10: decode, resize and embed one frame a second of generated mp4s, in the stages of a real run.

    Args:
        model: open_clip spec; weights decide nothing here but the fingerprint.
        called: What the row calls it.
        rounds: Times that both sides are measured.
    """
    from annotators.base import Options
    from annotators.embed import embed
    from ares.jobs.flow import Stage, flow
    from ares.settings import from_environment

    store = SimpleNamespace(get=lambda *key: None, put=lambda *document: None)
    workspace: Any = SimpleNamespace(annotations=store)
    annotator = embed(Options(settings=from_environment({}), model=model), workspace)

    def run_model(batch: list[Bundle]) -> None:
        annotator.process([_work(one) for one in batch])

    def alone() -> None:
        for at in range(0, _EPISODES, annotator.batch):
            run_model(ready[at : at + annotator.batch])

    with tempfile.TemporaryDirectory() as folder:
        episodes = [_episode(Path(folder), number) for number in range(_EPISODES)]
        ready = [_bundle(episode, annotator) for episode in episodes]
        _decode(ready)
        frames = sum(len(seconds) for episode in episodes for seconds in annotator.wants(episode).values())
        stages = [
            Stage("read", _decode, batch=4, workers=8),
            Stage("embed", run_model, batch=annotator.batch),
        ]
        ours, peer = in_turn(
            lambda: flow((_bundle(episode, annotator) for episode in episodes), stages, lambda batch: None),
            alone,
            rounds,
        )
    name = f"embed {frames} frames of {_SIZE} px with {called}, {frames / ours:.0f} frames/s"
    peer_name = f"the embedder alone, resizing included, on decoded frames, {frames / peer:.0f} frames/s"
    yield Row(
        number=10, work=name, ours_seconds=ours, peer=peer_name, peer_seconds=peer, target="ratio <= 1.11"
    )


def _bundle(episode: Episode, annotator: Annotator) -> Bundle:
    from annotators.base import Bundle
    from annotators.frames import Frames

    return Bundle(episode, Frames(episode, [annotator.wants(episode)]))


def _work(one: Bundle) -> Work:
    from annotators.base import Work

    episode = one.episode
    return Work(episode=episode, subject=episode.episode_id, about=None, frames=one.frames, trajectory=None)


def _decode(batch: list[Bundle]) -> None:
    for one in batch:
        one.frames.decode()


def random_vit() -> Iterator[Row]:
    """Benchmark 10 with a ViT-B/32 of random weights, on a GPU when there is one: its speed is that of a real one."""
    import open_clip
    import torch
    from safetensors.torch import save_file

    with tempfile.TemporaryDirectory() as folder:
        config = {"model_cfg": open_clip.get_model_config("ViT-B-32"), "preprocess_cfg": {}}
        (Path(folder) / "open_clip_config.json").write_text(json.dumps(config))
        weights = open_clip.create_model("ViT-B-32").state_dict()
        save_file(weights, str(Path(folder) / "open_clip_model.safetensors"))
        device = "cuda" if torch.cuda.is_available() else "cpu"
        yield from embed_pipeline(f"local-dir:{folder}", f"ViT-B/32 of random weights, {device}")


def _episode(folder: Path, number: int) -> Episode:
    import numpy as np

    from ares.episode import Camera, Episode, episode_id
    from ares.media.encode import encode_mp4
    from ares.media.ref import MediaRef

    rate_hz, path = 20.0, folder / f"{number}.mp4"
    steps = int(_SECONDS * rate_hz)
    still = np.random.default_rng(number).integers(0, 255, (_SIZE, _SIZE, 3), np.uint8)
    frames = encode_mp4((np.roll(still, step, axis=1) for step in range(steps)), path, rate_hz)
    media = MediaRef(
        kind="mp4",
        uri=str(path),
        start_seconds=0.0,
        stop_seconds=_SECONDS,
        num_frames=frames,
        rate_hz=rate_hz,
    )
    camera = Camera(name="front", role="front", width=_SIZE, height=_SIZE, codec="h264", media=media)
    return Episode(
        episode_id=episode_id(format="video", dataset="bench", version="", split="", key=str(number)),
        format="video",
        dataset="bench",
        version="",
        split="",
        key=str(number),
        source=str(path),
        content_hash="",
        instruction="",
        instructions=(),
        robot="",
        num_steps=steps,
        rate_hz=rate_hz,
        rate_source="source",
        cameras=(camera,),
    )
