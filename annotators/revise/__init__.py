"""Captions that were refused are asked again with a critique, and measured by what the critique does not say."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from annotators.revise.report import (
        RevisionQuote as RevisionQuote,
        RevisionRound as RevisionRound,
        RevisionRun as RevisionRun,
    )
    from annotators.revise.run import (
        RevisionRequest as RevisionRequest,
        quote_revision as quote_revision,
        run_revision as run_revision,
    )

__getattr__ = lazy_exports(__name__)
