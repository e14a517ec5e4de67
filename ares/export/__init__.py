"""Export of curated sets as training datasets that other libraries open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.export.base import TASK_SOURCES, ExportReport, TaskSource
    from ares.export.left_out import FAILURES_FILE
    from ares.export.parquet import export_parquet

__all__ = ["FAILURES_FILE", "TASK_SOURCES", "ExportReport", "TaskSource", "export_parquet"]

__getattr__ = lazy_exports(__name__)
