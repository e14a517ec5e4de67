"""What a judge behind a server is asked: the images, the question and the caption of a request."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

_GREY = 128


def request_images(request: Mapping[str, Any]) -> list[NDArray[np.uint8]]:
    """The images of a request as (H, W, 3) RGB."""
    encoded = re.findall(r"data:image/[a-z]+;base64,([A-Za-z0-9+/=]+)", json.dumps(request["messages"]))
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(text))).convert("RGB")) for text in encoded]


def grey_share(images: Sequence[NDArray[np.uint8]]) -> float:
    """Share of the pixels that have the grey of masked frames."""
    return float(np.mean([(abs(image.astype(int) - _GREY) < 4).all(axis=2).mean() for image in images]))


def request_caption(request: Mapping[str, Any]) -> str:
    """The caption that a request asks about."""
    (caption,) = re.findall(r'"caption": ("(?:[^"\\]|\\.)*")', request["messages"][-1]["content"][-1]["text"])
    return str(json.loads(caption))
