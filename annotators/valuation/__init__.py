"""The annotator `valuation`: how much each episode is worth for training."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares_annotators.valuation.annotator import ValuationAnnotator as ValuationAnnotator
    from ares_annotators.valuation.mutual_information import fit_mutual_information as fit_mutual_information

__getattr__ = lazy_exports(__name__)
