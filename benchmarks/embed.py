"""Benchmark 10: the embedding pipeline from mp4 to vectors, against the embedder alone on frames in memory."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from benchmarks.timing import BenchmarkResult, time_alternately

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from annotators.base import Annotator, Work
    from annotators.runner import EpisodeBundle
    from ares.episode import Episode

_EPISODES = 24
_SECONDS = 16
_SIZE = 256


def benchmark_embedding(model: str, model_name: str, rounds: int = 5) -> Iterator[BenchmarkResult]:
    """Decode, resize and embed one frame per second of generated mp4s, in the stages of a real run.

    Args:
        model: open_clip spec; its weights change only the fingerprint, not the speed.
        model_name: Name of the model in the result.
        rounds: How often both sides are measured.
    """
    from annotators.base import Options, episode_subject
    from annotators.embed import make_embed_annotator
    from ares.jobs import PipelineStage, run_pipeline
    from ares.settings import settings_from_environment

    log = SimpleNamespace(get_document=lambda *key: None, put_documents=lambda *documents: None)
    stores: Any = SimpleNamespace(annotations=log)
    annotator = make_embed_annotator(Options(settings=settings_from_environment({}), model=model), stores)

    def run_model(batch: list[EpisodeBundle]) -> None:
        annotator.process([_make_work(bundle) for bundle in batch])

    def run_model_alone() -> None:
        for start in range(0, _EPISODES, annotator.batch_size):
            run_model(decoded_bundles[start : start + annotator.batch_size])

    with tempfile.TemporaryDirectory() as folder:
        episodes = [_make_episode(Path(folder), number) for number in range(_EPISODES)]
        decoded_bundles = [_make_bundle(episode, annotator) for episode in episodes]
        _decode_batch(decoded_bundles)
        frames = sum(
            len(seconds)
            for episode in episodes
            for seconds in annotator.select_frames(episode_subject(episode)).values()
        )
        stages = [
            PipelineStage("read", _decode_batch, batch_size=4, workers=8),
            PipelineStage("embed", run_model, batch_size=annotator.batch_size),
        ]
        ours, peer = time_alternately(
            lambda: run_pipeline(
                (_make_bundle(episode, annotator) for episode in episodes), stages, lambda batch: None
            ),
            run_model_alone,
            rounds,
        )
    name = f"embed {frames} frames of {_SIZE} px with {model_name}, {frames / ours:.0f} frames/s"
    peer_name = f"the embedder alone, resizing included, on decoded frames, {frames / peer:.0f} frames/s"
    yield BenchmarkResult(
        number=10, work=name, ours_seconds=ours, peer=peer_name, peer_seconds=peer, target="ratio <= 1.11"
    )


def _make_bundle(episode: Episode, annotator: Annotator) -> EpisodeBundle:
    from annotators.base import episode_subject
    from annotators.frames import Frames
    from annotators.runner import EpisodeBundle

    return EpisodeBundle(episode, Frames(episode, [annotator.select_frames(episode_subject(episode))]))


def _make_work(bundle: EpisodeBundle) -> Work:
    from annotators.base import Work, episode_subject

    return Work(subject=episode_subject(bundle.episode), frames=bundle.frames, trajectory=None)


def _decode_batch(batch: list[EpisodeBundle]) -> None:
    for bundle in batch:
        bundle.frames.decode()


def benchmark_random_vit() -> Iterator[BenchmarkResult]:
    """Benchmark 10 with a ViT-B/32 of random weights, which is as fast as a trained one; on a GPU where available."""
    import torch

    with tempfile.TemporaryDirectory() as folder:
        write_random_vit(Path(folder))
        device = "cuda" if torch.cuda.is_available() else "cpu"
        yield from benchmark_embedding(f"local-dir:{folder}", f"ViT-B/32 of random weights, {device}")


def write_random_vit(folder: Path) -> None:
    """Write a ViT-B/32 of random weights, as `local-dir:FOLDER` loads it."""
    import open_clip
    from safetensors.torch import save_file

    config = {"model_cfg": open_clip.get_model_config("ViT-B-32"), "preprocess_cfg": {}}
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    save_file(open_clip.create_model("ViT-B-32").state_dict(), str(folder / "open_clip_model.safetensors"))


def texture(number: int) -> NDArray[np.uint8]:
    """(256, 256, 3) RGB of smooth colours, other ones for each number: noise takes seven times the bytes when coded."""
    import cv2
    import numpy as np

    coarse = np.random.default_rng(number).integers(0, 255, (16, 16, 3), np.uint8)
    return np.asarray(cv2.resize(coarse, (_SIZE, _SIZE), interpolation=cv2.INTER_CUBIC), np.uint8)


def _make_episode(folder: Path, number: int) -> Episode:
    import numpy as np

    from ares.episode import Camera, Episode, MediaRef, make_episode_id
    from ares.media.video import encode_mp4

    rate_hz, path = 20.0, folder / f"{number}.mp4"
    steps = int(_SECONDS * rate_hz)
    image = texture(number)
    frames = encode_mp4((np.roll(image, step, axis=1) for step in range(steps)), path, rate_hz)
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
        episode_id=make_episode_id(format="video", dataset="bench", version="", split="", key=str(number)),
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
