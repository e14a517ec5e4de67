"""The dashboard: Streamlit pages over one workspace."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from app.dashboard.cached_reads import (
        MAX_QUERIES as MAX_QUERIES,
        forget_slow_filters as forget_slow_filters,
        run_limited as run_limited,
    )
    from app.dashboard.jobs import (
        Job as Job,
        list_jobs as list_jobs,
        start_export as start_export,
        stop_job as stop_job,
    )
    from app.dashboard.limits import (
        PageLimits as PageLimits,
        default_export_folder as default_export_folder,
        export_destination as export_destination,
        search_image as search_image,
        store_upload as store_upload,
    )
    from app.dashboard.retry import Retry as Retry, quote_retry as quote_retry, start_retry as start_retry
    from app.dashboard.served_pages import dashboard_pages as dashboard_pages

__getattr__ = lazy_exports(__name__)
