"""Mappings: what a spec says of the arrays, cameras and texts of a dataset of any format, applied to its records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ingest.mapping.apply import apply_spec
    from ingest.mapping.show import describe_array, describe_arrays, show_spec, spec_lines
    from ingest.mapping.sources import open_with_spec
    from ingest.mapping.texts import text_of_spec

__all__ = [
    "apply_spec",
    "describe_array",
    "describe_arrays",
    "open_with_spec",
    "show_spec",
    "spec_lines",
    "text_of_spec",
]

__getattr__ = lazy_exports(__name__)
