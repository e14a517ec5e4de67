"""The dashboard: Streamlit pages over one workspace."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from app.dashboard.limits import (
        search_image as search_image,
    )
    from app.dashboard.retry import Retry as Retry
    from app.dashboard.served_pages import dashboard_pages as dashboard_pages

__getattr__ = lazy_exports(__name__)
