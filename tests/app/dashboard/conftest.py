"""Fixtures: a real browser, and a dashboard, for the tests of the pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ares.workspace import Workspace
from tests.app.dashboard.browser import QUIET, serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session", autouse=True)
def _without_component_scan() -> Iterator[None]:
    """`AppTest` reads the metadata of all installed packages at every run, 0.14 s; none has a component of ours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamlit.components.v2.manifest_scanner.scan_component_manifests", list)
        yield


@pytest.fixture(scope="session")
def workspace_address(workspace: Workspace) -> Iterator[str]:
    """The address of a dashboard of the small workspace, for all tests of the process."""
    with serve(workspace) as address:
        yield address


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        instance = playwright.chromium.launch(executable_path=chromium, args=QUIET)
        yield instance
        instance.close()
