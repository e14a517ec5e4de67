"""Images of a request: read again where they are needed again, and bounded, so that one image has a known cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ReadableImages(Sequence["NDArray[np.uint8]"]):
    """Images that can be read again, so that a call in flight need not hold their pixels.

    Args:
        read: Returns the RGB images, each (H, W, 3) uint8; called at once, and again when released images are used.
        release: Called when the pixels are released, to release those that `read` gets them from.

    Raises:
        AresError: What `read` raised.
    """

    def __init__(
        self, read: Callable[[], Sequence[NDArray[np.uint8]]], release: Callable[[], None] | None = None
    ) -> None:
        self._read, self._release = read, release
        self._images: Sequence[NDArray[np.uint8]] | None = read()
        self.shapes = tuple(image.shape for image in self._images)

    @overload
    def __getitem__(self, index: int) -> NDArray[np.uint8]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[NDArray[np.uint8]]: ...
    def __getitem__(self, index: int | slice) -> NDArray[np.uint8] | Sequence[NDArray[np.uint8]]:
        if self._images is None:
            self._images = self._read()
        return self._images[index]

    def __len__(self) -> int:
        return len(self.shapes)

    def release(self) -> None:
        """Forget the pixels."""
        self._images = None
        if self._release:
            self._release()


def image_shapes(images: Sequence[NDArray[np.uint8]]) -> tuple[tuple[int, ...], ...]:
    """Shapes of images; released ones are not read for them."""
    if isinstance(images, ReadableImages):
        return images.shapes
    return tuple(image.shape for image in images)


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
