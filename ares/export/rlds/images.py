"""Encoded images of a camera, one for each step: the bytes of the source where it has them, else new JPEGs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.episode import Camera
from ares.errors import MediaError
from ares.export.retime import RetimedEpisode
from ares.export.step_frames import step_frames
from ares.input import parse_image_header
from ares.media import encoded_frames

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

JPEG_QUALITY = 95
# Sources that hold each frame as an image of its own.
_IMAGE_KINDS = frozenset({"tfrecord", "hdf5", "parquet", "images"})
_IMAGE_CODECS = frozenset({"jpeg", "png"})


@dataclass(frozen=True, slots=True)
class StepImages:
    """The images of a camera.

    Attributes:
        images: (T,) JPEG or PNG, one for each step.
        encoding_reason: Why they were encoded, which changes their pixels; "" where they are the bytes of the source.
    """

    images: list[bytes]
    encoding_reason: str


def step_images(camera: Camera, retimed: RetimedEpisode) -> StepImages:
    """The images of the steps of an episode. Raises MediaError or SourceError when they cannot be read."""
    reason = _reason_to_encode(camera, retimed)
    if not reason:
        images = encoded_frames(camera.media)
        if len(images) <= int(retimed.steps.max(initial=-1)):
            raise MediaError("the source has fewer frames than it had", f"{camera.media.uri}: {len(images)}")
        selected = [images[step] for step in retimed.steps]
        if all(_has_size(image, camera) for image in dict.fromkeys(selected)):
            return StepImages(selected, "")
        reason = "images of another size or kind than the first"
    seconds = retimed.camera_seconds(camera)
    frames = [encode_jpeg(frame) for frame in step_frames(camera, retimed, seconds)]
    if len(frames) != len(retimed.steps):
        raise MediaError("the source has fewer frames than it had", f"{camera.media.uri}: {len(frames)}")
    return StepImages(frames, f"{reason}: encoded as JPEG of quality {JPEG_QUALITY}")


def _reason_to_encode(camera: Camera, retimed: RetimedEpisode) -> str:
    if camera.media.kind not in _IMAGE_KINDS or camera.codec not in _IMAGE_CODECS:
        return f"the source has {camera.codec or camera.media.kind}, not images that RLDS holds"
    if camera.media.channels != "rgb":
        return "colours are swapped"
    if retimed.source.frame_pairing != "index":
        return "frames are paired with steps by their stamps"
    return ""


def _has_size(image: bytes, camera: Camera) -> bool:
    info = parse_image_header(image)
    return info is not None and (info.width, info.height) == (camera.width, camera.height)


def encode_jpeg(frame: NDArray[np.uint8]) -> bytes:
    """A JPEG of a frame, (H, W, 3) uint8 RGB. Raises MediaError for one that no JPEG can hold."""
    import cv2

    try:
        is_encoded, data = cv2.imencode(
            ".jpg", cv2.cvtColor(frame, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY]
        )
    except cv2.error as error:
        raise MediaError("the frame cannot be encoded as JPEG", f"{frame.shape}: {error}") from None
    if not is_encoded:
        raise MediaError("the frame cannot be encoded as JPEG", f"its shape is {frame.shape}")
    return data.tobytes()
