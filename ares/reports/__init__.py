"""Reports of checks: findings counted, health, audits, evidence, continuous integration."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.reports.audit import (
        FAULTS as FAULTS,
        DataAudit as DataAudit,
        FaultRecall as FaultRecall,
        audit_episodes as audit_episodes,
        share_text as share_text,
    )
    from ares.reports.ci import (
        Baseline as Baseline,
        BaselineKey as BaselineKey,
        BaselineWriter as BaselineWriter,
        baseline_key as baseline_key,
        github_annotations as github_annotations,
        read_baseline as read_baseline,
        write_sarif as write_sarif,
    )
    from ares.reports.evidence import frame_strip as frame_strip, plot_finding as plot_finding
    from ares.reports.fix_report import (
        CORRECTED as CORRECTED,
        CodeFix as CodeFix,
        FixReport as FixReport,
    )
    from ares.reports.health import (
        DatasetHealth as DatasetHealth,
        DimensionHealth as DimensionHealth,
        UnhealthyEpisode as UnhealthyEpisode,
        dataset_health as dataset_health,
        episode_findings as episode_findings,
    )
    from ares.reports.report import (
        CheckReport as CheckReport,
        CodeCount as CodeCount,
        CodeCounter as CodeCounter,
        DatasetCheck as DatasetCheck,
        EvidenceFile as EvidenceFile,
        ListedFinding as ListedFinding,
        VideoTotals as VideoTotals,
        evidence_files as evidence_files,
        write_index as write_index,
    )

__getattr__ = lazy_exports(__name__)
