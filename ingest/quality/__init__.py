"""Checks the signals of datasets where they lie, without a workspace, and corrects them in a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ingest.quality.corrected_copy import fix
    from ingest.quality.operation import check

__all__ = ["check", "fix"]

__getattr__ = lazy_exports(__name__)
