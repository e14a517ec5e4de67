"""Reports of checks: findings counted, health, and corrections."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.reports.finding_counts import (
        CheckReport as CheckReport,
        DatasetCheck as DatasetCheck,
        FindingCodeCount as FindingCodeCount,
        FindingCounter as FindingCounter,
        VideoTotals as VideoTotals,
    )
    from ares.reports.fix_report import (
        CORRECTED as CORRECTED,
        FixReport as FixReport,
    )
    from ares.reports.health import (
        DatasetHealth as DatasetHealth,
        check_stored_episode as check_stored_episode,
        dataset_health as dataset_health,
    )

__getattr__ = lazy_exports(__name__)
