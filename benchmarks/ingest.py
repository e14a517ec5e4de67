"""Ingest: RLDS and raw video into a workspace, against TensorFlow and against the least that must be read."""

from __future__ import annotations

import json
import math
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from app.demo.run import HERE
from ares.media.tfrecord import Place
from benchmarks.growth import made_lerobot
from benchmarks.peers import peer_python, seconds_in
from benchmarks.timing import Row, in_turn

_RECORDS = 600
_SHARDS = 4
# Enough for fixed costs not to decide: 7 GB, of which most stays in the system's file cache.
_TIMES = 20
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


def rlds() -> Iterator[Row]:
    """Benchmark 1: records of 0.6 MB (a sample's, under new keys), ingested by reference."""
    with tempfile.TemporaryDirectory() as folder:
        small = _grown_rlds(Path(folder) / "grown" / "1.0.0", 1)
        python = peer_python("tensorflow", _TENSORFLOW)
        theirs = statistics.median(seconds_in(python, _READ_WITH_TENSORFLOW, str(small)) for _ in range(3))
        for times, rounds in ((1, 5), (_TIMES, 3)):
            dataset = small if times == 1 else _grown_rlds(Path(folder) / "large" / "1.0.0", times)
            megabytes = sum(path.stat().st_size for path in dataset.iterdir()) / 1e6
            ours, checked = in_turn(
                _ingest(str(dataset), 10.0), partial(_check_bytes, dataset), rounds=rounds
            )
            name = f"ingest {_RECORDS * times:,} RLDS records, {megabytes / ours:.0f} MB/s"
            peer = f"reading the same bytes with their checksums, {megabytes / checked:.0f} MB/s"
            yield Row(
                number=1, work=name, ours_seconds=ours, peer=peer, peer_seconds=checked, target="ratio <= 2"
            )
            peer = f"TensorFlow iterating steps with images decoded, {_RECORDS} records, 3 runs"
            yield Row(
                number=1,
                work=name,
                ours_seconds=ours,
                peer=peer + (f", times {times}" if times > 1 else ""),
                peer_seconds=theirs * times,
                target="ratio <= 0.02",
            )


def lerobot() -> Iterator[Row]:
    """Benchmarks 2 and 18: LeRobot v3.0 episodes of 30 steps without videos, and how the time grows with them."""
    seconds: list[float] = []
    for episodes, rounds in ((10_000, 3), (100_000, 1)):
        with tempfile.TemporaryDirectory() as folder:
            dataset = made_lerobot(Path(folder) / "made", episodes)
            files = sorted(dataset.rglob("*.parquet"))
            ours, read = in_turn(_ingest(str(dataset), None), partial(_read_parquet, files), rounds)
        seconds.append(ours)
        yield Row(
            number=2,
            work=f"ingest {episodes:,} LeRobot episodes, {episodes / ours:.0f}/s",
            ours_seconds=ours,
            peer=f"pyarrow reading the same files, {episodes / read:.0f}/s",
            peer_seconds=read,
            target="ratio <= 3.33; 100,000 in a minute",
        )
    yield Row(
        number=18,
        work=f"ingest 100,000 LeRobot episodes (exponent {math.log10(seconds[1] / seconds[0]):.2f})",
        ours_seconds=seconds[1],
        peer="ten times the time of 10,000",
        peer_seconds=10 * seconds[0],
        target="linear or better",
    )


def video() -> Iterator[Row]:
    """Benchmark 3: episodes of two mp4s (hard links to a sample's), ingested by reference."""
    for episodes, rounds in ((_VIDEOS, 5), (10 * _VIDEOS, 3)):
        with tempfile.TemporaryDirectory() as folder:
            dataset = _grown_video(Path(folder) / "videos", episodes)
            files = sorted(dataset.glob("*.mp4"))
            ours, opened = in_turn(_ingest(str(dataset), None), partial(_open_headers, files), rounds)
        yield Row(
            number=3,
            work=f"ingest {len(files):,} mp4 files, {len(files) / ours:.0f}/s",
            ours_seconds=ours,
            peer=f"PyAV opening each and reading its header, {len(files) / opened:.0f}/s",
            peer_seconds=opened,
            target="ratio <= 2",
        )


def _ingest(dataset: str, rate_hz: float | None) -> Callable[[], object]:
    from ares.settings import from_environment
    from ares.workspace import open_workspace
    from ingest.base import Options
    from ingest.load import load

    def work() -> None:
        with tempfile.TemporaryDirectory() as folder:
            ws = open_workspace(f"{folder}/workspace", from_environment({}))
            report = load(ws, [dataset], Options(rate_hz=rate_hz), quiet=True).report
            ws.close()
            if report.kept != report.planned:
                raise RuntimeError(f"kept {report.kept} of {report.planned}")

    return work


def _check_bytes(dataset: Path) -> None:
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


def _grown_rlds(dest: Path, times: int) -> Path:
    """Shards of the sample's records under new keys; each shard stands there several times, as a hard link."""
    from ares.media.tfrecord import places, read_record, write_records

    source = next((HERE / "samples" / "rlds").glob("*/*"))
    found = [
        (str(shard), place) for shard in sorted(source.glob("*.tfrecord-*")) for place in places(str(shard))
    ]
    records = [read_record(shard, place)[0] for shard, place in found if isinstance(place, Place)]
    dest.mkdir(parents=True)
    shutil.copy(source / "features.json", dest)
    info = json.loads((source / "dataset_info.json").read_text())
    per_shard, shards = _RECORDS // _SHARDS, _SHARDS * times
    info["name"], info["splits"][0]["shardLengths"] = "grown", [str(per_shard)] * shards
    (dest / "dataset_info.json").write_text(json.dumps(info))
    for shard in range(shards):
        path = dest / f"grown-train.tfrecord-{shard:05d}-of-{shards:05d}"
        if shard < _SHARDS:
            chosen = [records[(shard * per_shard + number) % len(records)] for number in range(per_shard)]
            write_records(path, chosen)
        else:
            path.hardlink_to(dest / f"grown-train.tfrecord-{shard % _SHARDS:05d}-of-{shards:05d}")
    return dest


def _grown_video(dest: Path, episodes: int) -> Path:
    dest.mkdir(parents=True)
    fronts = sorted((HERE / "samples" / "video" / "videos").glob("*_front.mp4"))
    first: dict[Path, Path] = {}
    for number in range(episodes):
        front = fronts[number % len(fronts)]
        for camera in ("front", "wrist"):
            source = front.with_name(front.name.replace("_front", f"_{camera}"))
            path = dest / f"episode{number:05d}_{camera}.mp4"
            if source in first:
                path.hardlink_to(first[source])
            else:
                first[source] = Path(shutil.copy(source, path))
    return dest
