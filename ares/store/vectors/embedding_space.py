"""Description of an embedding space, and the protocol of the model that computes its vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSpace:
    """An embedding space, stored as a document of the collection "spaces" under its name.

    Attributes:
        name: Part of table names: letters, digits, "_" and "-".
        encoder: Plug-in name of the model loader ("clip").
        model: Model spec for that loader ("ViT-B-32/laion2b_s34b_b79k", "local-dir:/path").
        dim: Length D of its vectors.
    """

    name: str
    encoder: str
    model: str
    dim: int


class TextEncoder(Protocol):
    """Computes the vectors of texts of one space.

    Entry points of "ares.text_encoders" are functions `(path) -> TextEncoder`. They open the file that the encoder of
    the same name stored by `save_text_encoder`, and raise ModelError when it cannot be used.
    """

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors (N, D) of N texts."""


class Encoder(TextEncoder, Protocol):
    """Computes vectors of one space; entry points of "ares.encoders" are functions `(spec, device) -> Encoder`."""

    dim: int

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Unit vectors (N, D) of N RGB images, each (H, W, 3) uint8, of any sizes."""


@runtime_checkable
class StorableTextEncoder(Protocol):
    """What an encoder offers whose texts can be encoded without the whole model.

    Attributes:
        name: Name of the embedding space of its vectors.
    """

    name: str

    def save_text_encoder(self, path: Path) -> bool:
        """Write what `encode_texts` needs to one file. Returns False, having written nothing, where that cannot be."""
