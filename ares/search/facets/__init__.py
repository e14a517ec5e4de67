"""Counts of column values and histograms, over all episodes or those that match a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.search.facets.counts import NUMERIC_TYPES
    from ares.search.facets.facets import Facet, compute_facets

__all__ = ["NUMERIC_TYPES", "Facet", "compute_facets"]

__getattr__ = lazy_exports(__name__)
