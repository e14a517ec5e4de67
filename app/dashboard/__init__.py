"""The dashboard: Streamlit pages over one workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from app.dashboard.cached_reads import preload, use_workspace

__all__ = ["preload", "use_workspace"]

__getattr__ = lazy_exports(__name__)
