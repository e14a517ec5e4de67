"""The dashboard: Streamlit pages over one workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from app.dashboard.served import dashboard_pages

__all__ = ["dashboard_pages"]

__getattr__ = lazy_exports(__name__)
