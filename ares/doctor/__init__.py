"""Checks that the stores of a workspace agree with each other and with the source files, and repairs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.doctor.environment import EnvironmentFact, describe_environment
    from ares.doctor.finding import Finding
    from ares.doctor.interrupted_runs import UNFINISHED_SPACES, delete_unrecorded_vectors
    from ares.doctor.relocate import parse_move
    from ares.doctor.run import relocate_sources, run_checks

__all__ = [
    "UNFINISHED_SPACES",
    "EnvironmentFact",
    "Finding",
    "delete_unrecorded_vectors",
    "describe_environment",
    "parse_move",
    "relocate_sources",
    "run_checks",
]

__getattr__ = lazy_exports(__name__)
