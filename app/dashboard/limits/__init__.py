"""What pages may ask of the server: how long a query takes, where exports go, which images are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from app.dashboard.limits.page_limits import PageLimits, default_export_folder, export_destination
    from app.dashboard.limits.time_limit import MAX_QUERIES, forget_slow_filters, run_limited
    from app.dashboard.limits.uploads import IMAGE_TYPES, search_image, store_upload

__all__ = [
    "IMAGE_TYPES",
    "MAX_QUERIES",
    "PageLimits",
    "default_export_folder",
    "export_destination",
    "forget_slow_filters",
    "run_limited",
    "search_image",
    "store_upload",
]

__getattr__ = lazy_exports(__name__)
