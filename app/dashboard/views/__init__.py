"""One file per page, each with `render()`; pages read through `cached_reads` and only draw."""

from __future__ import annotations

__all__: list[str] = []
