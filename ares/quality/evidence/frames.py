"""Frames of the cameras around a second, side by side in one JPEG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ares.media import frames_at
from ares.quality.finding import QualityFinding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Camera, Episode

# Seconds before and after the finding.
_OFFSETS = (-1.0, -0.5, -0.2, 0.0, 0.2, 0.5, 1.0)
_HEIGHT = 140
_MOST_CAMERAS = 2


def frame_strip(episode: Episode, finding: QualityFinding) -> bytes:
    """A JPEG with a row of frames for each camera, at most two, or the one that the finding names; b"" without one.

    Frames are those from a second before the finding to a second after. Raises MediaError when one cannot be decoded.
    """
    import numpy as np
    from PIL import Image

    rows = [_camera_row(camera, finding.seconds) for camera in _cameras(episode, finding)]
    if not rows:
        return b""
    width = max(row.shape[1] for row in rows)
    padded = [np.pad(row, ((0, 0), (0, width - row.shape[1]), (0, 0))) for row in rows]
    file = io.BytesIO()
    Image.fromarray(np.concatenate(padded)).save(file, "JPEG", quality=85)
    return file.getvalue()


def _cameras(episode: Episode, finding: QualityFinding) -> Sequence[Camera]:
    named = [c for c in episode.cameras if c.name in (finding.dimension, finding.signal)]
    return named or episode.cameras[:_MOST_CAMERAS]


def _camera_row(camera: Camera, second: float) -> NDArray[np.uint8]:
    """(140, W, 3): the frames side by side."""
    import numpy as np
    from PIL import Image

    frames = frames_at(camera.media, [second + offset for offset in _OFFSETS])
    width = max(1, round(frames.shape[2] * _HEIGHT / frames.shape[1]))
    resized = [np.asarray(Image.fromarray(frame).resize((width, _HEIGHT))) for frame in frames]
    return np.concatenate(resized, axis=1)
