"""Export as RLDS: TFDS folders of TFRecord files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.export.rlds.exporter import export_rlds

__all__ = ["export_rlds"]

__getattr__ = lazy_exports(__name__)
