"""Commands that report on the workspace, check it and repair it."""

from __future__ import annotations

__all__: list[str] = []
