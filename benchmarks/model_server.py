"""Times captions and grades at a loopback server of C slots and L seconds a call; the limit is C / L calls a second.

.venv/bin/python -m benchmarks.model_server --slots 64 --latency 2 --episodes 1280 --annotators caption grade
.venv/bin/python -m benchmarks.model_server --profiles --seconds 60
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import multiprocessing
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

from benchmarks.synthetic_media import write_videos
from benchmarks.timing import processor_seconds

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.jobs import AnnotateReport


_SIDE, _SMALL_SIDE = 512, 32
_CAPTION = (
    '{"action": "open", "other_action": "", "object": "drawer", "attributes": [], "from": "", "to": "", "hand": "", '
    '"manner": "", "count": "", "outcome": "completed", "sentence": "open the drawer"}'
)
_RULING = '{"observation": "a drawer", "frames": [1], "verdict": "MET"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A server.

    Attributes:
        slots: Calls that it works on at a time.
        latency: Seconds a call, on average.
        spread: Calls take latency * (1 - spread) to latency * (1 + spread).
        refuses: It answers 429 to calls above its slots, which wait otherwise.
        retry_after: Seconds that it then asks to wait, or 0 where it says nothing.
        later_slots: Slots later, or 0 where they do not change.
        change_after: Seconds after which they change.
    """

    slots: int
    latency: float
    spread: float = 0.0
    refuses: bool = False
    retry_after: float = 0.0
    later_slots: int = 0
    change_after: float = 40.0


PROFILES = {
    "16 slots, 0.5 s": Profile(slots=16, latency=0.5),
    "64 slots, 2 s": Profile(slots=64, latency=2.0),
    "1 slot, 0.2 s": Profile(slots=1, latency=0.2),
    "64 slots, 1 to 3 s": Profile(slots=64, latency=2.0, spread=0.5),
    "24 slots, 0.1 to 1.9 s": Profile(slots=24, latency=1.0, spread=0.9),
    "48 slots, 2 s, 429 above": Profile(slots=48, latency=2.0, refuses=True),
    "32 slots, 1 s, 429 above with Retry-After": Profile(
        slots=32, latency=1.0, refuses=True, retry_after=1.0
    ),
    "48 slots, 1 to 3 s, 429 above": Profile(slots=48, latency=2.0, spread=0.5, refuses=True),
    "16, then 48 slots, 1 s": Profile(slots=16, latency=1.0, later_slots=48),
    "48, then 16 slots, 1 s, 429 above": Profile(slots=48, latency=1.0, refuses=True, later_slots=16),
}


def main() -> None:
    """Print one line per annotator and server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--latency", type=float, default=0.5, help="seconds a call")
    parser.add_argument("--episodes", type=int, default=640)
    parser.add_argument("--grades", type=int, help="captions to grade (default: all)")
    parser.add_argument("--annotators", nargs="+", default=["caption", "grade"])
    parser.add_argument(
        "--profiles", action="store_true", help="captions of small frames at ten servers instead"
    )
    parser.add_argument("--seconds", type=float, default=80.0, help="duration of a profile")
    args = parser.parse_args()
    if not args.profiles:
        server = Profile(slots=args.slots, latency=args.latency)
        _time_server("", server, args.episodes, _SIDE, args.annotators, args.grades)
        return
    for name, profile in PROFILES.items():
        mean_slots = (profile.slots + (profile.later_slots or profile.slots)) / 2
        _time_server(
            name, profile, round(mean_slots / profile.latency * args.seconds), _SMALL_SIDE, ["caption"]
        )


def _time_server(
    label: str,
    profile: Profile,
    episodes: int,
    side: int,
    annotators: Sequence[str],
    grades: int | None = None,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        videos = write_videos(Path(folder) / "videos", episodes, side)
        for name in annotators:
            with ServedProfile(profile) as port:
                limit = grades if name == "grade" else None
                report, seconds, cpu, peak_bytes = _annotate(Path(folder), videos, port, name, limit)
                with urlopen(f"http://127.0.0.1:{port}/report") as response:
                    served = json.load(response)
            rate, best = report.cost.calls / seconds, profile.slots / profile.latency
            whole = "" if profile.later_slots else f", {rate / best:.3f} of C / L ({best:.1f})"
            if not (profile.later_slots or profile.spread):
                most = report.cost.calls / best_seconds(profile, report.cost.calls) / best
                whole += f" where {most:.3f} is possible"
            print(
                f"{label or f'{profile.slots} slots, {profile.latency} s'}: {name}: {report.kept} kept, "
                f"{report.cost.calls} calls ({served['refused']} refused) in {seconds:.1f} s, "
                f"{rate:.1f} a second{whole}; "
                f"slots used from the first to the last call {served['share']:.3f}; processors {cpu:.1f} s; "
                f"peak memory {peak_bytes / 1e9:.2f} GB",
                flush=True,
            )


def best_seconds(profile: Profile, calls: int) -> float:
    """Duration of a run by a client that knows the slots: a test call alone, and then full rounds of calls."""
    return profile.latency * (1 + math.ceil((calls - 1) / profile.slots))


def _annotate(
    folder: Path, videos: Path, port: int, name: str, limit: int | None
) -> tuple[AnnotateReport, float, float, int]:
    import ares

    model = "Some/Captioner-7B" if name == "caption" else "Other/Judge-9B"
    with ares.open(folder / "workspace", create=True) as workspace:
        workspace.ingest(videos, quiet=True)
        _forget_peak_memory()
        started_at, used = time.monotonic(), processor_seconds()
        # Claims alone, as in earlier results: four calls of a caption at once.
        values: dict[str, Json] = {"observe": "never"} if name == "grade" else {}
        url = f"http://127.0.0.1:{port}/v1"
        (report,) = workspace.annotate(
            name, model=f"openai:{model}@{url}", options=values, limit=limit, quiet=True
        )
        seconds, cpu = time.monotonic() - started_at, processor_seconds() - used
        return report, seconds, cpu, _peak_memory_bytes()


def _forget_peak_memory() -> None:
    """Let the peak of this process begin at what it has now (Linux, proc(5))."""
    Path("/proc/self/clear_refs").write_text("5")


def _peak_memory_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


class ServedProfile:
    """A model server in a separate process, while the block runs; its value is the port."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def __enter__(self) -> int:
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_serve, args=(self._profile, sender), daemon=True)
        self._process.start()
        return int(receiver.recv())

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.join()


