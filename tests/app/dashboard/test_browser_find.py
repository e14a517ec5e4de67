"""Anything that has a name opens in one step, from the dialog of every page and from the search box of Browse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.app.dashboard.browser import AXE, VIOLATIONS, open_tab, serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[Workspace]:
    """Four videos, a set of two of them, and a tag."""
    opened = open_workspace(str(tmp_path_factory.mktemp("find") / "w"), Settings())
    opened.ingest(demo_samples / "video", limit=4, quiet=True)
    ids = sorted(opened.stores.tables.episodes.ids())
    opened.sets.create("accepted", ids[:2])
    opened.tag("to_check", ids[:1])
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def address(workspace: Workspace) -> Iterator[str]:
    with serve(workspace) as address:
        yield address


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with open_tab(browser, address) as tab:
        yield tab


def find(page: Page, text: str) -> None:
    """Opens the first thing of a name by keys alone."""
    expect(page.get_by_role("button", name="Find Ctrl K")).to_be_visible()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Find by name").fill(text)
    expect(page.get_by_role("option").first).to_contain_text(text)
    page.keyboard.press("Enter")


def test_an_id_a_set_a_dataset_a_tag_and_a_page_open_from_every_page(
    page: Page, address: str, workspace: Workspace
) -> None:
    episode = sorted(workspace.stores.tables.episodes.ids())[0]
    page.goto(f"{address}/health")
    find(page, episode)
    expect(page).to_have_url(re.compile(f"/episode.episode={episode}"))
    expect(page.get_by_text("1 of 4").or_(page.locator(".headline")).first).to_be_visible()
    find(page, "accepted")
    expect(page).to_have_url(re.compile(r"/sets.set=accepted"))
    expect(page.get_by_text("accepted@1").first).to_be_visible()
    find(page, "to_check")
    expect(page.get_by_text("1 of 4 episodes")).to_be_visible()
    find(page, "video")
    expect(page.get_by_text("4 of 4 episodes")).to_be_visible()
    find(page, "Status")
    expect(page).to_have_url(re.compile("/status"))


def test_the_dialog_says_that_nothing_has_a_name_and_closes(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_role("button", name="Find Ctrl K").click()
    page.get_by_role("combobox", name="Find by name").fill("<b>zebra</b>")
    expect(page.get_by_text("Nothing is named “<b>zebra</b>”.")).to_be_visible()
    assert page.evaluate(VIOLATIONS, AXE.read_text()) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_search_box_opens_an_id_and_names_what_is_called_so(
    page: Page, address: str, workspace: Workspace
) -> None:
    episode = sorted(workspace.stores.tables.episodes.ids())[1]
    page.goto(address)
    box = page.get_by_placeholder("Search by meaning")
    box.fill(episode.upper())
    box.press("Enter")
    expect(page).to_have_url(re.compile(f"/episode.episode={episode}"))
    page.goto(address)
    box.fill("accepted")
    box.press("Enter")
    page.get_by_role("button", name="set accepted@1").click()
    expect(page).to_have_url(re.compile(r"/sets.set=accepted"))
