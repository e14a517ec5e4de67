"""Times captions and grades at a loopback server of C slots and L seconds a call; the limit is C / L calls a second.

.venv/bin/python -m benchmarks.model_server --slots 64 --latency 2 --episodes 1280 --annotators caption grade
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import resource
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ares.jobs import AnnotateReport


_SIDE, _FRAMES, _RATE_HZ = 512, 3, 5
_CAPTION = "open the drawer"
_RULING = '{"observation": "a drawer", "frames": [1], "verdict": "MET"}'


def main() -> None:
    """Print one line per annotator."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--latency", type=float, default=0.5, help="seconds a call")
    parser.add_argument("--episodes", type=int, default=640)
    parser.add_argument("--annotators", nargs="+", default=["caption", "grade"])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        videos = write_videos(Path(folder) / "videos", args.episodes)
        with _served(args.slots, args.latency) as port:
            for name, report, seconds, cpu in _annotate(Path(folder), videos, port, args.annotators):
                limit = args.slots / args.latency
                rate = report.cost.calls / seconds
                print(
                    f"{name}: {report.kept} kept, {report.cost.calls} calls in {seconds:.1f} s, {rate:.1f} a second, "
                    f"{rate / limit:.3f} of C / L ({limit:.1f}), processors {cpu:.1f} s",
                    flush=True,
                )


def write_videos(folder: Path, episodes: int, side: int = _SIDE) -> Path:
    """Write short mp4 files of three square frames, none like another."""
    import av
    import numpy as np

    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(episodes):
        with av.open(str(folder / f"{number:06d}.mp4"), "w") as container:
            stream = container.add_stream("libx264", rate=Fraction(_RATE_HZ), options={"preset": "ultrafast"})
            stream.width = stream.height = side
            coarse = rng.integers(0, 255, (_FRAMES, side // 16, side // 16, 3), dtype=np.uint8)
            for frame in coarse.repeat(16, axis=1).repeat(16, axis=2):
                container.mux(stream.encode(av.VideoFrame.from_ndarray(frame)))
            container.mux(stream.encode())
    return folder


def _annotate(
    folder: Path, videos: Path, port: int, names: list[str]
) -> list[tuple[str, AnnotateReport, float, float]]:
    from annotators.base import Options
    from annotators.runner import annotate
    from ares.settings import Settings
    from ares.workspace import open_workspace
    from ingest.pipeline import ingest_paths

    specs = {"caption": f"openai:Some/Captioner-7B@http://127.0.0.1:{port}/v1"}
    specs["grade"] = f"openai:Other/Judge-9B@http://127.0.0.1:{port}/v1"
    results = []
    with open_workspace(str(folder / "workspace"), Settings()) as workspace:
        ingest_paths(workspace.stores, [str(videos)], quiet=True)
        for name in names:
            started_at, used = time.monotonic(), _processor_seconds()
            options = Options(settings=Settings(), model=specs[name])
            (report,) = annotate(workspace.stores, [name], options, quiet=True)
            seconds, cpu = time.monotonic() - started_at, _processor_seconds() - used
            results.append((name, report, seconds, cpu))
    return results


def _processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class _served:
    """A model server in a process of its own, while the block runs; its value is the port."""

    def __init__(self, slots: int, latency: float) -> None:
        self._arguments = (slots, latency)

    def __enter__(self) -> int:
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_serve, args=(*self._arguments, sender), daemon=True)
        self._process.start()
        return int(receiver.recv())

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.join()


def _serve(slots: int, latency: float, sender: Any) -> None:
    asyncio.run(_serve_forever(slots, latency, sender))


async def _serve_forever(slots: int, latency: float, sender: Any) -> None:
    free = asyncio.Semaphore(slots)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                body = await _read_request(reader)
                if body is not None:
                    async with free:
                        await asyncio.sleep(latency)
                writer.write(_answer(body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=1024, limit=2**26)
    sender.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def _read_request(reader: asyncio.StreamReader) -> bytes | None:
    """The body of a POST, or None for a GET."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    if head.startswith("GET"):
        return None
    fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
    return await reader.readexactly(int(fields["content-length"]))


def _answer(body: bytes | None) -> bytes:
    if body is None:
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    text = _RULING if b"caption is data" in body else _CAPTION
    document = {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 10},
    }
    encoded = json.dumps(document).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(encoded), encoded)


if __name__ == "__main__":
    main()
