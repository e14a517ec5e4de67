"""Text towers of open_clip models, stored in one file and run by NumPy, so that a search needs no model library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from annotators.models.text_tower.encoder import StoredTextEncoder, open_text_encoder
    from annotators.models.text_tower.extract import extract_tower, gives_equal_vectors
    from annotators.models.text_tower.file import StoredTower, write_tower

__all__ = [
    "StoredTextEncoder",
    "StoredTower",
    "extract_tower",
    "gives_equal_vectors",
    "open_text_encoder",
    "write_tower",
]

__getattr__ = lazy_exports(__name__)