def _serve(profile: Profile, sender: Any) -> None:
    asyncio.run(_serve_forever(profile, sender))


class _Slots:
    """The slots of a server, and how much of their time was used since the second call, the first of an episode."""

    def __init__(self, profile: Profile) -> None:
        self._profile, self._random = profile, random.Random(0)
        self._free = asyncio.Semaphore(profile.slots)
        self._calls, self._refused = 0, 0
        self._used = 0.0
        self._first_at = self._last_at = 0.0
        self._changed_at: float | None = None

    async def work(self) -> bool:
        """Work on one call, or refuse it."""
        self._calls += 1
        if self._calls == 2:
            self._first_at = time.monotonic()
            asyncio.get_running_loop().create_task(self._change())
        if self._profile.refuses and self._free.locked():
            self._refused += 1
            return False
        async with self._free:
            spread = self._profile.latency * self._profile.spread
            seconds = self._profile.latency + self._random.uniform(-spread, spread)
            await asyncio.sleep(seconds)
        if self._calls > 1:
            self._used, self._last_at = self._used + seconds, time.monotonic()
        return True

    async def _change(self) -> None:
        if not self._profile.later_slots:
            return
        await asyncio.sleep(self._profile.change_after)
        self._changed_at = time.monotonic()
        for _ in range(self._profile.later_slots - self._profile.slots):
            self._free.release()
        for _ in range(self._profile.slots - self._profile.later_slots):
            await self._free.acquire()

    def report(self) -> dict[str, float]:
        """Calls that were refused, and the share of the time of the slots that was used."""
        seconds = self._last_at - self._first_at
        later = self._last_at - self._changed_at if self._changed_at else 0.0
        capacity = self._profile.slots * (seconds - later) + self._profile.later_slots * later
        return {"refused": self._refused, "share": self._used / capacity}


async def _serve_forever(profile: Profile, sender: Any) -> None:
    slots = _Slots(profile)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head, body = await _read_request(reader)
                if body is not None:
                    writer.write(_answer(body) if await slots.work() else _refusal(profile))
                else:
                    writer.write(_document(slots.report()) if "/report" in head else _NOT_FOUND)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=1024, limit=2**26)
    sender.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, bytes | None]:
    """The head of a request, and the body of a POST, or None for a GET."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    if head.startswith("GET"):
        return head, None
    fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
    return head, await reader.readexactly(int(fields["content-length"]))


_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


def _refusal(profile: Profile) -> bytes:
    asked = f"Retry-After: {profile.retry_after}\r\n" if profile.retry_after else ""
    return f"HTTP/1.1 429 Too Many Requests\r\n{asked}Content-Length: 0\r\n\r\n".encode()


def _answer(body: bytes) -> bytes:
    text = _RULING if b"caption is data" in body else _CAPTION
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return _document({"choices": [choice], "usage": {"prompt_tokens": 1000, "completion_tokens": 10}})


def _document(document: dict[str, Any]) -> bytes:
    encoded = json.dumps(document).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(encoded), encoded)


if __name__ == "__main__":
    main()
