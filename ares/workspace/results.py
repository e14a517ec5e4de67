"""Results of a workspace's verbs: lists that show themselves as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from ares.doctor import Finding
from ares.jobs import AnnotateEstimate, AnnotateReport
from ares.search.facets import Facet
from ares.workspace.display import ResultTable
from ares.workspace.stored_hit import StoredHit

_SHOWN_VALUES = 5


class SearchResults(ResultTable[StoredHit]):
    """The moments that a search returned, best first."""

    shown: ClassVar[Mapping[str, Callable[[StoredHit], object]]] = {
        "episode": lambda hit: hit.episode_id,
        "score": lambda hit: f"{hit.relevance:.2f}",
        "found by": lambda hit: " ".join(f"{way}:{rank}" for way, rank in hit.ranks),
        "camera": lambda hit: hit.camera,
        "second": lambda hit: f"{hit.seconds:.2f}",
        "dataset": lambda hit: hit.dataset,
        "caption": lambda hit: hit.caption,
        "instruction": lambda hit: hit.instruction,
    }


class FacetList(ResultTable[Facet]):
    """Counts of the values of columns, one facet per column."""

    shown: ClassVar[Mapping[str, Callable[[Facet], object]]] = {
        "column": lambda facet: facet.column,
        "type": lambda facet: facet.type,
        "values": lambda facet: _values(facet),
        "missing": lambda facet: facet.missing,
        "meaning": lambda facet: facet.meaning,
    }


class FindingList(ResultTable[Finding]):
    """What the checks of a workspace revealed; empty when everything agrees."""

    shown: ClassVar[Mapping[str, Callable[[Finding], object]]] = {
        "check": lambda finding: finding.check,
        "count": lambda finding: finding.count,
        "example": lambda finding: finding.example,
        "repaired": lambda finding: finding.repaired,
        "remedy": lambda finding: finding.remedy,
    }
    empty: ClassVar[str] = "all promises between the stores hold"


class AnnotateReports(ResultTable[AnnotateReport]):
    """What the annotators of a run did, one report each."""

    shown: ClassVar[Mapping[str, Callable[[AnnotateReport], object]]] = {
        "annotator": lambda report: report.annotator,
        "planned": lambda report: report.planned,
        "kept": lambda report: report.kept,
        "already": lambda report: report.already,
        "failed": lambda report: report.failed,
        "usd": lambda report: "unknown" if report.cost.usd is None else report.cost.usd,
        "seconds": lambda report: report.seconds,
    }


class EstimateList(ResultTable[AnnotateEstimate]):
    """What the annotators of a run would do and cost."""

    shown: ClassVar[Mapping[str, Callable[[AnnotateEstimate], object]]] = {
        "annotator": lambda estimate: estimate.annotator,
        "planned": lambda estimate: estimate.planned,
        "already": lambda estimate: estimate.already,
        "frames": lambda estimate: estimate.frames,
        "calls": lambda estimate: estimate.cost.calls,
        "usd": lambda estimate: "unknown" if estimate.cost.usd is None else estimate.cost.usd,
    }


def _values(facet: Facet) -> str:
    """The most frequent values with their counts, or the range of numbers."""
    if facet.edges:
        return f"{facet.edges[0]:g} to {facet.edges[-1]:g}"
    return ", ".join(f"{value} {count}" for value, count in facet.counts[:_SHOWN_VALUES])
