"""Fixtures: a real browser, and a dashboard, for the tests of the pages."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

import pytest

from ares.workspace import Workspace
from ares_app.dashboard import cached_reads
from tests.app.dashboard.browser import QUIET, open_tab, serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(autouse=True)
def _without_component_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """`AppTest` looks for components in all installed packages, 0.14 s each time; it sees those with our plug-ins."""
    packages = _packages_with_plugins()
    monkeypatch.setattr(metadata, "distributions", lambda **filters: iter(packages))


@cache
def _packages_with_plugins() -> tuple[metadata.Distribution, ...]:
    return tuple(
        package
        for package in metadata.distributions()
        if any(entry.group.startswith("ares.") for entry in package.entry_points)
    )


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        instance = playwright.chromium.launch(executable_path=chromium, args=QUIET)
        yield instance
        instance.close()


@pytest.fixture(scope="module")
def address(workspace: Workspace) -> Iterator[str]:
    """The dashboard that `page` opens, of the workspace of this folder or of the file."""
    with serve(workspace) as address:
        yield address


@pytest.fixture
def displayed(workspace: Workspace) -> Workspace:
    """What pages show that are drawn without a browser."""
    cached_reads.use_workspace(workspace)
    return workspace


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """An empty tab for the dashboard, which tolerates no error."""
    with open_tab(browser, address) as tab:
        yield tab
