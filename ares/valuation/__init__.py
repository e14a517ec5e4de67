"""How much an episode is worth for training: estimates from signals alone, and scores of a training run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.valuation.base import EpisodeScore, EpisodeScorer, Valuer, ValuerFactory
    from ares.valuation.mutual_information import make_mutual_information_valuer
    from ares.valuation.score_file import ScoreFile, read_score_file

__all__ = [
    "EpisodeScore",
    "EpisodeScorer",
    "ScoreFile",
    "Valuer",
    "ValuerFactory",
    "make_mutual_information_valuer",
    "read_score_file",
]

__getattr__ = lazy_exports(__name__)
