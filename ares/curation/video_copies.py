"""Finds episodes whose videos are copies of each other, by small decoded frames over time."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from ares.console import count_of, print_message
from ares.curation.trajectory_pairs import (
    COMPARED_RATE_HZ,
    StoredTrajectories,
    WindowRule,
    count_moving_steps,
    find_shared_steps,
    propose_pairs,
)
from ares.errors import MediaError
from ares.media import SMALL_FRAME_PIXELS, small_frames
from ares.store import batched

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Episode, MediaRef
    from ares.media import FileCache
    from ares.store import Stores

    Frames = NDArray[np.float16]
    Picture = NDArray[np.float32]


# Below this spread, in levels of grey, a video is still.
_LEAST_LEVELS = 0.2
# Frequencies of a picture whose sum is at most this make the trajectory that windows are compared in.
_MOST_FREQUENCY = 4
_WINDOWS = WindowRule(half=5, apart=3, cut=0.85, share=0.2, stride=2)
# Trajectories of pictures with a smaller correlation, signs aside, are not compared further, nor frames of which a
# first fit leaves more than this.
_LEAST_CORRELATION, _MOST_OF_FIRST_FIT = 0.5, 0.6
# Copies share so many steps, or all of the shorter one. Where that is shorter itself, and the other longer, they are in
# doubt: every motion of a scripted robot begins alike.
_LEAST_STEPS, _IN_DOUBT = 20, 0.1
# Share of the still picture that a fit may leave: what stands elsewhere in a scene makes another episode.
_MOST_OF_BACKGROUND = 0.03
# What encoding leaves in the mean of a pixel, in squared levels of grey.
_ENCODING_NOISE = 0.05
# A copy has at least this share of the contrast, and lies at most so many of 16 pixels off.
_LEAST_CONTRAST, _MOST_PIXELS_OFF, _MOST_STEPS = 0.3, 2.0, 3
# Pixels of 256 that a box or a time stamp over a corner may hide, and the share of what moves that is seen beside it.
_MOST_HIDDEN, _LEAST_SEEN_MOTION = 40, 0.7
_EPISODES_AT_ONCE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoMatch:
    """How two videos agree.

    Attributes:
        different: Share of what moves in one that the other does not explain, 0 to 1.
        is_mirrored: Whether one shows the other mirrored left to right.
    """

    different: float
    is_mirrored: bool = False


_NO_MATCH = VideoMatch(different=1.0)


class SmallVideos:
    """Small frames of every camera of some episodes that can be decoded, in files.

    Each frame, ten times a second, becomes 16 x 16 pixels of grey, which the media cache keeps.

    Args:
        stores: Stores of the workspace.
        ids: Ids of all episodes.
        positions: Those of which frames are read, rising, in `ids`.
        folder: Where the frames wait.

    Attributes:
        moving: By position of an episode whose video moves the tenths of a second from its first to its last motion.
        unreadable: Positions of episodes that have cameras, of which none can be decoded.
    """

    def __init__(self, stores: Stores, ids: Sequence[str], positions: Sequence[int], folder: Path) -> None:
        self.moving: dict[int, int] = {}
        self.unreadable: set[int] = set()
        self._trajectories = StoredTrajectories(folder / "pictures", len(_make_frequencies()))
        self._numbers: defaultdict[int, list[int]] = defaultdict(list)
        self._file, self._starts = folder / "frames", [0]
        with self._file.open("wb") as file:
            for position, cameras in _read_videos(stores, ids, positions):
                if not cameras:
                    self.unreadable.add(position)
                for frames in cameras:
                    self._numbers[position].append(len(self._starts) - 1)
                    file.write(frames.tobytes())
                    self._starts.append(self._starts[-1] + len(frames))
                    trajectory = _describe_motion(frames)
                    if trajectory is not None:
                        self._trajectories.add(position, trajectory)
                        self.moving.setdefault(position, count_moving_steps(trajectory))
        if self.unreadable:
            print_message(
                f"the videos of {count_of(len(self.unreadable), 'episode', comma=True)} cannot be read: these are "
                "linked to episodes of one motion, and left out as copies of none"
            )

    def __contains__(self, position: int) -> bool:
        """Whether a camera of an episode can be decoded."""
        return position in self._numbers

    def propose_pairs(self) -> Iterator[tuple[int, int, Sequence[int]]]:
        """Positions of two episodes whose videos may be copies, the smaller first, and likely shifts in steps."""
        for first, second, shifts in propose_pairs(self._trajectories, _WINDOWS):
            yield self._trajectories.positions[first], self._trajectories.positions[second], shifts

    def compare(self, first: int, second: int, shifts: Sequence[int]) -> VideoMatch:
        """How the two cameras agree that agree best, at one of some shifts in steps, or one more or less."""
        cameras = product(self._numbers[first], self._numbers[second])
        matches = (
            _compare_videos(self._frames(left), self._frames(right), shifts) for left, right in cameras
        )
        return min(matches, key=lambda match: match.different)

    def _frames(self, number: int) -> Picture:
        """(T, 16, 16) of one video."""
        import numpy as np

        start, stop = self._starts[number : number + 2]
        pixels = SMALL_FRAME_PIXELS**2
        flat = np.fromfile(self._file, np.float16, (stop - start) * pixels, offset=2 * start * pixels)
        return flat.reshape(-1, SMALL_FRAME_PIXELS, SMALL_FRAME_PIXELS).astype(np.float32)


def _read_videos(
    stores: Stores, ids: Sequence[str], positions: Sequence[int]
) -> Iterator[tuple[int, list[Frames]]]:
    """The position of an episode with cameras, and the small frames of each that can be decoded."""
    position_of = {ids[position]: position for position in positions}
    cache = stores.media_cache
    count, is_printed = len(positions), len(positions) <= _EPISODES_AT_ONCE

    def read_cameras(episode: Episode) -> list[Frames]:
        return [frames for camera in episode.cameras for frames in _read_camera(camera.media, cache)]

    with ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="small-frames") as pool:
        for chunk in batched(list(position_of), _EPISODES_AT_ONCE):
            episodes = [episode for episode in stores.tables.episodes.get(chunk) if episode.cameras]
            if episodes and not is_printed:
                print_message(
                    f"decodes the videos of {count_of(count, 'episode', comma=True)} once, to compare them"
                )
                is_printed = True
            for episode, cameras in zip(episodes, pool.map(read_cameras, episodes), strict=True):
                yield position_of[episode.episode_id], cameras


def _read_camera(media: MediaRef, cache: FileCache) -> list[Frames]:
    """The small frames of one camera; nothing of one that cannot be decoded."""
    import numpy as np

    try:
        flat = np.fromfile(small_frames(media, COMPARED_RATE_HZ, cache), np.float16)
    except MediaError:
        return []
    return [flat.reshape(-1, SMALL_FRAME_PIXELS, SMALL_FRAME_PIXELS)]


def _describe_motion(frames: NDArray[np.floating]) -> Picture | None:
    """The lowest frequencies (T, W) of frames (T, 16, 16), their largest spread 1; None for a still video."""
    trajectory = frames.reshape(len(frames), -1).astype("float32") @ _make_frequencies().T
    spread = float(trajectory.std(axis=0).max())
    if len(frames) < 2 or spread <= _LEAST_LEVELS * SMALL_FRAME_PIXELS / 2:
        return None
    scaled: Picture = trajectory / spread
    return scaled


@cache
def _make_frequencies() -> Picture:
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


def _compare_videos(ours: Picture, theirs: Picture, shifts: Sequence[int]) -> VideoMatch:
    """Compares two videos (T, 16, 16) and (T', 16, 16), the first of which may begin later by some steps."""
    left, right = _describe_motion(ours), _describe_motion(theirs)
    if left is None or right is None:
        first, second = (frames.mean(axis=0, keepdims=True) for frames in (ours, theirs))
        is_same = (
            left is right and _compare_seen(first, second, _make_corner_masks()[0]) <= _MOST_OF_BACKGROUND
        )
        return VideoMatch(different=0.0) if is_same else _NO_MATCH
    correlation, shift = max(
        (_correlate_motion(left, right, shift + step), shift + step)
        for shift in shifts
        for step in (-1, 0, 1)
    )
    if correlation < _LEAST_CORRELATION:
        return _NO_MATCH
    start, stop = find_shared_steps(len(left), len(right), shift)
    is_in_doubt = stop - start < min(_LEAST_STEPS, max(len(left), len(right)) - 2)
    ours, theirs = ours[start:stop], theirs[start - shift : stop - shift]
    mirrored = theirs[:, :, ::-1]
    is_mirrored = _multiply_motion(ours, mirrored) > _multiply_motion(ours, theirs)
    theirs = mirrored if is_mirrored else theirs
    seen = _find_seen_pixels(ours, theirs)
    if seen is None:
        return _NO_MATCH
    different = _compare_seen(ours, theirs, seen)
    return VideoMatch(different=max(different, _IN_DOUBT if is_in_doubt else 0.0), is_mirrored=is_mirrored)


def _correlate_motion(left: Picture, right: Picture, shift: int) -> float:
    """Correlation of two trajectories (T, W) and (T', W) at a shift, signs aside; 0 where they share too little."""
    import numpy as np

    start, stop = find_shared_steps(len(left), len(right), shift)
    if stop - start < min(_LEAST_STEPS, len(left), len(right)):
        return 0.0
    ours, theirs = left[start:stop], right[start - shift : stop - shift]
    ours, theirs = ours - ours.mean(axis=0), theirs - theirs.mean(axis=0)
    lengths = float((ours**2).sum()) * float((theirs**2).sum())
    shared = float(np.abs((ours * theirs).sum(axis=0)).sum())
    return shared / float(np.sqrt(lengths) + 1e-6)


def _multiply_motion(ours: Picture, theirs: Picture) -> float:
    """What moves in two videos (T, 16, 16), multiplied and summed."""
    return float(((ours - ours.mean(axis=0)) * theirs).sum())


def _find_seen_pixels(ours: Picture, theirs: Picture) -> NDArray[np.bool_] | None:
    """(256,) pixels without a box or a time stamp over a corner of one of two videos (T, 16, 16), at best all.

    None where more than a corner of the still pictures differs, or most of the motion is in that corner.
    """
    import numpy as np

    first, second = (frames.mean(axis=0, keepdims=True) for frames in (ours, theirs))
    masks: list[NDArray[np.bool_]] = list(_make_corner_masks())
    if _compare_seen(first, second, masks[0]) <= _MOST_OF_BACKGROUND:
        return masks[0]
    left = np.minimum(_fit_seen_parts(first, second), _fit_seen_parts(second, first))
    fitting = np.flatnonzero(left <= _MOST_OF_BACKGROUND)
    seen = masks[fitting[0] if len(fitting) else int(left.argmin())]
    motions = [((frames - frames.mean(axis=0)) ** 2).mean(axis=0).ravel() for frames in (ours, theirs)]
    if min(motion[seen].sum() / (motion.sum() + 1e-6) for motion in motions) < _LEAST_SEEN_MOTION:
        return None
    return seen if _compare_seen(first, second, seen) <= _MOST_OF_BACKGROUND else None


@cache
def _make_corner_masks() -> NDArray[np.bool_]:
    """(R, 256) pixels that remain when a rectangle in a corner is hidden, the smallest first; of the first, all."""
    import numpy as np

    side, masks = SMALL_FRAME_PIXELS, []
    sizes = [(h, w) for h in range(1, side) for w in range(1, side + 1) if 4 <= h * w <= _MOST_HIDDEN]
    for height, width in sorted([(0, 0), *sizes], key=lambda size: size[0] * size[1]):
        for flip in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
            seen = np.ones((side, side), bool)
            seen[:height, :width] = False
            masks.append(seen[:: flip[0], :: flip[1]].ravel())
    return np.array(masks[3:])


def _fit_seen_parts(ours: Picture, theirs: Picture) -> NDArray[np.float64]:
    """(R,) share of one still picture (1, 16, 16) that a fit from the other leaves, for each mask of a corner."""
    import numpy as np

    seen = _make_corner_masks().astype(np.float64)
    terms = np.stack([*(term.ravel() for term in _list_terms(ours)), np.ones(ours.size)], axis=1)
    target = theirs.ravel().astype(np.float64)
    normals = (seen @ (terms[:, :, None] * terms[:, None]).reshape(len(target), -1)).reshape(
        len(seen), *2 * terms.shape[1:]
    )
    products = seen @ (terms * target[:, None])
    weights = np.linalg.solve(normals + 1e-3 * np.eye(terms.shape[1]), products[:, :, None])[:, :, 0]
    count = seen.sum(axis=1)
    energy = seen @ target**2 - (seen @ target) ** 2 / count + 1e-6
    left = (seen @ target**2 - (weights * products).sum(axis=1) - _ENCODING_NOISE * count) / energy
    return np.where(weights[:, 0] < _LEAST_CONTRAST, 1.0, left)


def _compare_seen(ours: Picture, theirs: Picture, seen: NDArray[np.bool_]) -> float:
    """The share of what one of two videos, or pictures, does not explain of the other, the better way round."""
    return min(_measure_unexplained(ours, theirs, seen), _measure_unexplained(theirs, ours, seen))


def _measure_unexplained(ours: Picture, theirs: Picture, seen: NDArray[np.bool_]) -> float:
    """The share of what moves in one video (T, 16, 16), or of one picture (1, 16, 16), that no fit explains.

    The fit from the other is linear in the contrast and, for small changes, in position, size and time. Frames are
    moved by what it says, and fitted again. Only the pixels (256,) that are `seen` count.
    """
    import numpy as np

    target = _flatten_terms([theirs], seen)[:, 0]
    energy, noise = float(target @ target) + 1e-6, _ENCODING_NOISE * len(target)
    moves, best, moved = np.zeros(3), 1.0, ours
    middle = (SMALL_FRAME_PIXELS - 1) / 2
    for _ in range(_MOST_STEPS):
        terms = _flatten_terms(_list_terms(moved), seen)
        normal, products = terms.T @ terms, terms.T @ target
        weights = np.linalg.solve(normal + 1e-3 * np.eye(len(normal)), products)
        if weights[0] < _LEAST_CONTRAST:
            break
        best = min(best, (energy - float(weights @ products) - noise) / energy)
        moves += np.clip(weights[1:4] / weights[0], -1, 1)
        if best > _MOST_OF_FIRST_FIT or np.abs(moves).max() > _MOST_PIXELS_OFF:
            break
        right, down, outwards = moves.tolist()
        scale = 1 + outwards / middle
        matrix = np.array([[scale, 0, right - outwards], [0, scale, down - outwards]], np.float32)
        moved = np.stack([_move_picture(frame, matrix) for frame in ours])
    return max(best, 0.0)


def _move_picture(frame: Picture, matrix: Picture) -> Picture:
    """A frame (16, 16) whose pixels come from where a matrix (2, 3) says; its border is repeated."""
    import cv2
    import numpy as np

    size, options = (SMALL_FRAME_PIXELS, SMALL_FRAME_PIXELS), cv2.WARP_INVERSE_MAP | cv2.INTER_LINEAR
    moved = cv2.warpAffine(frame, matrix, size, flags=options, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(moved, np.float32)


def _list_terms(frames: Picture) -> list[Picture]:
    """Frames (T, 16, 16) and how they change to the right, downwards, outwards, and, of a video, over time."""
    import numpy as np

    down, right = (np.asarray(part, np.float32) for part in np.gradient(frames, axis=(1, 2)))
    sides = np.linspace(-1, 1, SMALL_FRAME_PIXELS, dtype=np.float32)
    terms: list[Picture] = [frames, right, down, right * sides + down * sides[:, None]]
    return [*terms, np.gradient(frames, axis=0)] if len(frames) > 1 else terms


def _flatten_terms(terms: Sequence[Picture], seen: NDArray[np.bool_]) -> Picture:
    """(T * P, N) seen pixels of terms, without what stays: of a video its mean picture, of one picture its mean."""
    import numpy as np

    shown = [term.reshape(len(term), -1)[:, seen] for term in terms]
    still = 0 if len(terms[0]) > 1 else None
    return np.stack([(term - term.mean(axis=still)).ravel() for term in shown], axis=1)
