"""Each use that ARES makes of OpenCV beside Pillow, PyAV and NumPy: how long both take, and how far they differ.

`python -m benchmarks.picture_libraries [ROUNDS]` prints a table. Both sides of a use run in turns, in one process and
one thread; the ratio is of the medians.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import cv2
import numpy as np
from av import VideoFrame
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

_WIDTH, _HEIGHT = 640, 480


class PictureUse(NamedTuple):
    """A use of OpenCV, with the best that the other libraries do for it."""

    name: str
    with_opencv: Callable[[], Any]
    without: Callable[[], Any]


def make_picture(seed: int = 0) -> NDArray[np.uint8]:
    """(480, 640, 3) RGB: a shaded ground with discs, and the noise of a camera."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:_HEIGHT, 0:_WIDTH]
    picture = np.stack([100 + 60 * np.cos(x / 90 + k) + 40 * np.sin(y / 70) for k in range(3)], axis=2)
    for _ in range(20):
        centre, radius = random.integers(0, (_WIDTH, _HEIGHT)), random.integers(8, 60)
        picture[(x - centre[0]) ** 2 + (y - centre[1]) ** 2 < radius**2] = random.integers(0, 256, 3)
    return np.clip(picture + random.normal(0, 3, picture.shape), 0, 255).astype(np.uint8)


def encode_by_pillow(picture: NDArray[np.uint8], **options: Any) -> bytes:
    """A picture as a file."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, **options)
    return file.getvalue()


def decode_by_pillow(data: bytes, mode: str = "RGB") -> NDArray[Any]:
    """The pixels of a file."""
    image = Image.open(io.BytesIO(data))
    return np.asarray(image if not mode or image.mode == mode else image.convert(mode))


def resize_by_pillow(picture: NDArray[Any], size: tuple[int, int], way: Image.Resampling) -> NDArray[Any]:
    """A picture of another size."""
    return np.asarray(Image.fromarray(picture).resize(size, way))


def shift_by_numpy(frames: NDArray[np.float32], right: float, down: float) -> NDArray[np.float32]:
    """(T, H, W) frames moved by part of a pixel, with their edges repeated."""
    padded = np.pad(frames, ((0, 0), (1, 1), (1, 1)), mode="edge")
    row = padded[:, 1:-1] * (1 - down) + padded[:, :-2] * down
    moved = row[:, :, 1:-1] * (1 - right) + row[:, :, :-2] * right
    return moved.astype(np.float32)


def decode_by_opencv(data: bytes, flags: int = cv2.IMREAD_COLOR_RGB) -> Any:
    """The pixels of a file."""
    return cv2.imdecode(np.frombuffer(data, np.uint8), flags)


def encode_by_opencv(picture: NDArray[np.uint8]) -> bytes:
    """A picture as a JPEG file."""
    quality = [cv2.IMWRITE_JPEG_QUALITY, 90]
    return cv2.imencode(".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), quality)[1].tobytes()


def list_file_uses(picture: NDArray[np.uint8]) -> Iterator[PictureUse]:
    """Files of pictures, read and written."""
    decode, jpeg = decode_by_opencv, encode_by_pillow(picture, format="JPEG", quality=90)
    png = encode_by_pillow(picture, format="PNG")
    deep_png = cv2.imencode(".png", make_picture(1)[..., 0].astype(np.uint16) * 37)[1].tobytes()
    yield PictureUse("decode JPEG", lambda: decode(jpeg), lambda: decode_by_pillow(jpeg))
    yield PictureUse("decode PNG", lambda: decode(png), lambda: decode_by_pillow(png))
    yield PictureUse(
        "decode depth (PNG of 16 bits)",
        lambda: decode(deep_png, cv2.IMREAD_UNCHANGED),
        lambda: decode_by_pillow(deep_png, ""),
    )
    yield PictureUse(
        "encode JPEG",
        lambda: decode(encode_by_opencv(picture)),
        lambda: decode(encode_by_pillow(picture, format="JPEG", quality=90)),
    )


def list_size_uses(picture: NDArray[np.uint8]) -> Iterator[PictureUse]:
    """Pictures made smaller and larger."""
    box, linear = Image.Resampling.BOX, Image.Resampling.BILINEAR
    yuv = VideoFrame.from_ndarray(picture, format="rgb24").reformat(format="yuv420p")
    grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    small = np.asarray(cv2.resize(picture, (64, 48), interpolation=cv2.INTER_AREA))
    for name, size in (("frame of a check (640 to 64)", (64, 48)), ("thumbnail (640 to 256)", (256, 192))):
        yield PictureUse(
            name,
            partial(cv2.resize, picture, size, interpolation=cv2.INTER_AREA),
            partial(resize_by_pillow, picture, size, box),
        )
    yield PictureUse(
        "plane of a video (640 to 64)",
        lambda: cv2.resize(grey, (64, 48), interpolation=cv2.INTER_AREA),
        lambda: yuv.reformat(64, 48, format="gray", interpolation="AREA").to_ndarray(),
    )
    yield PictureUse(
        "enlarge (64 to 224)",
        lambda: cv2.resize(small, (224, 168), interpolation=cv2.INTER_LINEAR),
        lambda: resize_by_pillow(small, (224, 168), linear),
    )


def list_value_uses(picture: NDArray[np.uint8]) -> Iterator[PictureUse]:
    """Colours and differences of pixels."""
    weights = np.array([0.299, 0.587, 0.114], np.float32)
    grey = np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY))
    frames = np.stack([make_picture(seed)[:16, :16, 0] for seed in range(30)]).astype(np.float32)
    shift = np.array([[1, 0, 0.3], [0, 1, 0.2]], np.float32)
    to_grey = partial(cv2.cvtColor, picture, cv2.COLOR_RGB2GRAY)
    yield PictureUse("grey of a frame", to_grey, lambda: np.asarray(Image.fromarray(picture).convert("L")))
    yield PictureUse("grey of a frame by NumPy", to_grey, lambda: (picture @ weights + 0.5).astype(np.uint8))
    yield PictureUse(
        "detail of a frame (differences, sums)",
        lambda: cv2.reduce(cv2.absdiff(grey[:, 1:], grey[:, :-1]), 0, cv2.REDUCE_SUM, dtype=cv2.CV_32S),
        lambda: np.abs(grey[:, 1:].astype(np.int16) - grey[:, :-1]).sum(
            axis=0, keepdims=True, dtype=np.int32
        ),
    )
    yield PictureUse(
        "blur of a small frame",
        lambda: cv2.GaussianBlur(grey[:32, :32], (0, 0), 1.0),
        lambda: np.asarray(Image.fromarray(grey[:32, :32]).filter(ImageFilter.GaussianBlur(1.0))),
    )
    yield PictureUse(
        "shift of 30 small frames",
        lambda: np.stack(
            [cv2.warpAffine(frame, shift, (16, 16), borderMode=cv2.BORDER_REPLICATE) for frame in frames]
        ),
        lambda: shift_by_numpy(frames, 0.3, 0.2),
    )


def write_label_by_opencv(picture: NDArray[np.uint8]) -> Any:
    """The picture with a text."""
    font, white = cv2.FONT_HERSHEY_SIMPLEX, (255,) * 3
    return cv2.putText(picture.copy(), "front 12.5 s", (10, 30), font, 0.5, white, 1, cv2.LINE_AA)


def write_label_by_pillow(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The picture with a text."""
    image = Image.fromarray(picture.copy())
    ImageDraw.Draw(image).text((10, 20), "front 12.5 s", fill=(255, 255, 255))
    return np.asarray(image)


