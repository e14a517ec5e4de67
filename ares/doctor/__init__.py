"""Checks that the stores of a workspace agree with each other and with the source files, and repairs them."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.doctor.checks import Finding as Finding
    from ares.doctor.run import relocate_sources as relocate_sources, run_checks as run_checks
    from ares.doctor.sources import parse_relocation as parse_relocation
    from ares.doctor.vectors import (
        UNFINISHED_SPACES as UNFINISHED_SPACES,
        delete_unrecorded_vectors as delete_unrecorded_vectors,
    )

__getattr__ = lazy_exports(__name__)
