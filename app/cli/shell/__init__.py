"""Tab completion of bash, zsh and fish."""

from __future__ import annotations

__all__: list[str] = []
