"""Export of curated sets as training datasets that other libraries open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.export.base import TASK_SOURCES, ExportReport, TaskSource
    from ares.export.fix_report import CodeFix, FixReport
    from ares.export.grouped import (
        DatasetCounts,
        ExportItem,
        ExportOptions,
        GroupedExport,
        GroupedFormat,
        export_groups,
    )
    from ares.export.left_out import FAILURES_FILE
    from ares.export.load import load_exporter
    from ares.export.parquet import export_parquet
    from ares.export.plan import DatasetGroup, ExportPlan
    from ares.export.retime import RETIME_MODES, ExportClock, RetimeMode
    from ares.export.run import export_set, set_conversion

__all__ = [
    "FAILURES_FILE",
    "RETIME_MODES",
    "TASK_SOURCES",
    "CodeFix",
    "DatasetCounts",
    "DatasetGroup",
    "ExportClock",
    "ExportItem",
    "ExportOptions",
    "ExportPlan",
    "ExportReport",
    "FixReport",
    "GroupedExport",
    "GroupedFormat",
    "RetimeMode",
    "TaskSource",
    "export_groups",
    "export_parquet",
    "export_set",
    "load_exporter",
    "set_conversion",
]

__getattr__ = lazy_exports(__name__)
