"""A share with its interval, as tables of benchmarks print it."""

from __future__ import annotations

from ares.statistics import wilson_interval


def format_share(hits: int, total: int) -> str:
    """A share with its 95 % Wilson interval."""
    low, high = wilson_interval(hits, total)
    return f"{hits}/{total} ({low:.2f}-{high:.2f})" if total else "none planted"
