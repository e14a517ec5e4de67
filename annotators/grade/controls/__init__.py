"""Controls of judges: which captions get them, and what they show."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from annotators.grade.controls.plan import (
        Control as Control,
        ControlPlan as ControlPlan,
        DatasetControls as DatasetControls,
        make_control_value as make_control_value,
        plan_controls as plan_controls,
    )

__getattr__ = lazy_exports(__name__)
