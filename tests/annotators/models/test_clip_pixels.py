"""Images that are resized on the device of the model: the vectors of the transform on the CPU, in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annotators.models.clip import load_clip, make_pixel_preprocessor


def _frames(video: Path, count: int) -> list[NDArray[np.uint8]]:
    import av

    with av.open(str(video)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    return [np.asarray(frame, np.uint8) for frame in frames[:: len(frames) // count]]


def test_vectors_stay_within_a_ten_thousandth_of_the_cosine(
    reference_models: Path, demo_samples: Path
) -> None:
    import cv2

    encoder = load_clip(f"local-dir:{reference_models / 'reference-clip'}", "cpu")
    small = _frames(next(iter(sorted((demo_samples / "video" / "videos").glob("*.mp4")))), 5)
    large = [
        np.asarray(cv2.resize(frame, (1280, 720), interpolation=cv2.INTER_CUBIC), np.uint8) for frame in small
    ]
    # Shapes that take turns: each vector must come back at the place of its image.
    images = [image for pair in zip(small, large, strict=True) for image in pair]
    expected = encoder.encode_images(images)
    encoder._on_device = make_pixel_preprocessor(encoder._preprocess, "cpu")
    assert encoder._on_device is not None
    actual = encoder.encode_images(images)
    assert not np.array_equal(actual, expected)
    assert (np.sum(actual * expected, axis=1) > 0.9998).all()


def test_a_transform_with_an_unknown_step_stays_on_the_cpu() -> None:
    class Sharpen:
        def __call__(self, image: Any) -> Any:
            return image

    class Steps:
        transforms = (Sharpen(),)

    assert make_pixel_preprocessor(Steps(), "cpu") is None
    assert make_pixel_preprocessor(Sharpen(), "cpu") is None
