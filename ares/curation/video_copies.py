"""Finds episodes whose videos are copies of each other, by small decoded frames over time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from ares.console import count_of, print_message
from ares.curation.course_copies import (
    COURSE_RATE_HZ,
    CourseCopies,
    Courses,
    WindowRule,
    find_shared_steps,
    pair_courses,
)
from ares.errors import MediaError
from ares.media import SMALL_FRAME_PIXELS, small_frames
from ares.store import batched

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.curation.course_copies import Comparison
    from ares.episode import Episode, MediaRef
    from ares.media import FileCache
    from ares.store import Stores

    Frames = NDArray[np.float16]


# Shares of what moves in a video by which a copy may differ: one that is left out, and one that a split keeps with the
# other. Copies that were mirrored, cut, moved, zoomed, made brighter and encoded again stay below 0.06 (98 of 100);
# other episodes of one scripted task begin at 0.06, of people and policies at 0.19.
MOST_DIFFERENT, MOST_DIFFERENT_IN_DOUBT = 0.05, 0.12
# Below this spread, in levels of grey, a video is still.
_LEAST_LEVELS = 0.2
# Frequencies of a picture whose sum is at most this make the course that windows are compared in.
_MOST_FREQUENCY = 4
_WINDOWS = WindowRule(half=5, apart=3, cut=0.85, share=0.0, stride=2)
# Courses of pictures with a smaller correlation, signs aside, are not compared further, nor frames of which a first
# fit leaves more than this.
_LEAST_CORRELATION, _MOST_OF_FIRST_FIT = 0.7, 0.6
# Copies share so many steps, or all of the shorter one. Where that is shorter itself, and the other longer, they are in
# doubt: every motion of a scripted robot begins alike.
_LEAST_STEPS = 20
# Share of the still picture that a fit may leave: what stands elsewhere in a scene makes another episode.
_MOST_OF_BACKGROUND = 0.03
# What encoding leaves in the mean of a pixel, in squared levels of grey.
_ENCODING_NOISE = 0.05
# A copy has at least this share of the contrast, and lies at most so many of 16 pixels off.
_LEAST_CONTRAST, _MOST_PIXELS_OFF, _MOST_STEPS = 0.3, 2.0, 3
_EPISODES_AT_ONCE = 256


def find_video_copies(
    stores: Stores, ids: Sequence[str], most_different: float, seed: int = 0
) -> CourseCopies:
    """Compare the frames of every camera that can be decoded, ten times a second.

    Each frame becomes 16 x 16 pixels of grey, which the media cache keeps. Windows of their lowest frequencies propose
    pairs whatever is mirrored: at each fifth of a second where videos are few, else around fast and slow moments. What
    decides is how much of the moving picture of one video a fit from the other leaves unexplained, with free contrast,
    position, size and time within a step, as it is and mirrored.

    Args:
        stores: Stores of the workspace.
        ids: Ids of the episodes.
        most_different: Share of what moves by which copies may differ.
        seed: Of the search for pairs.
    """
    import numpy as np

    with tempfile.TemporaryDirectory(prefix="ares-videos-") as folder:
        videos = _Videos(Path(folder), _read_videos(stores, ids))
        comparable = np.zeros(len(ids), bool)
        comparable[videos.courses.positions] = True
        own, scores, near = pair_courses(
            videos.courses, _WINDOWS, _make_video_comparison(videos), 1 - most_different, seed
        )
        best: dict[tuple[int, int], float] = {}
        for (first, second), score in zip(own.tolist(), scores.tolist(), strict=True):
            positions = sorted((videos.courses.positions[first], videos.courses.positions[second]))
            pair = positions[0], positions[1]
            best[pair] = max(score, best.get(pair, 0.0))
    return CourseCopies(
        pairs=np.array(list(best), np.int64).reshape(-1, 2),
        scores=np.array(list(best.values())),
        comparable=comparable,
        searches=[near],
    )


def _read_videos(stores: Stores, ids: Sequence[str]) -> Iterator[tuple[int, Frames]]:
    """The position of an episode and the small frames of each of its cameras that can be decoded."""
    position_of = {episode_id: position for position, episode_id in enumerate(ids)}
    cache = stores.media_cache
    if len(ids) > _EPISODES_AT_ONCE:
        print_message(
            f"decodes the videos of {count_of(len(ids), 'episode', comma=True)} once, to compare them"
        )

    def read_cameras(episode: Episode) -> list[Frames]:
        return [frames for camera in episode.cameras for frames in _read_camera(camera.media, cache)]

    with ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="small-frames") as pool:
        for chunk in batched(ids, _EPISODES_AT_ONCE):
            episodes = stores.tables.episodes.get(chunk)
            for episode, cameras in zip(episodes, pool.map(read_cameras, episodes), strict=True):
                for frames in cameras:
                    yield position_of[episode.episode_id], frames


def _read_camera(media: MediaRef, cache: FileCache) -> list[Frames]:
    """The small frames of one camera; nothing of one that cannot be decoded."""
    import numpy as np

    try:
        flat = np.fromfile(small_frames(media, COURSE_RATE_HZ, cache), np.float16)
    except MediaError:
        return []
    return [flat.reshape(-1, SMALL_FRAME_PIXELS, SMALL_FRAME_PIXELS)]


class _Videos:
    """Small frames of videos in a file, and their courses.

    Args:
        folder: Where both wait.
        videos: The position of an episode and the frames (T, 16, 16) of a camera of it; an episode may have several.

    Attributes:
        courses: The lowest frequencies of each video that moves.
    """

    def __init__(self, folder: Path, videos: Iterable[tuple[int, Frames]]) -> None:
        basis = _make_frequencies()
        self.courses = Courses(folder / "courses", len(basis))
        self._file, self._starts = folder / "frames", [0]
        with self._file.open("wb") as file:
            for position, frames in videos:
                course = frames.reshape(len(frames), -1).astype("float32") @ basis.T
                spread = float(course.std(axis=0).max())
                if len(frames) > 1 and spread > _LEAST_LEVELS * SMALL_FRAME_PIXELS / 2:
                    self.courses.add(position, course / spread)
                    file.write(frames.tobytes())
                    self._starts.append(self._starts[-1] + len(frames))

    def frames(self, number: int) -> NDArray[np.float32]:
        """(T, 16, 16) of one video."""
        import numpy as np

        start, stop = self._starts[number : number + 2]
        pixels = SMALL_FRAME_PIXELS**2
        flat = np.fromfile(self._file, np.float16, (stop - start) * pixels, offset=2 * start * pixels)
        return flat.reshape(-1, SMALL_FRAME_PIXELS, SMALL_FRAME_PIXELS).astype(np.float32)


def _make_frequencies() -> NDArray[np.float32]:
    """(W, 256) cosines over a picture, of which a mirrored one only changes signs; without the mean of the picture."""
    import numpy as np

    steps = np.arange(SMALL_FRAME_PIXELS)
    waves = np.cos(np.pi / SMALL_FRAME_PIXELS * (steps + 0.5) * np.arange(_MOST_FREQUENCY + 1)[:, None])
    waves *= np.sqrt(2 / SMALL_FRAME_PIXELS)
    pairs = [
        (row, column)
        for row in range(_MOST_FREQUENCY + 1)
        for column in range(_MOST_FREQUENCY + 1 - row)
        if row + column
    ]
    return np.array([np.outer(waves[row], waves[column]).ravel() for row, column in pairs], np.float32)


def _make_video_comparison(videos: _Videos) -> Comparison:
    """Compares the frames of two videos where their courses may be copies."""

    def compare(first: int, second: int, shifts: Sequence[int]) -> float:
        left, right = videos.courses[first], videos.courses[second]
        correlation, shift = max(
            (_correlate_courses(left, right, shift + step), shift + step)
            for shift in shifts
            for step in (-1, 0, 1)
        )
        if correlation < _LEAST_CORRELATION:
            return 1.0
        start, stop = find_shared_steps(len(left), len(right), shift)
        is_in_doubt = stop - start < min(_LEAST_STEPS, max(len(left), len(right)) - 2)
        ours = videos.frames(first)[start:stop]
        theirs = videos.frames(second)[start - shift : stop - shift]
        mirrored = theirs[:, :, ::-1]
        nearest = max((theirs, mirrored), key=lambda frames: _multiply_motion(ours, frames))
        pictures = [frames.mean(axis=0, keepdims=True) for frames in (ours, nearest)]
        if min(map(_measure_unexplained, pictures, reversed(pictures))) > _MOST_OF_BACKGROUND:
            return 1.0
        different = min(_measure_unexplained(ours, nearest), _measure_unexplained(nearest, ours))
        return max(different, MOST_DIFFERENT_IN_DOUBT if is_in_doubt else 0.0)

    return compare


def _correlate_courses(left: NDArray[np.float32], right: NDArray[np.float32], shift: int) -> float:
    """Correlation of two courses (T, W) and (T', W) at a shift, signs aside; 0 where they share too little."""
    import numpy as np

    start, stop = find_shared_steps(len(left), len(right), shift)
    if stop - start < min(_LEAST_STEPS, len(left), len(right)):
        return 0.0
    ours, theirs = left[start:stop], right[start - shift : stop - shift]
    ours, theirs = ours - ours.mean(axis=0), theirs - theirs.mean(axis=0)
    lengths = float((ours**2).sum()) * float((theirs**2).sum())
    shared = float(np.abs((ours * theirs).sum(axis=0)).sum())
    return shared / float(np.sqrt(lengths) + 1e-6)


def _multiply_motion(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> float:
    """What moves in two videos (T, 16, 16), multiplied and summed."""
    return float(((ours - ours.mean(axis=0)) * theirs).sum())


def _measure_unexplained(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> float:
    """The share of what moves in one video (T, 16, 16), or of one picture (1, 16, 16), that no fit explains.

    The fit from the other is linear in the contrast and, for small changes, in position, size and time. Frames are
    moved by what it says, and fitted again.
    """
    import cv2
    import numpy as np

    target = _list_terms(theirs)[:, 0]
    energy, noise = float(target @ target) + 1e-6, _ENCODING_NOISE * len(target)
    off, best, moved = np.zeros(2), 1.0, ours
    for _ in range(_MOST_STEPS):
        terms = _list_terms(moved)
        normal, products = terms.T @ terms, terms.T @ target
        weights = np.linalg.solve(normal + 1e-3 * np.eye(len(normal)), products)
        if weights[0] < _LEAST_CONTRAST:
            break
        best = min(best, (energy - float(weights @ products) - noise) / energy)
        off += np.clip(weights[1:3] / weights[0], -1, 1)
        if best > _MOST_OF_FIRST_FIT or np.abs(off).max() > _MOST_PIXELS_OFF:
            break
        shift = np.array([[1, 0, -off[0]], [0, 1, -off[1]]], np.float32)
        size = SMALL_FRAME_PIXELS, SMALL_FRAME_PIXELS
        moved = np.stack(
            [cv2.warpAffine(frame, shift, size, borderMode=cv2.BORDER_REPLICATE) for frame in ours]
        )
    return max(best, 0.0)


def _list_terms(frames: NDArray[np.float32]) -> NDArray[np.float32]:
    """(T * 256, 4 or 5): frames (T, 16, 16) and how they change to the right, downwards, outwards, and over time.

    Without what stays: of a video its mean picture, of one picture its mean.
    """
    import numpy as np

    down, right = np.gradient(frames, axis=(1, 2))
    sides = np.linspace(-1, 1, SMALL_FRAME_PIXELS, dtype=np.float32)
    terms = [frames, right, down, right * sides + down * sides[:, None]]
    if len(frames) > 1:
        terms.append(np.gradient(frames, axis=0))
    still = 0 if len(frames) > 1 else None
    return np.stack([(term - term.mean(axis=still)).ravel() for term in terms], axis=1)
