"""Ingester of RLDS datasets, which are TFDS folders of TFRecord files."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares_ingest.rlds.source import rlds as rlds

__getattr__ = lazy_exports(__name__)
