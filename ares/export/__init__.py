"""Export of curated sets as training datasets that other libraries open."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.export.base import (
        FAILURES_FILE as FAILURES_FILE,
        TASK_SOURCES as TASK_SOURCES,
        ExportReport as ExportReport,
        TaskSource as TaskSource,
    )
    from ares.export.lerobot.exporter import export_lerobot as export_lerobot
    from ares.export.parquet import export_parquet as export_parquet
    from ares.export.plan import (
        DatasetCounts as DatasetCounts,
        DatasetGroup as DatasetGroup,
        ExportItem as ExportItem,
        ExportOptions as ExportOptions,
        ExportPlan as ExportPlan,
        GroupedExport as GroupedExport,
        GroupedFormat as GroupedFormat,
        export_groups as export_groups,
    )
    from ares.export.retime import (
        RETIME_MODES as RETIME_MODES,
        ExportClock as ExportClock,
        RetimeMode as RetimeMode,
    )
    from ares.export.run import (
        export_set as export_set,
        load_exporter as load_exporter,
        set_conversion as set_conversion,
    )

__getattr__ = lazy_exports(__name__)
