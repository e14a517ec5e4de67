"""Frames of a camera in a Zarr array of raw pixels, which may be integers or floats, channels first or last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ares.errors import MediaError, SourceError
from ares.media.readers.zarr_store import open_zarr, translate_zarr_errors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import MediaRef

_CHANNELS = (1, 3, 4)


def has_images(array: Any) -> bool:
    """Whether an array holds images: (N, H, W, C) or (N, C, H, W) of uint8 or floats, with 1, 3 or 4 channels."""
    if (
        array.ndim != 4
        or array.dtype.kind not in "uf"
        or (array.dtype.kind == "u" and array.dtype.itemsize > 1)
    ):
        return False
    return bool(min(array.shape[1:]) > 0 and (_is_last(array) or array.shape[1] in _CHANNELS))


def _is_last(array: Any) -> bool:
    return bool(array.shape[3] in _CHANNELS and min(array.shape[1:3]) > 4)


def image_size(array: Any) -> tuple[int, int]:
    """Height and width of the images of an array."""
    height, width = array.shape[1:3] if _is_last(array) else array.shape[2:4]
    return int(height), int(width)


def image_scale(array: Any) -> float:
    """What a pixel is multiplied with to lie in 0 to 255: floats may lie in 0 to 1, as the array's samples tell."""
    if array.dtype.kind == "u" or not array.shape[0]:
        return 1.0
    brightest = max(float(array[row].max()) for row in {0, array.shape[0] // 2, array.shape[0] - 1})
    return 255.0 if brightest <= 1.0 else 1.0


def read_image(array: Any, row: int, scale: float) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 RGB of a row: grey is repeated, alpha is dropped."""
    import numpy as np

    image: NDArray[Any] = np.asarray(array[row])
    if not _is_last(array):
        image = np.moveaxis(image, 0, -1)
    if image.dtype != np.uint8:
        image = np.clip(np.nan_to_num(image * scale), 0, 255).round().astype(np.uint8)
    return np.repeat(image, 3, axis=-1) if image.shape[-1] == 1 else np.ascontiguousarray(image[..., :3])


def read_zarr_frames(ref: MediaRef, frame_numbers: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
    """Yield the frames of rising numbers, (H, W, 3) uint8 RGB; a repeated number yields the same array again.

    Raises MediaError.
    """
    first_row, decoded_number, frame = round(ref.start_seconds * ref.rate_hz), -1, None
    try:
        with open_zarr(ref.uri) as store:
            array = store.array(ref.key)
            if not has_images(array) or first_row + ref.num_frames > array.shape[0]:
                raise MediaError("store has no such images", f"{ref.key!r} in {ref.uri}: {array.shape}")
            with translate_zarr_errors(f"{ref.uri} {ref.key}"):
                scale = image_scale(array)
            for number in frame_numbers:
                if frame is None or number != decoded_number:
                    with translate_zarr_errors(f"{ref.uri} {ref.key} row {first_row + number}"):
                        decoded_number, frame = number, read_image(array, first_row + number, scale)
                yield frame
    except SourceError as error:
        raise MediaError(error.reason, error.detail) from None
