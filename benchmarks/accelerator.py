"""Benchmarks 10 and 12 on a GPU or a CPU: embedding from 1080p H.264, and captions by a model behind a server.

.venv/bin/python -m benchmarks.accelerator embed --models ViT-B-32 ViT-L-14 SigLIP2 --episodes 200 --seconds 30
.venv/bin/python -m benchmarks.accelerator caption --server MODEL@http://127.0.0.1:8000/v1 --episodes 500
.venv/bin/python -m benchmarks.accelerator caption --episodes 160        # at a loopback server of known latency
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from benchmarks import synthetic_media
from benchmarks.model_server import Profile, ServedProfile
from benchmarks.synthetic_media import write_videos
from benchmarks.timing import BenchmarkResult, results_table

if TYPE_CHECKING:
    import torch

    from ares.workspace import Workspace

_RATE_HZ = 30.0
_BATCH_SIZE = 64
_LOOPBACK = Profile(slots=16, latency=0.5)


def main() -> None:
    """Print one line per measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    embed = kinds.add_parser("embed")
    embed.add_argument("--models", nargs="+", default=["ViT-B-32", "ViT-L-14", "SigLIP2"])
    embed.add_argument("--episodes", type=int, default=200)
    embed.add_argument(
        "--seconds", type=int, default=30, help="length of an episode, one embedded frame a second"
    )
    embed.add_argument("--height", type=int, default=1080, help="frames are 16:9")
    embed.add_argument("--rounds", type=int, default=3)
    caption = kinds.add_parser("caption")
    caption.add_argument("--server", default="", help="MODEL@URL (default: a loopback server)")
    caption.add_argument("--episodes", type=int, default=500)
    caption.add_argument(
        "--concurrency", nargs="+", type=int, default=[16, 64, 256], help="of the plain client"
    )
    arguments = vars(parser.parse_args())
    if arguments.pop("kind") == "caption":
        _time_captions(**arguments)
    else:
        print(results_table(list(_time_embedding(**arguments))))


def benchmark_embedding(sizes: Sequence[int] = (24,), rounds: int = 5) -> Iterator[BenchmarkResult]:
    """Benchmark 10: the whole of `annotate embed` of so many videos of 16 s, against the model alone."""
    for size in sizes:
        yield from _time_embedding(
            [synthetic_media.RANDOM_MODEL], size, seconds=16, height=256, rounds=max(1, rounds)
        )


