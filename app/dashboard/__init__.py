"""The dashboard: Streamlit pages over one workspace."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares_app.dashboard.page_script import make_served_pages as make_served_pages

__getattr__ = lazy_exports(__name__)
