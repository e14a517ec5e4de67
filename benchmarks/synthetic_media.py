"""Writes synthetic videos and models of random weights, which take as long as real ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# With random weights it is as fast as with trained ones.
RANDOM_MODEL = "ViT-B-32"


def write_videos(
    folder: Path, episodes: int, side: int = 512, width: int = 0, frames: int = 3, rate_hz: float = 5.0
) -> Path:
    """Write mp4 files of moving textures of smooth colours, none like another: noise takes seven times the bytes.

    Args:
        folder: Where they are written; it is made.
        episodes: Number of files.
        side: Height of a frame in pixels.
        width: Width of a frame in pixels; 0 for a square.
        frames: Frames of each file.
        rate_hz: Frames per second.
    """
    import numpy as np

    from ares.media import encode_mp4

    folder.mkdir()
    for number in range(episodes):
        image = _smooth_texture(number, side, width or side)
        moved = (np.roll(image, max(1, side // 256) * step, axis=1) for step in range(frames))
        encode_mp4(moved, folder / f"{number:06d}.mp4", rate_hz)
    return folder


def _smooth_texture(number: int, height: int, width: int) -> NDArray[np.uint8]:
    """(H, W, 3) RGB, other colours for each number."""
    import cv2
    import numpy as np

    rows = max(16, height // 30)
    coarse = np.random.default_rng(number).integers(0, 255, (rows, rows * width // height, 3), np.uint8)
    return np.asarray(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC), np.uint8)


def write_random_vit(folder: Path) -> Path:
    """Write the model of random weights, as `local-dir:FOLDER` loads it."""
    import open_clip
    from safetensors.torch import save_file

    folder.mkdir()
    config = {"model_cfg": open_clip.get_model_config(RANDOM_MODEL), "preprocess_cfg": {}}
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    save_file(open_clip.create_model(RANDOM_MODEL).state_dict(), str(folder / "open_clip_model.safetensors"))
    return folder
