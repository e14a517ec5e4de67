"""Episodes in .npz files and in folders of .npy files, with JSON beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ingest.npz.source import npz

__all__ = ["npz"]

__getattr__ = lazy_exports(__name__)
