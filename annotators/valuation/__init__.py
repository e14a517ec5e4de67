"""The annotator `valuation`: how much each episode is worth for training."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from annotators.valuation.annotator import (
        ValuationAnnotator as ValuationAnnotator,
    )
    from annotators.valuation.valuers import (
        EpisodeScore as EpisodeScore,
        EpisodeScorer as EpisodeScorer,
        Valuer as Valuer,
        ValuerFactory as ValuerFactory,
        make_mutual_information_valuer as make_mutual_information_valuer,
    )

__getattr__ = lazy_exports(__name__)
