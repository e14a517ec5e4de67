"""The annotator `grade`, its judges and the rubrics that come with ARES."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from annotators.grade.annotator import make_grade_annotator
    from annotators.grade.clip_judge import ClipJudge, read_candidates
    from annotators.grade.judge import ChangedFrames, blank, scrambled
    from annotators.grade.shipped_rubrics import load_rubric, rubric_names

__all__ = [
    "ChangedFrames",
    "ClipJudge",
    "blank",
    "load_rubric",
    "make_grade_annotator",
    "read_candidates",
    "rubric_names",
    "scrambled",
]

__getattr__ = lazy_exports(__name__)
