"""Exports in processes of their own: they outlive the server, are seen again after it, and can be stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from app.dashboard.exports.job import ExportJob, list_jobs
    from app.dashboard.exports.job_view import draw_jobs
    from app.dashboard.exports.launch import start_export, stop_export

__all__ = ["ExportJob", "draw_jobs", "list_jobs", "start_export", "stop_export"]

__getattr__ = lazy_exports(__name__)
