"""Space: one embedding space, its vector table and the model that makes vectors for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """An embedding space, kept as a document of the collection "spaces" under its name.

    Attributes:
        name: Portable and usable in a table name: letters, digits, "_" and "-".
        encoder: Registry name of what loads the model ("clip").
        model: Spec to load it from ("ViT-B-32/laion2b_s34b_b79k", "local-dir:/path").
        dim: Length D of its vectors.
    """

    name: str
    encoder: str
    model: str
    dim: int


class Encoder(Protocol):
    """Makes vectors of one space; the entry points of "ares.encoders" hold functions `(spec, device) -> Encoder`."""

    dim: int

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """(N, D) unit vectors of N RGB images, each (H, W, 3) uint8, of any sizes."""

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(N, D) unit vectors of N texts."""
