"""Captions that were refused are asked again with a critique, and measured by what the critique does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from annotators.revise.parties import RevisionRequest
    from annotators.revise.report import RevisionQuote, RevisionRound, RevisionRun
    from annotators.revise.run import quote_revision, run_revision

__all__ = [
    "RevisionQuote",
    "RevisionRequest",
    "RevisionRound",
    "RevisionRun",
    "quote_revision",
    "run_revision",
]

__getattr__ = lazy_exports(__name__)
