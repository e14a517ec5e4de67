"""ARES: curate robot episodes, from any format to a training set that can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ares.workspace import Workspace

__version__ = "0.1.0"
__all__ = ["__version__", "open"]


def open(path: str | None = None) -> Workspace:
    """Open the workspace at a folder or object-store URI, creating it when it is not there.

    Args:
        path: Where; ARES_WORKSPACE or ./ares-workspace when left out.
    """
    from ares.settings import from_environment
    from ares.workspace import open_workspace

    settings = from_environment()
    return open_workspace(path or settings.workspace, settings)
