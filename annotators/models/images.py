"""Bounds images before a model gets them, so that one image has a known cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def bound_image(image: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """An RGB image (H, W, 3), made smaller with its proportions kept where a side has more than `side` pixels."""
    import cv2
    import numpy as np

    height, width = image.shape[:2]
    scale = side / max(height, width)
    if scale >= 1:
        return image
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
