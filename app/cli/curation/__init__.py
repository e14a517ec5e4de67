"""Commands that find episodes, show them and freeze them into sets."""

from __future__ import annotations

__all__: list[str] = []
