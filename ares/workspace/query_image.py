"""The image of a search, as people have it: a path, a picture in memory, or a frame of a stored episode."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ares.errors import RequestError
from ares.workspace.paths import expanded_path

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image

    ImageLike: TypeAlias = str | os.PathLike[str] | Image.Image | NDArray[np.uint8]


@contextmanager
def image_path(image: ImageLike) -> Iterator[str]:
    """The path of an image; a picture in memory is written to a temporary file until then.

    Args:
        image: A path or a frame as text, a path object, a PIL image, or (H, W, 3) uint8 RGB.

    Raises:
        RequestError: It is none of these.
    """
    if isinstance(image, str | os.PathLike):
        yield expanded_path(image)
        return
    with tempfile.TemporaryDirectory(prefix="ares-query-") as folder:
        path = Path(folder) / "image.png"
        _to_pil(image).save(path)
        yield str(path)


def _to_pil(image: Image.Image | NDArray[np.uint8]) -> Image.Image:
    import numpy as np
    from PIL import Image

    if isinstance(image, Image.Image):
        return image.convert("RGB")
    array = np.asarray(image)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3:
        raise RequestError(
            "an image is a path, a PIL image, or an array (H, W, 3) uint8",
            f"got {type(image).__name__} {array.dtype} {array.shape}",
        )
    return Image.fromarray(array)
