"""Results of rollouts of trained policies, and which of two policies is better."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.evaluation.comparison import (
        PLANNED_DIFFERENCE as PLANNED_DIFFERENCE,
        Comparison as Comparison,
        bound_success as bound_success,
        compare_trials as compare_trials,
        rules_out as rules_out,
    )
    from ares.evaluation.results import (
        Trial as Trial,
        add_results as add_results,
        read_trials as read_trials,
    )
    from ares.evaluation.trained_sets import (
        SetDifference as SetDifference,
        compare_policies as compare_policies,
    )

__getattr__ = lazy_exports(__name__)
