"""Zarr stores of Diffusion Policy and UMI as episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ingest.zarr.source import zarr

__all__ = ["zarr"]

__getattr__ = lazy_exports(__name__)
