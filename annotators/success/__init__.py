"""The annotator `success`: whether the task of an episode was done at its end, as one probability with its parts."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from annotators.success.annotator import SuccessAnnotator as SuccessAnnotator
    from annotators.success.combination import (
        Combination as Combination,
        StoredOutcome as StoredOutcome,
        current_success_maker as current_success_maker,
        load_combination as load_combination,
        read_outcomes as read_outcomes,
        write_combination as write_combination,
    )
    from annotators.success.evaluation import (
        Evaluation as Evaluation,
        Labels as Labels,
        area_under_curve as area_under_curve,
        bootstrap_interval as bootstrap_interval,
        evaluate_success as evaluate_success,
        fit_to_labels as fit_to_labels,
        read_labels as read_labels,
    )
    from annotators.success.fitting import (
        Example as Example,
        fit_combination as fit_combination,
        fit_thresholds as fit_thresholds,
    )

__getattr__ = lazy_exports(__name__)
