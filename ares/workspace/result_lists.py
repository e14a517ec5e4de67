"""The tables that the verbs of a workspace return: lists that print themselves, in a terminal and a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ares.workspace.episode import StoredHit
from ares.workspace.printed_tables import ResultTable
from ares.workspace.summary import describe_grade

if TYPE_CHECKING:
    from ares.curation import Copies, DuplicateGroup, GroupCounts, GroupStatistics, TagUse
    from ares.doctor import Finding
    from ares.jobs import AnnotateEstimate, AnnotateReport


# What the calls of a run cost.
_COST_COLUMNS: Mapping[str, Callable[[Any], object]] = {
    "calls": lambda run: run.cost.calls,
    "tokens in": lambda run: run.cost.tokens_in,
    "tokens out": lambda run: run.cost.tokens_out,
    "usd": lambda run: "unknown" if run.cost.usd is None else run.cost.usd,
}


class SearchResults(ResultTable[StoredHit]):
    """The moments that a search returned, best first."""

    shown: ClassVar[Mapping[str, Callable[[StoredHit], object]]] = {
        "episode": lambda hit: hit.episode_id,
        "score": lambda hit: "" if hit.score is None else f"{hit.score:.2f}",
        "found by": lambda hit: " ".join(f"{way}:{rank}" for way, rank in hit.ranks),
        "camera": lambda hit: hit.camera,
        "second": lambda hit: f"{hit.seconds:.2f}" if hit.camera or hit.seconds else "",
        "dataset": lambda hit: hit.dataset,
        "source key": lambda hit: f"{hit.split} {hit.key}".strip(),
        "grade": lambda hit: describe_grade(hit.grade or "", is_refuted=bool(hit.grade_refuted)),
        "caption": lambda hit: hit.caption,
        "instruction": lambda hit: hit.instruction,
    }


class GroupTable(ResultTable["GroupCounts"]):
    """Counts of the episodes of each group, the largest group first.

    Args:
        groups: The groups.
        statistics: What was counted: the groups, and all together.
    """

    shown: ClassVar[Mapping[str, Callable[[GroupCounts], object]]] = {
        "value": lambda group: "(none)" if group.value is None else group.value,
        "episodes": lambda group: group.episodes,
        "hours": lambda group: f"{group.hours:.3f}",
        "success": lambda group: group.describe_success(),
        "outcomes": lambda group: group.known,
        "acceptable": lambda group: f"{group.acceptable} of {group.graded}",
        "reviewed": lambda group: group.reviewed,
    }
    empty: ClassVar[str] = "no episodes"

    def __init__(self, groups: Iterable[GroupCounts] = (), statistics: GroupStatistics | None = None) -> None:
        super().__init__(groups)
        self.statistics = statistics


class DuplicateTable(ResultTable["DuplicateGroup"]):
    """Groups of copies, the largest first.

    Args:
        groups: The groups.
        compared: How many episodes were compared in which way, and how many pairs there are.
    """

    shown: ClassVar[Mapping[str, Callable[[DuplicateGroup], object]]] = {
        "duplicate_group": lambda group: group.name,
        "episodes": lambda group: len(group.ids),
        "by": lambda group: group.pairs[0].way,
        "score": lambda group: group.pairs[0].score,
        "most similar pair": lambda group: f"{group.pairs[0].first} {group.pairs[0].second}",
    }
    empty: ClassVar[str] = "no near duplicates"

    def __init__(self, groups: Iterable[DuplicateGroup] = (), compared: Copies | None = None) -> None:
        super().__init__(groups)
        self.compared = compared


class FindingList(ResultTable["Finding"]):
    """What the checks of a workspace revealed; empty when everything agrees."""

    shown: ClassVar[Mapping[str, Callable[[Finding], object]]] = {
        "check": lambda finding: finding.check,
        "count": lambda finding: finding.count,
        "example": lambda finding: finding.example,
        "repaired": lambda finding: finding.repaired,
        "remedy": lambda finding: finding.remedy,
    }
    empty: ClassVar[str] = "all promises between the stores hold"


class AnnotateReports(ResultTable["AnnotateReport"]):
    """What the annotators of a run did, one report each."""

    shown: ClassVar[Mapping[str, Callable[[AnnotateReport], object]]] = {
        "annotator": lambda report: report.annotator,
        "planned": lambda report: report.planned,
        "kept": lambda report: report.kept,
        "already": lambda report: report.already,
        "failed": lambda report: report.failed,
        "open": lambda report: report.open,
        **_COST_COLUMNS,
        "seconds": lambda report: report.seconds,
    }


class EstimateList(ResultTable["AnnotateEstimate"]):
    """What the annotators of a run would do and cost."""

    shown: ClassVar[Mapping[str, Callable[[AnnotateEstimate], object]]] = {
        "annotator": lambda estimate: estimate.annotator,
        "planned": lambda estimate: estimate.planned,
        "already": lambda estimate: "unknown" if estimate.already is None else estimate.already,
        "frames": lambda estimate: estimate.frames,
        **_COST_COLUMNS,
    }


class TagList(ResultTable["TagUse"]):
    """The tags that episodes have: how many have each, and who changed it last."""

    shown: ClassVar[Mapping[str, Callable[[TagUse], object]]] = {
        "tag": lambda use: use.tag,
        "episodes": lambda use: use.episodes,
        "person": lambda use: use.person,
        "changed": lambda use: use.changed,
    }
    empty: ClassVar[str] = "no tags"
