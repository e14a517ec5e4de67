"""Export of curated sets as training datasets that other libraries open."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.export.base import (
        EPISODES_FILE as EPISODES_FILE,
        FAILURES_FILE as FAILURES_FILE,
        RETIME_MODES as RETIME_MODES,
        SAMPLE_WEIGHT as SAMPLE_WEIGHT,
        SPLIT_FILE as SPLIT_FILE,
        TASK_SOURCES as TASK_SOURCES,
        ExportReport as ExportReport,
        ExportRequest as ExportRequest,
        RetimeMode as RetimeMode,
        TaskSource as TaskSource,
    )
    from ares.export.layout_groups import (
        DatasetCounts as DatasetCounts,
        DatasetGroup as DatasetGroup,
        ExportItem as ExportItem,
        ExportPlan as ExportPlan,
        GroupedExport as GroupedExport,
        GroupedFormat as GroupedFormat,
        export_groups as export_groups,
    )
    from ares.export.lerobot.exporter import export_lerobot as export_lerobot
    from ares.export.member_export import (
        ExportedMember as ExportedMember,
        export_members as export_members,
    )
    from ares.export.merge_plan import MergePlan as MergePlan, read_merge_plan as read_merge_plan
    from ares.export.merge_proposal import propose_merge_plan as propose_merge_plan
    from ares.export.parquet import export_parquet as export_parquet
    from ares.export.precision_gate import (
        describe_measured as describe_measured,
        keep_measured_episodes as keep_measured_episodes,
        refuse_unmeasured as refuse_unmeasured,
    )
    from ares.export.run import (
        ExportReader as ExportReader,
        export_set as export_set,
        open_reader as open_reader,
    )
    from ares.export.segments import SEGMENT_CHOICES as SEGMENT_CHOICES
    from ares.export.trim import TrimRequest as TrimRequest

__getattr__ = lazy_exports(__name__)
