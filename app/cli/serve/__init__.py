"""Commands that open the dashboard."""

from __future__ import annotations

__all__: list[str] = []
