"""Reports of checks: findings counted, health, corrections, and baselines of accepted findings."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.reports.baseline import (
        Baseline as Baseline,
        BaselineKey as BaselineKey,
        BaselineWriter as BaselineWriter,
        baseline_key as baseline_key,
        read_baseline as read_baseline,
    )
    from ares.reports.finding_counts import (
        CheckReport as CheckReport,
        DatasetCheck as DatasetCheck,
        FindingCodeCount as FindingCodeCount,
        FindingCounter as FindingCounter,
        ListedFinding as ListedFinding,
        VideoTotals as VideoTotals,
    )
    from ares.reports.fix_report import (
        CORRECTED as CORRECTED,
        CodeFix as CodeFix,
        FixReport as FixReport,
    )
    from ares.reports.health import (
        DatasetHealth as DatasetHealth,
        TypicalDimension as TypicalDimension,
        UnhealthyEpisode as UnhealthyEpisode,
        check_stored_episode as check_stored_episode,
        dataset_health as dataset_health,
    )

__getattr__ = lazy_exports(__name__)
