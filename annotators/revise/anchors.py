"""Anchors: what the captioner is never told of, so that a captioner that learns to please the judge is seen."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ares.annotation import Annotation, Maker, short_hash
from ares.rubric import GATES

if TYPE_CHECKING:
    from ares.rubric import Rubric
    from ares.statistics import PairedDifference

# The annotator of the grades by a second judge: they fill no column.
ANCHOR_GRADE = "anchor_grade"
_LEVEL = 0.05
_NOT_FAILED = frozenset({"MET", "NA"})


def anchor_criteria(rubric: Rubric, share: float, seed: int) -> list[str]:
    """The gates of a rubric, ruled on by its judge, that no critique names: a share of them.

    At least one is hidden, and at least one can be told of; of a single gate none is hidden.

    Args:
        rubric: The rubric.
        share: Share of them, 0 to 1.
        seed: Of the choice.
    """
    judged = [item.id for item in rubric.criteria if item.category in GATES and (item.slot or item.claim)]
    count = min(max(1, round(share * len(judged))), len(judged) - 1)
    selected = set(sorted(judged, key=lambda name: short_hash([seed, name]))[:count])
    return [name for name in judged if name in selected]


def meets_all(verdicts: Mapping[str, str], criteria: Collection[str]) -> bool:
    """Whether a caption meets some criteria, as far as they apply to it; UNSURE and ERROR do not count as met."""
    return all(verdicts.get(name) in _NOT_FAILED for name in criteria)


def improves(change: PairedDifference) -> bool:
    """Whether an improvement is shown, by the interval over episodes and by McNemar's exact test."""
    return change.low > 0 and change.p_value < _LEVEL


def anchor_maker(judge: Maker) -> Maker:
    """The maker of a second judge's grades, which are shown nowhere."""
    return replace(judge, annotator=ANCHOR_GRADE, columns=(), after=())


def as_anchor(annotation: Annotation, judge: Maker) -> Annotation:
    """An annotation of the second judge under the maker of anchors; an observation stays what it is."""
    if annotation.maker_id != judge.maker_id:
        return annotation
    name = ANCHOR_GRADE if annotation.name == judge.annotator else annotation.name
    return replace(annotation, name=name, maker_id=anchor_maker(judge).maker_id)
