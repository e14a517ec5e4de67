"""Benchmark 6: eight frames from each of many episodes in random order, against opening each file without an index."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from ares.episode import Episode
from ares.formats import RecordSpan
from benchmarks.timing import BenchmarkResult, time_alternately

_EPISODES = 200
_FRAMES = 8


def benchmark_frame_access() -> Iterator[BenchmarkResult]:
    """Compare on the samples: JPEG images inside TFRecords, and H.264 files."""
    from app.demo import DEMO_FOLDER
    from ares.settings import settings_from_environment
    from ares.workspace import open_workspace
    from ingest.base import IngestOptions
    from ingest.pipeline import ingest_paths

    with tempfile.TemporaryDirectory() as folder:
        ws = open_workspace(f"{folder}/workspace", settings_from_environment({}))
        ingest_paths(
            ws.stores,
            [str(DEMO_FOLDER / "samples" / name) for name in ("rlds", "video")],
            IngestOptions(rate_hz=10.0),
            quiet=True,
        )
        episodes = sorted(ws.stores.tables.episodes.read(), key=lambda episode: episode.episode_id)
        ws.close()
    record_requests = _random_requests([episode for episode in episodes if episode.format == "rlds"])
    video_requests = _random_requests([episode for episode in episodes if episode.format == "video"])
    ours, peer = time_alternately(
        lambda: _read_frames(record_requests), lambda: _scan_shards(record_requests), rounds=5
    )
    yield _result(
        "images in TFRecords", ours, "the shard read up to the record, all its images decoded", peer, 1 / 3
    )
    ours, peer = time_alternately(
        lambda: _read_frames(video_requests), lambda: _decode_videos(video_requests), rounds=5
    )
    yield _result(
        "H.264 files of 5 s", ours, "PyAV opened per file, decoded up to the last frame asked", peer, 1
    )


def _result(
    source: str, ares_seconds: float, peer: str, peer_seconds: float, max_ratio: float
) -> BenchmarkResult:
    name = f"{_FRAMES} frames of {_EPISODES} random episodes, {source}"
    return BenchmarkResult(
        number=6,
        work=name,
        ours_seconds=ares_seconds,
        peer=peer,
        peer_seconds=peer_seconds,
        target=f"ratio <= {max_ratio:.2f}",
    )


def _random_requests(episodes: Sequence[Episode]) -> list[tuple[Episode, list[float]]]:
    rng = random.Random(6)
    selected = [rng.choice(episodes) for _ in range(_EPISODES)]
    return [
        (episode, sorted(rng.uniform(0, episode.duration_seconds) for _ in range(_FRAMES)))
        for episode in selected
    ]


def _read_frames(requests: Sequence[tuple[Episode, list[float]]]) -> None:
    from ares.media import frames_at

    for episode, seconds in requests:
        frames_at(episode.cameras[0].media, seconds)


def _scan_shards(requests: Sequence[tuple[Episode, list[float]]]) -> None:
    from ares.formats import find_records, parse_example, read_record
    from ares.input import decode_image

    for episode, _ in requests:
        ref = episode.cameras[0].media
        for span in find_records(ref.uri):
            if isinstance(span, RecordSpan):
                payload, _ = read_record(ref.uri, span)
                if span.offset == ref.byte_offset:
                    images = parse_example(payload, ref.uri)[ref.key].bytes_list.value
                    _ = [decode_image(image, ref.uri) for image in images]
                    break


def _decode_videos(requests: Sequence[tuple[Episode, list[float]]]) -> None:
    import av

    for episode, seconds in requests:
        frame_numbers = {int(time * episode.rate_hz) for time in seconds}
        with av.open(str(Path(episode.cameras[0].media.uri))) as video:
            for number, frame in enumerate(islice(video.decode(video=0), max(frame_numbers) + 1)):
                if number in frame_numbers:
                    frame.to_ndarray(format="rgb24")
