"""Benchmarks 4, 5, 14 and 21: curated exports, the loader and near duplicates, against the tools that do the same."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ares
from ares.formats import RecordLocation, scan_record_file
from benchmarks.ingest import peer_python, write_rlds_dataset, write_video_folder
from benchmarks.timing import BenchmarkResult, time_alternately

if TYPE_CHECKING:
    from ares.curation import CurationSet

_LEROBOT = ("lerobot==0.4.4",)
# Below these sizes the start of the peer would be what is measured: it is left out.
_LEAST_EPISODES = 24
_WINDOW, _BATCH, _BATCHES = 8, 32, 20
# Four, or as many as there are processors: PyTorch warns of more.
_WORKERS = min(4, os.cpu_count() or 1)
_DELETE_BY_LEROBOT = """
import json, sys, time
from lerobot.datasets.dataset_tools import delete_episodes
from lerobot.datasets.lerobot_dataset import LeRobotDataset
root, destination, dropped = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
dataset = LeRobotDataset("local/made", root=root)
start = time.perf_counter()
delete_episodes(dataset, episode_indices=dropped, output_dir=destination, repo_id="local/kept")
print(time.perf_counter() - start)
"""
_LOAD_BY_LEROBOT = """
import json, sys, time
from itertools import islice
from torch.utils.data import DataLoader
from lerobot.datasets.lerobot_dataset import LeRobotDataset
root, windows, batch, workers, batches = sys.argv[1], json.loads(sys.argv[2]), *map(int, sys.argv[3:])
dataset = LeRobotDataset("local/made", root=root, delta_timestamps=windows, video_backend="pyav")
loader = iter(DataLoader(dataset, batch_size=batch, shuffle=True, num_workers=workers))
next(loader)
start = time.perf_counter()
print(sum(len(part["index"]) for part in islice(loader, batches)) and time.perf_counter() - start)
"""


def _result(
    number: int, work: str, ours: float, peer: str, peer_seconds: float, target: str
) -> BenchmarkResult:
    return BenchmarkResult(
        number=number, work=work, ours_seconds=ours, peer=peer, peer_seconds=peer_seconds, target=target
    )


def _run_peer(
    name: str, requirements: Sequence[str], script: str, *arguments: str, rounds: int = 1
) -> list[str]:
    """The words that the fastest of some runs of a peer prints at its end, seconds last."""
    python = peer_python(name, requirements)
    runs = [
        subprocess.run(
            [python, "-c", script, *arguments], check=True, capture_output=True, text=True
        ).stdout.split()
        for _ in range(rounds)
    ]
    return min(runs, key=lambda words: float(words[-1]))


def _each_time(work: Callable[[Path], object], folder: Path) -> Callable[[], object]:
    """A function that works into a new folder each time it is called."""
    numbers = count()
    return lambda: work(folder / str(next(numbers)))


def _freeze_third(ws: ares.Workspace) -> CurationSet:
    ids = sorted(ws.stores.tables.episodes.ids())
    return ws.sets.create("third", ids[::3])


def _write_lerobot(folder: Path, episodes: int) -> Path:
    """A LeRobot v3.0 folder of so many episodes of 5 s with two cameras, written by ARES."""
    with ares.open(f"{folder}/films-workspace", create=True) as ws:
        ws.ingest(write_video_folder(folder / "films", episodes), quiet=True)
        ws.export(ws.sets.create("all", where="true"), folder / "lerobot", format="lerobot", quiet=True)
    return folder / "lerobot"


def benchmark_lerobot_export(sizes: Sequence[int] = (24, 240), rounds: int = 5) -> Iterator[BenchmarkResult]:
    """Benchmark 4: a third of the episodes of a LeRobot v3.0 folder, as a separate folder."""
    for size in sizes:
        with tempfile.TemporaryDirectory() as scratch, ares.open(f"{scratch}/w", create=True) as ws:
            folder = Path(scratch)
            source = _write_lerobot(folder, size)
            ws.ingest(source, quiet=True)
            third = _freeze_third(ws)
            export = partial(ws.export, third, format="lerobot", quiet=True)
            copied = [path for path in source.rglob("*") if path.is_file()]
            ours, copy_seconds = time_alternately(
                _each_time(export, folder / "ours"),
                _each_time(partial(_copy_third, copied), folder / "copies"),
                min(rounds, 5),
            )
            _check_packets(source, folder / "ours" / "0")
            work = f"export a third of {size} LeRobot episodes, packets bit-identical"
            yield _result(4, work, ours, "reading and writing a third of its bytes", copy_seconds, "none")
            if size >= _LEAST_EPISODES:
                dropped = json.dumps([number for number in range(size) if number % 3])
                words = _run_peer(
                    "lerobot", _LEROBOT, _DELETE_BY_LEROBOT, f"{source}", f"{folder}/peer", dropped
                )
                peer = "lerobot 0.4.4 `delete_episodes` of the other two thirds, one run"
                yield _result(4, work, ours, peer, float(words[-1]), "ratio <= 0.02")


def _copy_third(files: Sequence[Path], destination: Path) -> None:
    """Read and write a third of the bytes of files."""
    destination.mkdir(parents=True)
    for number, path in enumerate(files):
        with path.open("rb") as file:
            (destination / f"{number}").write_bytes(file.read(path.stat().st_size // 3))


def _check_packets(source: Path, export: Path) -> None:
    """Raise RuntimeError where an export has a packet that its source has not."""
    import av

    def packets(folder: Path) -> set[bytes]:
        kept: set[bytes] = set()
        for path in sorted(folder.rglob("*.mp4")):
            with av.open(str(path)) as container:
                kept |= {bytes(packet) for packet in container.demux(video=0) if packet.size}
        return kept

    if not packets(export) or packets(export) - packets(source):
        raise RuntimeError("the export has packets that its source has not")


def benchmark_rlds_export(sizes: Sequence[int] = (600,), rounds: int = 5) -> Iterator[BenchmarkResult]:
    """Benchmark 5: a third of the episodes of an RLDS dataset, as one of its own."""
    for size in sizes:
        with tempfile.TemporaryDirectory() as scratch, ares.open(f"{scratch}/w", create=True) as ws:
            folder = Path(scratch)
            source = write_rlds_dataset(folder / "made" / "1.0.0", size)
            ws.ingest(source, rate_hz=10.0, quiet=True)
            third = _freeze_third(ws)
            spans = [
                (shard, span)
                for shard in sorted(source.glob("*.tfrecord-*"))
                for span in scan_record_file(str(shard))
                if isinstance(span, RecordLocation)
            ][::3]
            ours, peer_seconds = time_alternately(
                _each_time(partial(ws.export, third, format="rlds", quiet=True), folder / "ours"),
                _each_time(partial(_copy_records, spans), folder / "copies"),
                min(rounds, 5),
            )
            megabytes = sum(span.size for _, span in spans) / 1e6
        work = f"export a third of {size} RLDS episodes, {megabytes / ours:.0f} MB/s"
        peer = f"reading and writing the same bytes, {megabytes / peer_seconds:.0f} MB/s"
        yield _result(5, work, ours, peer, peer_seconds, "ratio <= 2.5")


def _copy_records(spans: Sequence[tuple[Path, RecordLocation]], destination: Path) -> None:
    destination.mkdir(parents=True)
    with (destination / "records").open("wb") as copy:
        for shard, span in spans:
            with shard.open("rb") as file:
                file.seek(span.offset)
                copy.write(file.read(span.size))


def benchmark_loader(sizes: Sequence[int] = (24,), rounds: int = 3) -> Iterator[BenchmarkResult]:
    """Benchmark 14: windows of 8 frames of one camera, batches of 32 at random, up to 4 workers."""
    for size in sizes:
        with tempfile.TemporaryDirectory() as scratch, ares.open(f"{scratch}/w", create=True) as ws:
            source = _write_lerobot(Path(scratch), size)
            ws.ingest(source, quiet=True)
            selection = ws.sets.create("all", where="true")
            rate_hz = next(ws.stores.tables.episodes.read()).rate_hz
            camera = f"observation.images.{next(ws.stores.tables.episodes.read()).cameras[0].name}"
            windows = {camera: [(step - _WINDOW + 1) / rate_hz for step in range(_WINDOW)]}
            batches = _BATCHES if size >= _LEAST_EPISODES else 1
            load = partial(_load_batches, ws, selection, windows, batches)
            ours = min(load(_WORKERS) for _ in range(max(1, rounds)))
            alone = load(0)
            samples = batches * _BATCH / ours
            work = f"{batches} batches of {_BATCH} windows of {_WINDOW} frames of {size} episodes, {samples:.0f}/s"
            yield _result(14, work, ours, "the same by ARES without workers", alone, "none")
            if size >= _LEAST_EPISODES:
                words = _run_peer(
                    "lerobot", _LEROBOT, _LOAD_BY_LEROBOT,
                    f"{source}", json.dumps(windows), *map(str, (_BATCH, _WORKERS, batches)), rounds=max(1, rounds),
                )  # fmt: skip
                peer = "lerobot 0.4.4 `LeRobotDataset` of the same folder, by PyAV"
                yield _result(14, work, ours, peer, float(words[-1]), "ratio <= 0.5")


def _load_batches(
    ws: ares.Workspace,
    selection: CurationSet,
    windows: Mapping[str, Sequence[float]],
    batches: int,
    workers: int,
) -> float:
    """Seconds of so many batches after the first one."""
    from torch.utils.data import DataLoader

    camera = next(iter(windows)).rpartition(".")[2]
    dataset: Any = ws.torch_dataset(selection, cameras=[camera], delta_timestamps=windows)
    loader = iter(DataLoader(dataset, batch_size=_BATCH, shuffle=True, num_workers=workers))
    next(loader)
    start = time.perf_counter()
    if not list(islice(loader, batches)):
        raise RuntimeError("the loader has one batch alone")
    return time.perf_counter() - start