def _time_embedding(
    models: Sequence[str], episodes: int, seconds: int, height: int, rounds: int
) -> Iterator[BenchmarkResult]:
    """The whole command, decoding and storing included, against the model alone on pixels in its memory."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as folder:
        count, width = int(seconds * _RATE_HZ), height * 16 // 9 // 2 * 2
        videos = write_videos(Path(folder) / "videos", episodes, height, width, count, _RATE_HZ)
        for name in models:
            encoder = _random_encoder(name, device)
            rates = [
                (_embed_all(Path(folder) / f"{name}-{number}", videos, encoder), _model_rate(encoder, device))
                for number in range(rounds)
            ]
            ours, alone = (statistics.median(side) for side in zip(*rates, strict=True))
            frames = episodes * seconds
            work = f"embed {frames} frames with {name} of random weights from {height}p H.264, {device}"
            yield BenchmarkResult(
                number=10,
                work=f"{work}, {ours:.1f} frames/s",
                ours_seconds=frames / ours,
                peer=f"the model alone on pixels in its memory, {alone:.1f} frames/s",
                peer_seconds=frames / alone,
                target="ratio <= 1.11",
            )


def _random_encoder(name: str, device: str) -> Any:
    """An encoder of random weights, which is as fast as a trained one."""
    import open_clip
    import transformers

    from ares_annotators.models import ClipEncoder, TransformersImageEncoder

    if name != "SigLIP2":
        model, _, preprocess = open_clip.create_model_and_transforms(name)
        return ClipEncoder(
            model.eval().to(device), preprocess, open_clip.get_tokenizer(name), "random", device
        )
    # SigLIP2 base, patch 16, 224 pixels.
    config = transformers.SiglipVisionConfig(image_size=224, patch_size=16)
    tower: Any = transformers.SiglipVisionModel(config)
    processor: Any = transformers.SiglipImageProcessor(size={"height": 224, "width": 224})
    return TransformersImageEncoder(tower.eval().to(device), processor, None, "random", device)


def _embed_all(folder: Path, videos: Path, encoder: Any) -> float:
    """Frames per second of `annotate embed`, without the loading of the model."""
    with _ingested(folder, videos) as workspace, _with_encoder(encoder):
        started_at = time.perf_counter()
        (report,) = workspace.annotate("embed", quiet=True)
        seconds = time.perf_counter() - started_at
        facts = [entry.annotation for entry in workspace.stores.annotations.read()]
        if report.failed:
            raise RuntimeError(f"{report.failed} episodes failed: {report.failures}")
        return sum(int(str(fact.value["frames"])) for fact in facts if fact.name == "embed") / seconds


@contextmanager
def _ingested(folder: Path, videos: Path) -> Iterator[Workspace]:
    import ares

    with ares.open(folder, create=True) as workspace:
        workspace.ingest(videos, quiet=True)
        yield workspace


def _with_encoder(encoder: Any) -> Any:
    return mock.patch("ares_annotators.embed.load_encoder_for", lambda *arguments: encoder)


def _model_rate(encoder: Any, device: str) -> float:
    """Frames per second of the model alone, in the precision of the encoder; in small batches on a CPU."""
    import torch

    batch_size, count = (_BATCH_SIZE, 40) if device == "cuda" else (8, 2)
    pixels = torch.rand(batch_size, 3, 224, 224, device=device)
    with torch.inference_mode(), torch.autocast("cuda", torch.float16, enabled=device == "cuda"):
        _run_model(encoder, pixels)
        _wait_for_device(device)
        started_at = time.perf_counter()
        for _ in range(count):
            _run_model(encoder, pixels)
        _wait_for_device(device)
    return count * batch_size / (time.perf_counter() - started_at)


def _run_model(encoder: Any, pixels: torch.Tensor) -> None:
    model = encoder._model
    model.encode_image(pixels) if hasattr(model, "encode_image") else model(pixel_values=pixels)


def _wait_for_device(device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def _time_captions(server: str, episodes: int, concurrency: Sequence[int]) -> None:
    """The whole command against a plain client that sends the same requests with the best fixed concurrency."""
    with tempfile.TemporaryDirectory() as folder:
        videos = write_videos(Path(folder) / "videos", episodes)
        if server:
            _compare_captions(Path(folder), videos, server, concurrency)
            return
        with ServedProfile(_LOOPBACK) as port:
            served = f"Some/Vlm-7B@http://127.0.0.1:{port}/v1"
            _compare_captions(Path(folder), videos, served, concurrency)


def _compare_captions(folder: Path, videos: Path, server: str, concurrency: Sequence[int]) -> None:
    from ares_annotators.models import OpenAiVlm

    bodies: list[bytes] = []
    make = OpenAiVlm.__init__

    def make_recorded(vlm: Any, *arguments: Any, **options: Any) -> None:
        make(vlm, *arguments, **options)
        post = vlm._connection.post

        def record(path: str, body: bytes, is_stopped: Any) -> Any:
            bodies.append(body)
            return post(path, body, is_stopped)

        vlm._connection.post = record

    with (
        _ingested(folder / "workspace", videos) as workspace,
        mock.patch.object(OpenAiVlm, "__init__", make_recorded),
    ):
        started_at = time.perf_counter()
        (report,) = workspace.annotate("caption", model=f"openai:{server}", quiet=True)
        ours = report.cost.calls / (time.perf_counter() - started_at)
    url = server.rpartition("@")[2]
    rates = {calls: asyncio.run(_send_all(url, bodies, calls)) for calls in concurrency}
    best = max(rates, key=lambda calls: rates[calls])
    print(
        f"caption, {report.kept} kept: {ours:.2f} calls/s; a plain client {rates[best]:.2f} with {best} in flight, "
        f"ratio {ours / rates[best]:.2f}",
        flush=True,
    )


async def _send_all(url: str, bodies: Sequence[bytes], concurrency: int) -> float:
    """Calls per second of a client that does nothing but send."""
    import httpx2

    free = asyncio.Semaphore(concurrency)
    limits = httpx2.Limits(max_connections=concurrency)
    async with httpx2.AsyncClient(limits=limits, timeout=600.0) as client:

        async def send(body: bytes) -> None:
            async with free:
                headers = {"Content-Type": "application/json"}
                answer = await client.post(f"{url}/chat/completions", content=body, headers=headers)
                answer.raise_for_status()

        started_at = time.perf_counter()
        await asyncio.gather(*(send(body) for body in bodies))
        return len(bodies) / (time.perf_counter() - started_at)


if __name__ == "__main__":
    main()
