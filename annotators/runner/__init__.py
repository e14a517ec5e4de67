"""Runs annotators over episodes: planning, decoding, budgets, storing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from annotators.runner.quote import estimate_cost
    from annotators.runner.run import annotate
    from annotators.runner.subjects import EpisodeBundle

__all__ = ["EpisodeBundle", "annotate", "estimate_cost"]

__getattr__ = lazy_exports(__name__)
