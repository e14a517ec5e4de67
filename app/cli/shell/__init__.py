"""Tab completion of bash, zsh and fish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from app.cli.shell.completion import answer_shell

__all__ = ["answer_shell"]

__getattr__ = lazy_exports(__name__)
