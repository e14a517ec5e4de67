"""Jobs of the pages in processes of their own: they outlive the server, are seen again after it, and can be stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from app.dashboard.jobs.export import draw_exports, start_export
    from app.dashboard.jobs.job import Job, list_jobs
    from app.dashboard.jobs.launch import stop_job
    from app.dashboard.jobs.retry import Retry, RetryQuote, quote_retry, start_retry
    from app.dashboard.jobs.retry_view import draw_retries, draw_retry

__all__ = [
    "Job",
    "Retry",
    "RetryQuote",
    "draw_exports",
    "draw_retries",
    "draw_retry",
    "list_jobs",
    "quote_retry",
    "start_export",
    "start_retry",
    "stop_job",
]

__getattr__ = lazy_exports(__name__)
