"""Benchmarks 1, 2, 3, 18 and 23: ingestion of RLDS, LeRobot and video, against plain reading of the same files."""

from __future__ import annotations

import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path

import ares
from ares.formats import RecordLocation
from ares_app.demo import DEMO_FOLDER
from benchmarks.synthetic_lerobot import SUBTASKS_PER_EPISODE, write_lerobot_dataset
from benchmarks.timing import BenchmarkResult, time_alternately

_RECORDS = 600
_SHARDS = 4
_PEERS = Path(__file__).resolve().parent.parent / ".cache" / "peers"
_TENSORFLOW = ("tensorflow-cpu==2.21.0", "tensorflow-datasets==4.9.10")
# Iterates every step with its images decoded, as a training script does; TensorFlow's import is not counted.
_READ_WITH_TENSORFLOW = """
import sys, time
import tensorflow_datasets as tfds
builder = tfds.builder_from_directory(sys.argv[1])
start = time.perf_counter()
for episode in builder.as_dataset(split="train"):
    for step in episode["steps"]:
        pass
print(time.perf_counter() - start)
"""


def benchmark_rlds(sizes: Sequence[int] = (600, 12_000), rounds: int = 5) -> Iterator[BenchmarkResult]:
    """Benchmark 1: records of 0.6 MB (those of a sample, under new keys), ingested by reference."""
    work = _ingest(10.0)
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            dataset = write_rlds_dataset(Path(folder) / str(size) / "1.0.0", size)
            megabytes = sum(path.stat().st_size for path in dataset.iterdir()) / 1e6
            ours, checksum_seconds = time_alternately(
                partial(work, dataset), partial(_read_checksums, dataset), _fewer_rounds(rounds, size)
            )
            name = f"ingest {size:,} RLDS records, {megabytes / ours:.0f} MB/s"
            peer = f"reading the same bytes with their checksums, {megabytes / checksum_seconds:.0f} MB/s"
            yield _result(1, name, ours, peer, checksum_seconds, "ratio <= 2")
            if size >= _RECORDS:
                # Fewer would compare with the start of TensorFlow.
                seconds = _tensorflow_seconds(Path(folder) / str(_RECORDS) / "1.0.0") * size / _RECORDS
                peer = f"TensorFlow iterating steps with images decoded, {_RECORDS} records, 3 runs"
                times = f", times {size / _RECORDS:g}" if size > _RECORDS else ""
                yield _result(1, name, ours, peer + times, seconds, "ratio <= 0.02")


@cache
def _tensorflow_seconds(dataset: Path) -> float:
    """Median seconds of TensorFlow for a dataset of 600 records, which is written where it does not exist."""
    python = peer_python("tensorflow", _TENSORFLOW)
    path = dataset if dataset.exists() else write_rlds_dataset(dataset, _RECORDS)
    runs = (
        subprocess.run(
            [python, "-c", _READ_WITH_TENSORFLOW, path], check=True, capture_output=True, text=True
        )
        for _ in range(3)
    )
    # The seconds are the last word that the program prints.
    return statistics.median(float(run.stdout.split()[-1]) for run in runs)


def benchmark_lerobot(sizes: Sequence[int] = (10_000, 100_000), rounds: int = 3) -> Iterator[BenchmarkResult]:
    """Benchmarks 2 and 18: LeRobot v3.0 episodes of 30 steps without videos, and the growth of the time."""
    seconds: list[float] = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            dataset = write_lerobot_dataset(Path(folder) / "made", size)
            files = sorted(dataset.rglob("*.parquet"))
            ours, peer_seconds = time_alternately(
                partial(_ingest(None), dataset),
                partial(_read_parquet, files),
                1 if size > 50_000 else min(rounds, 3),
            )
        seconds.append(ours)
        name = f"ingest {size:,} LeRobot episodes, {size / ours:.0f}/s"
        peer = f"pyarrow reading the same files, {size / peer_seconds:.0f}/s"
        yield _result(2, name, ours, peer, peer_seconds, "ratio <= 3.33; 100,000 in a minute")
    if len(sizes) > 1:
        growth = sizes[-1] / sizes[0]
        exponent = math.log(seconds[-1] / seconds[0]) / math.log(growth)
        name = f"ingest {sizes[-1]:,} LeRobot episodes (exponent {exponent:.2f})"
        peer = f"{growth:g} times the time of {sizes[0]:,}"
        yield _result(18, name, seconds[-1], peer, growth * seconds[0], "linear or better")


_STEPS_PER_LABELLED = 90


def benchmark_labels(sizes: Sequence[int] = (1_000, 10_000), rounds: int = 3) -> Iterator[BenchmarkResult]:
    """Benchmark 23: LeRobot episodes of 90 steps with 100 segments each, of which 90 are about one frame."""
    per_episode = _STEPS_PER_LABELLED + SUBTASKS_PER_EPISODE
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            labelled, plain = (
                write_lerobot_dataset(Path(folder) / str(flag), size, _STEPS_PER_LABELLED, labelled=flag)
                for flag in (True, False)
            )
            work = _ingest(None)
            ours, peer_seconds = time_alternately(
                partial(work, labelled), partial(work, plain), 1 if size > 5_000 else min(rounds, 3)
            )
        name = f"ingest {per_episode * size:,} segments of LeRobot, {per_episode * size / ours:.0f}/s"
        yield _result(23, name, ours, f"the same {size:,} episodes without them", peer_seconds, "none")


