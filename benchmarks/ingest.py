"""Benchmarks 1, 2, 3 and 18: ingestion of RLDS, LeRobot and video, against plain reading of the same files."""

from __future__ import annotations

import json
import math
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from app.demo import DEMO_FOLDER
from ares.formats import RecordSpan
from benchmarks.peers import peer_python, run_and_read_seconds
from benchmarks.synthetic_lerobot import write_lerobot_dataset
from benchmarks.timing import BenchmarkResult, time_alternately

_RECORDS = 600
_SHARDS = 4
# Enough that fixed costs do not matter: 7 GB, most of which stays in the file cache of the system.
_COPIES = 20
_VIDEOS = 600
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


def benchmark_rlds() -> Iterator[BenchmarkResult]:
    """Benchmark 1: records of 0.6 MB (those of a sample, under new keys), ingested by reference."""
    with tempfile.TemporaryDirectory() as folder:
        small_dataset = _write_rlds_dataset(Path(folder) / "grown" / "1.0.0", 1)
        python = peer_python("tensorflow", _TENSORFLOW)
        tensorflow_seconds = statistics.median(
            run_and_read_seconds(python, _READ_WITH_TENSORFLOW, str(small_dataset)) for _ in range(3)
        )
        for copies, rounds in ((1, 5), (_COPIES, 3)):
            dataset = (
                small_dataset
                if copies == 1
                else _write_rlds_dataset(Path(folder) / "large" / "1.0.0", copies)
            )
            megabytes = sum(path.stat().st_size for path in dataset.iterdir()) / 1e6
            ares_seconds, checksum_seconds = time_alternately(
                _ingest(str(dataset), 10.0), partial(_read_checksums, dataset), rounds=rounds
            )
            name = f"ingest {_RECORDS * copies:,} RLDS records, {megabytes / ares_seconds:.0f} MB/s"
            peer = f"reading the same bytes with their checksums, {megabytes / checksum_seconds:.0f} MB/s"
            yield BenchmarkResult(
                number=1,
                work=name,
                ours_seconds=ares_seconds,
                peer=peer,
                peer_seconds=checksum_seconds,
                target="ratio <= 2",
            )
            peer = f"TensorFlow iterating steps with images decoded, {_RECORDS} records, 3 runs"
            yield BenchmarkResult(
                number=1,
                work=name,
                ours_seconds=ares_seconds,
                peer=peer + (f", times {copies}" if copies > 1 else ""),
                peer_seconds=tensorflow_seconds * copies,
                target="ratio <= 0.02",
            )


def benchmark_lerobot() -> Iterator[BenchmarkResult]:
    """Benchmarks 2 and 18: LeRobot v3.0 episodes of 30 steps without videos, and the growth of the time."""
    seconds: list[float] = []
    for episodes, rounds in ((10_000, 3), (100_000, 1)):
        with tempfile.TemporaryDirectory() as folder:
            dataset = write_lerobot_dataset(Path(folder) / "made", episodes)
            files = sorted(dataset.rglob("*.parquet"))
            ares_seconds, read_seconds = time_alternately(
                _ingest(str(dataset), None), partial(_read_parquet, files), rounds
            )
        seconds.append(ares_seconds)
        yield BenchmarkResult(
            number=2,
            work=f"ingest {episodes:,} LeRobot episodes, {episodes / ares_seconds:.0f}/s",
            ours_seconds=ares_seconds,
            peer=f"pyarrow reading the same files, {episodes / read_seconds:.0f}/s",
            peer_seconds=read_seconds,
            target="ratio <= 3.33; 100,000 in a minute",
        )
    yield BenchmarkResult(
        number=18,
        work=f"ingest 100,000 LeRobot episodes (exponent {math.log10(seconds[1] / seconds[0]):.2f})",
        ours_seconds=seconds[1],
        peer="ten times the time of 10,000",
        peer_seconds=10 * seconds[0],
        target="linear or better",
    )


def benchmark_video() -> Iterator[BenchmarkResult]:
    """Benchmark 3: episodes of two mp4s (hard links to those of a sample), ingested by reference."""
    for episodes, rounds in ((_VIDEOS, 5), (10 * _VIDEOS, 3)):
        with tempfile.TemporaryDirectory() as folder:
            dataset = _write_video_folder(Path(folder) / "videos", episodes)
            files = sorted(dataset.glob("*.mp4"))
            ares_seconds, open_seconds = time_alternately(
                _ingest(str(dataset), None), partial(_open_headers, files), rounds
            )
        yield BenchmarkResult(
            number=3,
            work=f"ingest {len(files):,} mp4 files, {len(files) / ares_seconds:.0f}/s",
            ours_seconds=ares_seconds,
            peer=f"PyAV opening each and reading its header, {len(files) / open_seconds:.0f}/s",
            peer_seconds=open_seconds,
            target="ratio <= 2",
        )


def _ingest(dataset: str, rate_hz: float | None) -> Callable[[], object]:
    from ares.settings import settings_from_environment
    from ares.workspace import open_workspace
    from ingest.base import IngestOptions
    from ingest.pipeline import ingest_paths

    def work() -> None:
        with tempfile.TemporaryDirectory() as folder:
            ws = open_workspace(f"{folder}/workspace", settings_from_environment({}))
            report = ingest_paths(ws.stores, [dataset], IngestOptions(rate_hz=rate_hz), quiet=True).counts
            ws.close()
            if report.kept != report.planned:
                raise RuntimeError(f"kept {report.kept} of {report.planned}")

    return work


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


def _write_rlds_dataset(dest: Path, copies: int) -> Path:
    """Write shards of the sample's records under new keys; copies of a shard are hard links."""
    from ares.formats import find_records, read_record, write_records

    source = next((DEMO_FOLDER / "samples" / "rlds").glob("*/*"))
    spans = [
        (str(shard), span)
        for shard in sorted(source.glob("*.tfrecord-*"))
        for span in find_records(str(shard))
    ]
    records = [read_record(shard, span)[0] for shard, span in spans if isinstance(span, RecordSpan)]
    dest.mkdir(parents=True)
    shutil.copy(source / "features.json", dest)
    info = json.loads((source / "dataset_info.json").read_text())
    per_shard, shards = _RECORDS // _SHARDS, _SHARDS * copies
    info["name"], info["splits"][0]["shardLengths"] = "grown", [str(per_shard)] * shards
    (dest / "dataset_info.json").write_text(json.dumps(info))
    for shard in range(shards):
        path = dest / f"grown-train.tfrecord-{shard:05d}-of-{shards:05d}"
        if shard < _SHARDS:
            shard_records = [
                records[(shard * per_shard + number) % len(records)] for number in range(per_shard)
            ]
            write_records(path, shard_records)
        else:
            path.hardlink_to(dest / f"grown-train.tfrecord-{shard % _SHARDS:05d}-of-{shards:05d}")
    return dest


def _write_video_folder(dest: Path, episodes: int) -> Path:
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
