"""Controls of a judge: texts and frames whose truth is known, graded beside the captions of every run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from annotators.grade.controls.plan import Control, ControlPlan, plan_controls
    from annotators.grade.controls.report import control_value
    from annotators.grade.controls.texts import shipped_phrases

__all__ = [
    "Control",
    "ControlPlan",
    "control_value",
    "plan_controls",
    "shipped_phrases",
]

__getattr__ = lazy_exports(__name__)
