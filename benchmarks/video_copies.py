"""Near copies among videos without signals: splits of drawn worlds, and changed copies of given videos."""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import ares
from ares.curation import find_copies
from ares.media import VideoEncoding, encode_mp4, frames_at
from ares.statistics import wilson_interval
from benchmarks.near_duplicates import draw_course

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.curation import CopyPair

    Film = list[NDArray[np.uint8]]

CHANGES = (
    "shifted", "recompressed", "JPEG", "mirrored", "cut", "cropped", "brighter", "boxed", "stamped", "all"
)  # fmt: skip
_SIDE, _TASKS = 96, 3
# Seconds that a copy that is cut in time keeps at least.
_LEAST_SECONDS = 2.0


def main() -> None:
    """Measure one part and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("worlds", "recorded"))
    parser.add_argument("--worlds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0, help="of the first world, or of the changes")
    parser.add_argument("--episodes", type=int, default=14, help="of a world, without the copies")
    parser.add_argument(
        "--source", action="append", default=[], help="folder that `ares ingest` reads; several are allowed"
    )
    args = parser.parse_args()
    if args.part == "worlds":
        print("\n".join(measure_worlds(args.worlds, args.seed, args.episodes)))
    else:
        print("\n".join(measure_recorded(args.source, args.seed)))


@dataclass(slots=True, kw_only=True)
class CopyCounts:
    """What was planted and told, summed over worlds.

    Attributes:
        planted: Copies by change.
        hits: Those that were told.
        others: Pairs that were told and not planted.
        negatives: Pairs of different episodes that were compared.
        leaks: Planted copies on two sides of a split.
    """

    planted: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)
    others: int = 0
    negatives: int = 0
    leaks: int = 0

    def add(self, planted: dict[frozenset[str], str], told: set[frozenset[str]], episodes: int) -> None:
        """Count one world, or one change of all videos."""
        self.planted.update(planted.values())
        self.hits.update(change for pair, change in planted.items() if pair in told)
        self.others += len(told - planted.keys())
        self.negatives += episodes * (episodes - 1) // 2 - len(planted)

    def lines(self, way: str) -> Iterator[str]:
        """Recall by change and together, and precision."""
        for change in CHANGES:
            if self.planted[change]:
                yield f"{way}: recall, {change}: {_describe_share(self.hits[change], self.planted[change])}"
        total = self.hits.total()
        yield f"{way}: recall of pairs: {_describe_share(total, self.planted.total())}"
        yield f"{way}: precision of pairs: {_describe_share(total, total + self.others)}"
        yield f"{way}: different episodes called copies: {self.others} of {self.negatives} pairs"


def _describe_share(hits: int, total: int) -> str:
    low, high = wilson_interval(hits, total)
    return f"{hits} of {total} = {hits / max(total, 1):.4f} ({low:.4f} to {high:.4f})"


def measure_worlds(worlds: int, first_seed: int, episodes: int) -> Iterator[str]:
    """Split drawn worlds of videos, and count planted copies on two sides, and pairs that were told."""
    linked, certain = CopyCounts(), CopyCounts()
    for seed in range(first_seed, first_seed + worlds):
        with (
            tempfile.TemporaryDirectory() as folder,
            ares.open(f"{folder}/workspace", create=True) as ws,
        ):
            copies = write_world(Path(folder) / "films", seed, episodes)
            ws.ingest(f"{folder}/films")
            ws.sets.create("all", where="true")
            _, plan = ws.sets.split("all", {"train": 0.7, "val": 0.3}, seed=seed)
            id_of = {row["key"]: row["episode_id"] for row in _list_keys(ws)}
            planted = {frozenset((id_of[a], id_of[b])): change for (a, b), change in copies.items()}
            side = {episode_id: part for part, ids in plan.parts.items() for episode_id in ids}
            linked.leaks += sum(len({side[episode_id] for episode_id in pair}) > 1 for pair in planted)
            linked.add(planted, _name_pairs(plan.copies.linked), len(side))
            certain.add(planted, _name_pairs(plan.copies.pairs), len(side))
    yield f"{worlds} worlds of {episodes} videos, seeds from {first_seed}"
    yield f"planted copies on two sides: {linked.leaks} of {linked.planted.total()}"
    yield from linked.lines("split")
    yield from certain.lines("dedupe")


def _name_pairs(pairs: Iterable[CopyPair]) -> set[frozenset[str]]:
    return {frozenset((pair.first, pair.second)) for pair in pairs}


def _list_keys(ws: ares.Workspace) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = ws.episodes.to_arrow(["episode_id", "key"]).to_pylist()
    return rows


def write_world(folder: Path, seed: int, episodes: int) -> dict[tuple[str, str], str]:
    """Write the videos of one camera before one scene, and changed copies of every second one.

    Returns:
        The change by the names of an original and its copy.
    """
    import numpy as np

    rng = np.random.default_rng((37, seed))
    folder.mkdir()
    scene = _draw_texture(rng, 3, 40, 200)
    waypoints, variation = rng.normal(size=(_TASKS, 6, 7)), rng.uniform(0.15, 0.4)
    planted = {}
    for number in range(episodes):
        rate_hz = float(rng.choice([10.0, 15.0, 20.0]))
        course = draw_course(rng, waypoints[int(rng.integers(_TASKS))], variation)[
            : int(rng.integers(30, 70))
        ]
        film = _draw_film(rng, scene, course, rate_hz)
        name = f"{number:03d}.mp4"
        _write_film(folder / name, film, rate_hz, 21)
        if number % 2 == 0:
            change = CHANGES[(number // 2 + 7 * seed) % len(CHANGES)]
            copy = f"{number:03d}-copy.mp4"
            changed, changed_rate, quality = change_film(rng, film, rate_hz, change)
            _write_film(folder / copy, changed, changed_rate, quality)
            planted[name, copy] = change
    return planted


def _draw_texture(rng: np.random.Generator, coarse: int, low: int, high: int) -> NDArray[np.uint8]:
    """(96, 96, 3) smooth colours."""
    import cv2
    import numpy as np

    rough = rng.integers(low, high, (coarse, coarse, 3), np.uint8)
    return np.asarray(cv2.resize(rough, (_SIDE, _SIDE), interpolation=cv2.INTER_CUBIC), np.uint8)


def _draw_film(
    rng: np.random.Generator, scene: NDArray[np.uint8], course: NDArray[np.float64], rate_hz: float
) -> Film:
    """Frames of an arm of two links whose tip follows a course, ten steps a second, over discs that lie about."""
    import cv2
    import numpy as np

    picture = scene.copy()
    for _ in range(3):
        centre, colour = rng.integers(15, _SIDE - 15, 2), rng.integers(0, 256, 3)
        cv2.circle(picture, centre.tolist(), int(rng.integers(4, 8)), colour.tolist(), -1)
    times = np.arange(0, (len(course) - 1) / 10, 1 / rate_hz)
    grid = np.arange(len(course)) / 10
    tips = np.stack([np.interp(times, grid, column) for column in course[:, :2].T], axis=1)
    tips = np.clip(_SIDE / 2 + tips * _SIDE / 7, 4, _SIDE - 4).astype(int)
    film, shoulder = [], (_SIDE // 2, 0)
    for x, y in tips.tolist():
        frame = picture.copy()
        elbow = ((shoulder[0] + x) // 2 + 10, (shoulder[1] + y) // 2)
        cv2.line(frame, shoulder, elbow, (210, 210, 220), 6)
        cv2.line(frame, elbow, (x, y), (180, 40, 40), 5)
        cv2.circle(frame, (x, y), 4, (20, 20, 20), -1)
        film.append(frame)
    return film


def _write_film(path: Path, film: Sequence[NDArray[np.uint8]], rate_hz: float, quality: int) -> None:
    options = {"preset": "veryfast", "crf": str(quality), "sc_threshold": "0", "mbtree": "0"}
    encode_mp4(film, path, rate_hz, VideoEncoding("libx264", options))


def change_film(rng: np.random.Generator, film: Film, rate_hz: float, change: str) -> tuple[Film, float, int]:
    """A changed copy, its rate and the quality (crf) of its encoding."""
    import numpy as np

    if change == "all":
        for part in ("mirrored", "cut", "brighter"):
            film, rate_hz, _ = change_film(rng, film, rate_hz, part)
        return film, rate_hz, int(rng.integers(28, 36))
    if change == "shifted":  # begins later, and the camera was moved a little
        still = [film[0]] * int(rate_hz * rng.uniform(0.3, 1.5))
        right, down = rng.integers(1, 4, 2) * rng.choice([-1, 1], 2) * max(1, film[0].shape[1] // 96)
        return [_move_frame(frame, int(right), int(down)) for frame in [*still, *film]], rate_hz, 21
    if change == "recompressed":
        other_hz = float(rng.choice([10.0, 12.0, 25.0, 30.0]))
        numbers = np.arange(0, len(film) / rate_hz, 1 / other_hz) * rate_hz
        numbers = np.minimum(numbers.astype(int), len(film) - 1)
        return [film[number] for number in numbers.tolist()], other_hz, int(rng.integers(30, 41))
    if change == "cut":
        kept = max(int(len(film) * rng.uniform(0.5, 0.9)), min(len(film), int(_LEAST_SECONDS * rate_hz)))
        start = int(rng.integers(0, len(film) - kept + 1))
        return film[start : start + kept], rate_hz, 21
    if change == "cropped":
        return _crop_film(rng, film), rate_hz, 21
    if change in ("boxed", "stamped"):
        return list(_cover_corner(rng, film, rate_hz, is_stamp=change == "stamped")), rate_hz, 21
    contrast, level = rng.uniform(0.75, 1.25), rng.uniform(-25, 25)
    by_change: dict[str, Callable[[NDArray[np.uint8]], NDArray[np.uint8]]] = {
        "JPEG": _compress_frame,
        "mirrored": lambda frame: np.ascontiguousarray(frame[:, ::-1]),
        "brighter": lambda frame: np.clip(frame * contrast + level, 0, 255).astype(np.uint8),
    }
    return [by_change[change](frame) for frame in film], rate_hz, 21


def _crop_film(rng: np.random.Generator, film: Film) -> Film:
    """Frames without up to 8 % of their width and height, as large as before."""
    import cv2
    import numpy as np

    kept = 1 - rng.uniform(0.02, 0.08)
    height, width = film[0].shape[:2]
    rows, columns = int(height * kept), int(width * kept)
    top, left = (int(rng.integers(0, whole - part + 1)) for whole, part in ((height, rows), (width, columns)))
    parts = (frame[top : top + rows, left : left + columns] for frame in film)
    sized = (cv2.resize(part, (width, height), interpolation=cv2.INTER_AREA) for part in parts)
    return [np.asarray(frame, np.uint8) for frame in sized]


def _cover_corner(
    rng: np.random.Generator, film: Film, rate_hz: float, *, is_stamp: bool
) -> Iterator[NDArray[np.uint8]]:
    """Frames with a box of one colour over a corner, and with a running time on it."""
    import cv2

    height, width = film[0].shape[:2]
    box_width, box_height = int(width * rng.uniform(0.15, 0.35)), int(height * rng.uniform(0.06, 0.15))
    left = (width - box_width) * int(rng.integers(2))
    top = (height - box_height) * int(rng.integers(2))
    colour, begin = rng.integers(0, 256, 3).tolist(), rng.uniform(0, 80_000)
    for number, frame in enumerate(film):
        covered = frame.copy()
        cv2.rectangle(covered, (left, top), (left + box_width - 1, top + box_height - 1), colour, -1)
        if is_stamp:
            second = begin + number / rate_hz
            text = f"{int(second // 60)}:{second % 60:04.1f}"
            place, scale = (left + 1, top + box_height - 2), box_width / 70
            cv2.putText(covered, text, place, cv2.FONT_HERSHEY_PLAIN, scale, (255, 255, 255))
        yield covered


def _move_frame(frame: NDArray[np.uint8], right: int, down: int) -> NDArray[np.uint8]:
    """A frame moved by some pixels, its border repeated."""
    import cv2
    import numpy as np

    matrix, size = np.array([[1, 0, right], [0, 1, down]], np.float32), (frame.shape[1], frame.shape[0])
    return np.asarray(cv2.warpAffine(frame, matrix, size, borderMode=cv2.BORDER_REPLICATE), np.uint8)


def _compress_frame(frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A frame through JPEG of quality 30."""
    import cv2
    import numpy as np

    data = cv2.imencode(".jpg", frame, [cv2.IMWRITE_JPEG_QUALITY, 30])[1]
    return np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR), np.uint8)


