"""Checks that need one record alone: metadata, clock, and values that no robot gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.quality.record.checks import (
        check_action_limits,
        check_clock,
        check_constant,
        check_finite,
        check_metadata,
        check_record,
        finding_reason,
    )
    from ares.quality.record.codes import RECORD_CODES

__all__ = [
    "RECORD_CODES",
    "check_action_limits",
    "check_clock",
    "check_constant",
    "check_finite",
    "check_metadata",
    "check_record",
    "finding_reason",
]

__getattr__ = lazy_exports(__name__)