def benchmark_video(sizes: Sequence[int] = (1_200, 12_000), rounds: int = 5) -> Iterator[BenchmarkResult]:
    """Benchmark 3: mp4 files, two an episode (hard links to those of a sample), ingested by reference."""
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            dataset = write_video_folder(Path(folder) / "videos", size // 2)
            files = sorted(dataset.glob("*.mp4"))
            ours, open_seconds = time_alternately(
                partial(_ingest(None), dataset), partial(_open_headers, files), _fewer_rounds(rounds, size)
            )
        name = f"ingest {len(files):,} mp4 files, {len(files) / ours:.0f}/s"
        peer = f"PyAV opening each and reading its header, {len(files) / open_seconds:.0f}/s"
        yield _result(3, name, ours, peer, open_seconds, "ratio <= 2")


def _fewer_rounds(rounds: int, size: int) -> int:
    return min(rounds, 3 if size > 10_000 else 5)


def _result(
    number: int, work: str, ours: float, peer: str, peer_seconds: float, target: str
) -> BenchmarkResult:
    return BenchmarkResult(
        number=number, work=work, ours_seconds=ours, peer=peer, peer_seconds=peer_seconds, target=target
    )


def _ingest(rate_hz: float | None) -> Callable[[Path], None]:
    """A function that ingests a dataset into a separate workspace. It raises RuntimeError where one is not kept."""

    def work(dataset: Path) -> None:
        with tempfile.TemporaryDirectory() as folder, ares.open(f"{folder}/workspace", create=True) as ws:
            report = ws.ingest(dataset, rate_hz=rate_hz, quiet=True)
            if report.kept != report.planned:
                raise RuntimeError(f"kept {report.kept} of {report.planned}")

    return work


def peer_python(name: str, requirements: Sequence[str]) -> Path:
    """Interpreter of an environment with the requirements, made on first use. Raises CalledProcessError."""
    folder = _PEERS / name
    python, done_file = folder / "bin" / "python", folder / "done.json"
    if done_file.exists() and json.loads(done_file.read_text()) == list(requirements):
        return python
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *requirements], check=True)
    done_file.write_text(json.dumps(list(requirements)))
    return python


def _read_checksums(dataset: Path) -> None:
    import google_crc32c

    for path in sorted(dataset.glob("*.tfrecord-*")):
        with path.open("rb") as file:
            while header := file.read(12):
                payload = file.read(int.from_bytes(header[:8], "little"))
                google_crc32c.value(payload)
                file.read(4)


def _open_headers(files: list[Path]) -> None:
    import av

    for path in files:
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            _ = (stream.width, stream.height, stream.average_rate, stream.frames, stream.duration)


def _read_parquet(files: Sequence[Path]) -> None:
    import pyarrow.parquet as pq

    for path in files:
        pq.ParquetFile(path).read()


def write_rlds_dataset(dest: Path, size: int) -> Path:
    """Write shards of the sample's records under new keys; shards beyond the first four are hard links to those."""
    from ares.formats import read_record, scan_record_file
    from tests.generators.tfrecords import write_tfrecords

    source = next((DEMO_FOLDER / "samples" / "rlds").glob("*/*"))
    spans = [
        (str(shard), span)
        for shard in sorted(source.glob("*.tfrecord-*"))
        for span in scan_record_file(str(shard))
    ]
    records = [read_record(shard, span)[0] for shard, span in spans if isinstance(span, RecordLocation)]
    dest.mkdir(parents=True)
    shutil.copy(source / "features.json", dest)
    info = json.loads((source / "dataset_info.json").read_text())
    per_shard = min(size, _RECORDS) // _SHARDS
    shards = size // per_shard
    info["name"], info["splits"][0]["shardLengths"] = "grown", [str(per_shard)] * shards
    (dest / "dataset_info.json").write_text(json.dumps(info))
    for shard in range(shards):
        path = dest / f"grown-train.tfrecord-{shard:05d}-of-{shards:05d}"
        if shard < _SHARDS:
            first = shard * per_shard
            write_tfrecords(path, [records[(first + number) % len(records)] for number in range(per_shard)])
        else:
            path.hardlink_to(dest / f"grown-train.tfrecord-{shard % _SHARDS:05d}-of-{shards:05d}")
    return dest


def write_video_folder(dest: Path, episodes: int) -> Path:
    dest.mkdir(parents=True)
    fronts = sorted((DEMO_FOLDER / "samples" / "video" / "videos").glob("*_front.mp4"))
    first_copies: dict[Path, Path] = {}
    for number in range(episodes):
        front = fronts[number % len(fronts)]
        for camera in ("front", "wrist"):
            source = front.with_name(front.name.replace("_front", f"_{camera}"))
            path = dest / f"episode{number:05d}_{camera}.mp4"
            if source in first_copies:
                path.hardlink_to(first_copies[source])
            else:
                first_copies[source] = Path(shutil.copy(source, path))
    return dest
