"""Commands that run annotators and show their rubrics."""

from __future__ import annotations

__all__: list[str] = []
