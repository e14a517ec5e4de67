"""Captions that were refused are asked again with a critique, and measured by what the critique does not say."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares_annotators.revise.run import (
        RevisionRequest as RevisionRequest,
        RevisionRun as RevisionRun,
        run_revision as run_revision,
    )

__getattr__ = lazy_exports(__name__)
