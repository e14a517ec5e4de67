"""The `ares` command line: one file per command, grouped by job."""

from __future__ import annotations

__all__: list[str] = []
