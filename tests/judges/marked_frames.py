"""Frames that say which episode and second they show, in marks that survive JPEG, other sizes and contact sheets."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from tests.judges.world import WorldEpisode

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_EPISODES = 980
_MARK, _MARGIN, _HEIGHT, _WIDTH = 54, 13, 80, 134
# Ids from here on are seconds.
_FIRST_SECOND = MOST_EPISODES
_SMALL = 160


def write_dataset(folder: Path, episodes: Sequence[WorldEpisode], is_labelled: bool) -> Path:
    """Write episodes as .npz files with a JSON file beside each, one frame a second.

    Args:
        folder: The dataset; it is made.
        episodes: The episodes.
        is_labelled: Whether the JSON says if the episode succeeded.
    """
    import numpy as np

    folder.mkdir(parents=True)
    for episode in episodes:
        frames = np.stack([draw_frame(episode.number, second) for second in range(episode.seconds)])
        state = np.linspace(0, 1, episode.seconds, dtype=np.float32)[:, None]
        path = folder / f"{episode.number:04d}.npz"
        np.savez(path, image=frames, state=state, action=state, timestamps=np.arange(episode.seconds) * 1.0)
        document: dict[str, object] = {"instruction": episode.instruction, "fps": 1.0}
        if is_labelled:
            document["success"] = episode.succeeded
        path.with_suffix(".json").write_text(json.dumps(document))
    return folder


@lru_cache(maxsize=4096)
def draw_frame(number: int, second: int) -> NDArray[np.uint8]:
    """(80, 134, 3) RGB: the mark of the episode at the left, that of the second at the right."""
    import cv2
    import numpy as np

    frame = np.full((_HEIGHT, _WIDTH, 3), 255, np.uint8)
    marks = cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_4X4_1000)
    for mark, left in ((number, _MARGIN - 5), (_FIRST_SECOND + second, _WIDTH - _MARK - _MARGIN + 5)):
        pixels = cv2.aruco.generateImageMarker(marks, mark, _MARK)
        frame[_MARGIN : _MARGIN + _MARK, left : left + _MARK] = pixels[..., None]
    return frame


@lru_cache(maxsize=20_000)
def read_image(url: str) -> tuple[int | None, int]:
    """The episode that an image shows, None where nothing can be read, and how many frames are in it.

    Args:
        url: A data URL of a JPEG or PNG.
    """
    import cv2
    import numpy as np

    data = np.frombuffer(base64.b64decode(url.partition(",")[2]), np.uint8)
    image = cv2.imdecode(data, cv2.IMREAD_GRAYSCALE)
    if image is None:
        return None, 0
    if min(image.shape) < _SMALL:
        image = cv2.resize(image, None, fx=3, fy=3, interpolation=cv2.INTER_CUBIC)
    detector = cv2.aruco.ArucoDetector(cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_4X4_1000))
    _, ids, _ = detector.detectMarkers(image)
    found = [] if ids is None else [int(mark) for mark in ids.flatten()]
    episodes = Counter(mark for mark in found if mark < _FIRST_SECOND)
    if not episodes:
        return None, 0
    (number, frames), *_ = episodes.most_common(1)
    return number, frames


def read_images(urls: Sequence[str]) -> tuple[int | None, int]:
    """The episode that most images show, and the number of frames in all of them."""
    read = [read_image(url) for url in urls]
    numbers = Counter(number for number, _ in read if number is not None)
    frames = sum(count for _, count in read)
    return (numbers.most_common(1)[0][0] if numbers else None), max(frames, len(urls))
