"""The annotator `success`: whether the task of an episode was done at its end, as one probability with its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from annotators.success.annotator import make_success_annotator
    from annotators.success.combination import Combination, load_combination, write_combination
    from annotators.success.evaluation import Evaluation, evaluate_success, fit_to_labels
    from annotators.success.fitting import Example, fit_combination, fit_thresholds
    from annotators.success.labels import Labels, read_labels
    from annotators.success.statistics import area_under_curve, bootstrap_interval
    from annotators.success.stored import StoredOutcome, current_success_maker, read_outcomes

__all__ = [
    "Combination",
    "Evaluation",
    "Example",
    "Labels",
    "StoredOutcome",
    "area_under_curve",
    "bootstrap_interval",
    "current_success_maker",
    "evaluate_success",
    "fit_combination",
    "fit_thresholds",
    "fit_to_labels",
    "load_combination",
    "make_success_annotator",
    "read_labels",
    "read_outcomes",
    "write_combination",
]

__getattr__ = lazy_exports(__name__)
