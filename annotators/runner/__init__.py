"""Runs annotators over episodes: planning, decoding, budgets, storing."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares_annotators.runner.run import annotate as annotate, estimate as estimate

__getattr__ = lazy_exports(__name__)
