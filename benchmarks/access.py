"""Access: eight frames from each of many episodes in random order, against opening each file without an index."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from ares.episode import Episode
from ares.media.tfrecord import Place
from benchmarks.timing import Row, in_turn

_EPISODES = 200
_FRAMES = 8


def access() -> Iterator[Row]:
    """Benchmark 6 on the samples: JPEG images inside TFRecords, and H.264 files."""
    from app.demo.run import HERE
    from ares.settings import from_environment
    from ares.workspace import open_workspace
    from ingest.base import Options
    from ingest.load import load

    with tempfile.TemporaryDirectory() as folder:
        ws = open_workspace(f"{folder}/workspace", from_environment({}))
        load(
            ws,
            [str(HERE / "samples" / name) for name in ("rlds", "video")],
            Options(rate_hz=10.0),
            quiet=True,
        )
        stored = sorted(ws.episodes(), key=lambda episode: episode.episode_id)
        ws.close()
    records = _asked([episode for episode in stored if episode.format == "rlds"])
    videos = _asked([episode for episode in stored if episode.format == "video"])
    ours, peer = in_turn(lambda: _frames_at(records), lambda: _scan(records), rounds=5)
    yield _row(
        "images in TFRecords", ours, "the shard read up to the record, all its images decoded", peer, 1 / 3
    )
    ours, peer = in_turn(lambda: _frames_at(videos), lambda: _decode(videos), rounds=5)
    yield _row(
        "H.264 files of 5 s", ours, "PyAV opened per file, decoded up to the last frame asked", peer, 1
    )


def _row(what: str, ours: float, peer: str, theirs: float, target: float) -> Row:
    name = f"{_FRAMES} frames of {_EPISODES} random episodes, {what}"
    return Row(
        number=6,
        work=name,
        ours_seconds=ours,
        peer=peer,
        peer_seconds=theirs,
        target=f"ratio <= {target:.2f}",
    )


def _asked(episodes: Sequence[Episode]) -> list[tuple[Episode, list[float]]]:
    chance = random.Random(6)
    chosen = [chance.choice(episodes) for _ in range(_EPISODES)]
    return [(one, sorted(chance.uniform(0, one.duration_seconds) for _ in range(_FRAMES))) for one in chosen]


def _frames_at(asked: Sequence[tuple[Episode, list[float]]]) -> None:
    from ares.media.frames import frames_at

    for episode, seconds in asked:
        frames_at(episode.cameras[0].media, seconds)


def _scan(asked: Sequence[tuple[Episode, list[float]]]) -> None:
    from ares.media.tfrecord import decode_image, parse_example, places, read_record

    for episode, _ in asked:
        ref = episode.cameras[0].media
        for place in places(ref.uri):
            if isinstance(place, Place):
                payload, _ = read_record(ref.uri, place)
                if place.offset == ref.byte_offset:
                    images = parse_example(payload, ref.uri)[ref.key].bytes_list.value
                    _ = [decode_image(image, ref.uri) for image in images]
                    break


def _decode(asked: Sequence[tuple[Episode, list[float]]]) -> None:
    import av

    for episode, seconds in asked:
        wanted = {int(second * episode.rate_hz) for second in seconds}
        with av.open(str(Path(episode.cameras[0].media.uri))) as video:
            for number, frame in enumerate(islice(video.decode(video=0), max(wanted) + 1)):
                if number in wanted:
                    frame.to_ndarray(format="rgb24")
