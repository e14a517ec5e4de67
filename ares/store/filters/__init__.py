"""SQL filters: checked over a syntax tree, explained when they are wrong, and put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.store.filters.diagnostics import engine_error
    from ares.store.filters.parse import check_filter
    from ares.store.filters.sql_fragments import (
        TrustedFilter,
        batched,
        conjunction,
        ids_filter,
        in_list,
        parenthesize,
        quote_literal,
        split_conjunction,
    )

__all__ = [
    "TrustedFilter",
    "batched",
    "check_filter",
    "conjunction",
    "engine_error",
    "ids_filter",
    "in_list",
    "parenthesize",
    "quote_literal",
    "split_conjunction",
]

__getattr__ = lazy_exports(__name__)
