"""The annotator `valuation`: how much each episode is worth for training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from annotators.valuation.annotator import make_valuation_annotator

__all__ = ["make_valuation_annotator"]

__getattr__ = lazy_exports(__name__)
