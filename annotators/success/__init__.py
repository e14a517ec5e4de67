"""The annotator `success`: whether the task of an episode was done at its end, as one probability with its parts."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from annotators.success.annotator import SuccessAnnotator as SuccessAnnotator
    from annotators.success.combination import (
        Combination as Combination,
        StoredOutcome as StoredOutcome,
        current_success_producer as current_success_producer,
        load_success_combination as load_success_combination,
        read_stored_outcomes as read_stored_outcomes,
        write_success_combination as write_success_combination,
    )
    from annotators.success.evaluation import (
        Labels as Labels,
        SuccessEvaluation as SuccessEvaluation,
        bootstrap_auc_interval as bootstrap_auc_interval,
        compute_area_under_curve as compute_area_under_curve,
        evaluate_success as evaluate_success,
        fit_to_labels as fit_to_labels,
        read_outcome_labels as read_outcome_labels,
    )
    from annotators.success.fitting import (
        Example as Example,
        fit_combination as fit_combination,
        fit_verdict_thresholds as fit_verdict_thresholds,
    )

__getattr__ = lazy_exports(__name__)
