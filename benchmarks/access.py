"""Benchmark 6: eight frames from each of many episodes in random order, against opening each file without an index."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import ares
from ares.episode import Episode
from ares.formats import RecordLocation
from ares_app.demo import DEMO_FOLDER
from benchmarks.timing import BenchmarkResult, time_alternately

_FRAMES = 8
# Episodes with the seconds of the frames that are asked of each.
Requests = list[tuple[Episode, list[float]]]


def benchmark_frame_access(sizes: Sequence[int] = (200,), rounds: int = 5) -> Iterator[BenchmarkResult]:
    """Compare on so many random episodes of the samples: JPEG images inside TFRecords, and H.264 files."""
    by_format = {name: _sample_episodes(name) for name in ("rlds", "video")}
    sides: list[tuple[str, str, str, float, Callable[[Requests], None]]] = [
        (
            "rlds",
            "images in TFRecords",
            "the shard read up to the record, all its images decoded",
            1 / 3,
            _scan_shards,
        ),
        (
            "video",
            "H.264 files of 5 s",
            "PyAV opened per file, decoded up to the last frame asked",
            1,
            _decode_videos,
        ),
    ]
    for size in sizes:
        for name, source, peer, max_ratio, read_with_peer in sides:
            requests = _random_requests(by_format[name], size)
            ours, theirs = time_alternately(
                partial(_read_frames, requests), partial(read_with_peer, requests), min(rounds, 5)
            )
            yield BenchmarkResult(
                number=6,
                work=f"{_FRAMES} frames of {size} random episodes, {source}",
                ours_seconds=ours,
                peer=peer,
                peer_seconds=theirs,
                target=f"ratio <= {max_ratio:.2f}",
            )


def _sample_episodes(name: str) -> list[Episode]:
    """The episodes of a sample, ingested into a separate workspace."""
    with tempfile.TemporaryDirectory() as folder, ares.open(f"{folder}/workspace", create=True) as ws:
        # A rate is for one dataset: videos say theirs, and the records of the other sample none.
        ws.ingest(DEMO_FOLDER / "samples" / name, rate_hz=10.0 if name == "rlds" else None, quiet=True)
        return sorted(ws.stores.tables.episodes.read(), key=lambda episode: episode.episode_id)


def _random_requests(episodes: Sequence[Episode], count: int) -> Requests:
    rng = random.Random(6)
    selected = [rng.choice(episodes) for _ in range(count)]
    return [
        (episode, sorted(rng.uniform(0, episode.duration_seconds) for _ in range(_FRAMES)))
        for episode in selected
    ]


def _read_frames(requests: Requests) -> None:
    from ares.media import frames_at

    for episode, seconds in requests:
        frames_at(episode.cameras[0].media, seconds)


def _scan_shards(requests: Requests) -> None:
    from ares.formats import parse_tf_example, read_record, scan_record_file
    from ares.input import decode_image

    for episode, _ in requests:
        ref = episode.cameras[0].media
        for span in scan_record_file(ref.uri):
            if isinstance(span, RecordLocation):
                payload, _ = read_record(ref.uri, span)
                if span.offset == ref.byte_offset:
                    images = parse_tf_example(payload, ref.uri)[ref.key].bytes_list.value
                    _ = [decode_image(image, ref.uri) for image in images]
                    break


def _decode_videos(requests: Requests) -> None:
    import av

    for episode, seconds in requests:
        frame_numbers = {int(time * episode.rate_hz) for time in seconds}
        with av.open(str(Path(episode.cameras[0].media.uri))) as video:
            for number, frame in enumerate(islice(video.decode(video=0), max(frame_numbers) + 1)):
                if number in frame_numbers:
                    frame.to_ndarray(format="rgb24")
