"""The ray engine: workers are actors of a ray cluster; those that die, and lost machines, are replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.jobs.ray.engine import RayEngine

__all__ = ["RayEngine"]

__getattr__ = lazy_exports(__name__)
