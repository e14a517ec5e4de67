"""The dashboard: Streamlit pages over one workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from app.dashboard.cached_reads import use_workspace
    from app.dashboard.limits import PageLimits, default_export_folder
    from app.dashboard.pages import show_script_error
    from app.dashboard.preloading import preload

__all__ = ["PageLimits", "default_export_folder", "preload", "show_script_error", "use_workspace"]

__getattr__ = lazy_exports(__name__)
