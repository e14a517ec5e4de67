"""The dashboard of a workspace, which a package above serves: reached by its plug-in door."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Protocol, cast

from ares.registry import operations

if TYPE_CHECKING:
    from ares.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """A dashboard that is being served in the background, by a process of its own.

        >>> dashboard = ares.app(ws)
        >>> dashboard.url
        'http://127.0.0.1:8501'
        >>> dashboard.close()

    Attributes:
        url: Its address.
        close: Ends it.
    """

    url: str
    close: Callable[[], None]

    def __repr__(self) -> str:
        return f"Dashboard({self.url!r}; close() ends it)"

    def _repr_html_(self) -> str:
        """A link, for notebooks."""
        return f'<a href="{escape(self.url)}" target="_blank">ARES dashboard: {escape(self.url)}</a>'


class AppOperation(Protocol):
    """The entry point `app` of the group "ares.operations"; see `ares.app`."""

    def __call__(
        self,
        workspace: Workspace,
        *,
        host: str,
        port: int,
        open_browser: bool,
        export_dirs: Sequence[str],
        query_seconds: float | None,
        trusted_proxies: Sequence[str],
    ) -> Dashboard:
        """Serve the dashboard in the background."""


def app_operation() -> AppOperation:
    """The function that serves the dashboard. Raises RequestError when its package is not installed."""
    return cast("AppOperation", operations.get("app"))
