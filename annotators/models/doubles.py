"""Doubles that a command can name in place of a model: an encoder by hashes, and one reply to every request."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ares.annotation import Cost
from ares.episode import Json
from ares.errors import ModelError
from ares_annotators.models.base import Capability, VlmReply, VlmRequest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_PREFIX = "hash:"
_MIN_DIM, _MAX_DIM = 8, 4096
# An image is reduced to so many rows and columns of mean colours, each rounded to so many levels.
_GRID, _LEVELS = 4, 8


class HashEncoder:
    """Fills the protocol `ares.search.encoding.Encoder` by feature hashing (Weinberger et al., 2009).

    The same content has the same vector on every machine; texts that share words, and images that share colours at the
    same positions, have similar vectors. The vectors of a text and of an image are not related.

    Args:
        dim: Length of the vectors.
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.name = f"hash-{dim}"

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """(N, D) unit vectors of N RGB images, each (H, W, 3) uint8, of any sizes."""
        return self._encode([_image_features(image) for image in images])

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(N, D) unit vectors of N texts; letter case and punctuation make no difference."""
        return self._encode([re.findall(r"\w+", text.lower()) for text in texts])

    def _encode(self, features: Sequence[Sequence[str]]) -> NDArray[np.float32]:
        import numpy as np

        vectors = np.empty((len(features), self.dim), np.float32)
        for row, item_features in enumerate(features):
            # The empty feature keeps the vector of an item without features from being zero.
            vector = np.sum([self._feature_vector(feature) for feature in ("", *item_features)], axis=0)
            vectors[row] = vector / np.linalg.norm(vector)
        return vectors

    def _feature_vector(self, feature: str) -> NDArray[np.float64]:
        import numpy as np

        digest = hashlib.shake_256(feature.encode()).digest(self.dim)
        return np.frombuffer(digest, np.uint8).astype(np.float64) - 127.5


def load_hash_encoder(spec: str, device: str = "") -> HashEncoder:
    """The encoder of "hash:DIM"; `device` makes no difference. Raises ModelError for another spec."""
    text = spec.removeprefix(_PREFIX)
    if not text.isascii() or not text.isdigit() or not _MIN_DIM <= int(text) <= _MAX_DIM:
        raise ModelError(
            "hash encoder cannot be loaded", f"{spec!r}; give hash:DIM with DIM from {_MIN_DIM} to {_MAX_DIM}"
        )
    return HashEncoder(int(text))


def _image_features(image: NDArray[np.uint8]) -> list[str]:
    """Feature "row,column:red,green,blue" of each grid cell, with rounded mean colours."""
    import numpy as np

    features = []
    for row, band in enumerate(np.array_split(image, min(_GRID, image.shape[0]), axis=0)):
        for column, cell in enumerate(np.array_split(band, min(_GRID, image.shape[1]), axis=1)):
            red, green, blue = (cell.mean(axis=(0, 1)) * _LEVELS / 256).astype(int)
            features.append(f"{row},{column}:{red},{green},{blue}")
    return features


class RepeatingVlm:
    """Fills the protocol `ares_annotators.models.base.Vlm` without a model: the spec "stub:TEXT" always replies TEXT.

    Args:
        text: The reply.
    """

    batch_size = 8
    workers = 1
    capabilities: frozenset[Capability] = frozenset({"schema", "choices", "seed", "clip", "captions_only"})
    settings: Mapping[str, Json] = {}
    family = "stub"

    def __init__(self, text: str) -> None:
        self.name = f"stub:{text}"
        self._text = text

    def ask(self, requests: Sequence[VlmRequest]) -> Sequence[VlmReply]:
        """The text for each request; each counts as one call without tokens."""
        return [VlmReply(text=self._text, cost=Cost(calls=1)) for _ in requests]
