"""Commands that bring datasets into the workspace and write training datasets out of it."""

from __future__ import annotations

__all__: list[str] = []