def list_uses() -> Iterator[PictureUse]:
    """All uses, by what they are for."""
    picture = make_picture()
    yield from list_file_uses(picture)
    yield from list_size_uses(picture)
    yield from list_value_uses(picture)
    yield PictureUse(
        "label of a frame", partial(write_label_by_opencv, picture), partial(write_label_by_pillow, picture)
    )


def time_both(use: PictureUse, rounds: int) -> tuple[float, float]:
    """Median seconds of both sides of a use, which run in turns."""
    spent: tuple[list[float], list[float]] = [], []
    for _ in range(rounds):
        for seconds, call in zip(spent, (use.with_opencv, use.without), strict=True):
            started = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - started)
    return median(spent[0]), median(spent[1])


def main() -> None:
    """Print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    cv2.setNumThreads(1)
    print("| use | OpenCV, us | without, us | ratio | levels apart: mean, most |")
    print("|---|---|---|---|---|")
    for use in list_uses():
        first, second = (np.asarray(call()).astype(np.float64) for call in (use.with_opencv, use.without))
        apart = np.abs(first - second)
        ours, others = time_both(use, rounds)
        print(
            f"| {use.name} | {ours * 1e6:.0f} | {others * 1e6:.0f} | {others / ours:.2f} "
            f"| {apart.mean():.2f}, {apart.max():.0f} |"
        )


if __name__ == "__main__":
    main()
