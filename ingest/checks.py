"""The checks of every record that is ingested, and the annotation that records their findings."""

from __future__ import annotations

from ares.annotation import Annotation, Column, Maker
from ares.episode import Episode, Json
from ares.quality import QualityFinding, check_code, finding_reason

CHECKER = Maker(
    annotator="quality",
    version="3",
    columns=(
        Column(name="quality_findings", type="int64", meaning="suspicious things found when it was ingested"),
        Column(
            name="quality_codes",
            type="list<string>",
            meaning="codes of the checks that found something when it was ingested, see docs/check.md",
        ),
    ),
)

_CHECKER_ID = CHECKER.maker_id


def quality_codes(findings: tuple[QualityFinding, ...]) -> list[str]:
    """Code and name of every check that has a finding, in the order of the codes: "A001 not-finite"."""
    return [f"{code} {check_code(code).name}" for code in sorted({finding.code for finding in findings})]


def findings_annotation(episode: Episode, findings: tuple[QualityFinding, ...], created: str) -> Annotation:
    """The annotation that records the findings about an episode.

    Args:
        episode: The episode that was checked.
        findings: The findings; may be empty.
        created: When, as ISO 8601 in UTC.
    """
    documents: list[Json] = [{"reason": finding_reason(finding), **finding.to_json()} for finding in findings]
    codes: list[Json] = list(quality_codes(findings))
    return Annotation(
        episode_id=episode.episode_id,
        name=CHECKER.annotator,
        value={"findings": documents, "quality_findings": len(findings), "quality_codes": codes},
        maker_id=_CHECKER_ID,
        subject=episode.episode_id,
        start_seconds=0.0,
        stop_seconds=episode.duration_seconds,
        created=created,
    )
