"""Ingester of RLDS datasets, which are TFDS folders of TFRecord files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ingest.rlds.source import rlds

__all__ = ["rlds"]

__getattr__ = lazy_exports(__name__)
