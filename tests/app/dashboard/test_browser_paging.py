"""Paging in a real browser: at any pace no press is lost, the last one wins, and a player is always there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from ares.curation import SOURCE_ORDER
from ares.workspace import Workspace

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
_PRESSES = 8


@pytest.fixture
def ids(workspace: Workspace) -> list[str]:
    """The ids of all episodes in the order of Browse."""
    table = workspace.stores.tables.episodes
    batches = table.scan(["episode_id"], order_by=SOURCE_ORDER)
    return [str(id) for batch in batches for id in batch.column("episode_id").to_pylist()]


def _open_first(page: Page, address: str, ids: list[str]) -> None:
    page.goto(f"{address}/episode?episode={ids[0]}&at=0")
    expect(page.locator(f".player[data-episode='{ids[0]}']")).to_be_visible()
    expect(page.locator(".place")).to_have_text(f"1 of {len(ids)}")


def _page_on(page: Page, pause_ms: float, ids: list[str], keys: list[str], at: int) -> None:
    """Press keys; in the end the episode at that place is there, and a player was there all the time."""
    for key in keys:
        page.keyboard.press(key)
        assert page.locator(".player").count() == 1
        page.wait_for_timeout(pause_ms)
    expect(page.locator(f".player[data-episode='{ids[at]}']")).to_be_visible()
    expect(page.locator(".place")).to_have_text(f"{at + 1} of {len(ids)}")
    expect(page.get_by_text("because of a bug")).to_have_count(0)
    assert f"episode={ids[at]}&at={at}" in page.url


def test_no_press_is_lost_at_any_pace(page: Page, address: str, ids: list[str]) -> None:
    _open_first(page, address, ids)
    _page_on(page, 0, ids, ["Shift+ArrowRight"] * _PRESSES, _PRESSES)
    _page_on(page, 100, ids, ["Shift+ArrowLeft"] * 3 + ["Shift+ArrowRight"] * 2, _PRESSES - 1)
    # The ends of the list, by the buttons: no press beyond them counts.
    _page_on(page, 0, ids, ["Shift+ArrowRight"] * len(ids) + ["Shift+ArrowLeft"], len(ids) - 2)
    # The head is drawn behind the player: until it says so, an episode counts as passed over.
    page.get_by_role("status").get_by_text(f"{len(ids) - 1} of {len(ids)}", exact=True).wait_for()
    page.get_by_role("button", name="Next").click()
    _page_on(page, 0, ids, [], len(ids) - 1)
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    # What was passed over is no stop for the button "back" of the browser.
    page.go_back()
    _page_on(page, 0, ids, [], len(ids) - 2)