def measure_recorded(sources: Sequence[str], seed: int) -> Iterator[str]:
    """Change the first camera of each episode in every way, one way at a time, and look for the copies."""
    import numpy as np

    counted = {way: CopyCounts() for way in ("split", "dedupe")}
    with tempfile.TemporaryDirectory() as folder, ares.open(f"{folder}/source", create=True) as source:
        for path in sources:
            source.ingest(path)
        films = {}
        for episode in source.stores.tables.episodes.read():
            media = episode.cameras[0].media
            seconds = [number / media.rate_hz for number in range(media.num_frames)]
            films[episode.content_hash] = list(frames_at(media, seconds)), media.rate_hz
        yield f"{len(films)} videos of {', '.join(Path(path).name for path in sources)}, seed {seed}"
        for change in CHANGES:
            with ares.open(f"{folder}/{change}", create=True) as ws:
                films_folder = Path(folder, f"{change}-films")
                films_folder.mkdir()
                for number, (film, rate_hz) in enumerate(films.values()):
                    rng = np.random.default_rng((38, seed, number))
                    _write_film(films_folder / f"{number:03d}.mp4", film, rate_hz, 21)
                    _write_film(
                        films_folder / f"{number:03d}-copy.mp4", *change_film(rng, film, rate_hz, change)
                    )
                ws.ingest(str(films_folder))
                id_of = {row["key"]: row["episode_id"] for row in _list_keys(ws)}
                planted = {
                    frozenset((id_of[key], id_of[key.replace(".mp4", "-copy.mp4")])): change
                    for key in id_of
                    if "-copy" not in key
                }
                copies = find_copies(ws.stores, list(id_of.values()))
                counted["split"].add(planted, _name_pairs(copies.linked), len(id_of))
                counted["dedupe"].add(planted, _name_pairs(copies.pairs), len(id_of))
    for way, counts in counted.items():
        yield from counts.lines(way)


if __name__ == "__main__":
    main()
