"""Reports of checks: findings counted, health, evidence, and baselines of accepted findings."""

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
    from ares.reports.evidence import frame_strip as frame_strip, plot_finding as plot_finding
    from ares.reports.finding_counts import (
        CheckReport as CheckReport,
        DatasetCheck as DatasetCheck,
        EvidenceFile as EvidenceFile,
        FindingCodeCount as FindingCodeCount,
        FindingCounter as FindingCounter,
        ListedFinding as ListedFinding,
        VideoTotals as VideoTotals,
        evidence_files as evidence_files,
        write_evidence_page as write_evidence_page,
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
