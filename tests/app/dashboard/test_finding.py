"""Anything opens by its name, and two things side by side, in a real browser by keys alone."""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from app.dashboard.timeline_ticks import make_gripper_ticks
from ares.workspace import Workspace
from tests.app.dashboard.browser import AXE, VIOLATIONS, choose

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
TIMES = "player => [...player.querySelectorAll('.side')].map(side => side.querySelector('video').currentTime)"
READY = (
    "player => [...player.querySelectorAll('video')].every(video => video.readyState > 1 && !video.seeking)"
)


def _find(page: Page, text: str) -> None:
    """Open the dialog by its key, type, and wait for what it lists."""
    page.get_by_role("button", name="Find").wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Find by name").wait_for()
    page.keyboard.type(text)
    page.get_by_role("option").first.wait_for()


def _two_with_grippers(workspace: Workspace) -> tuple[str, str, list[list[float]]]:
    """Two episodes whose grippers move first at different seconds, and the seconds of both."""
    table = workspace.stores.tables.trajectories
    events = {
        id: sorted(float(str(tick["seconds"])) for tick in make_gripper_ticks(table.get(id), None))
        for id in sorted(workspace.episodes.where("dataset = 'metaworld_sawyer'").ids())
    }
    return next(
        (one, other, [events[one], events[other]])
        for one, other in combinations(events, 2)
        if events[one] and events[other] and abs(events[one][0] - events[other][0]) > 0.3
    )


def test_arrows_choose_escape_closes_and_what_has_no_name_is_said(page: Page, address: str) -> None:
    page.goto(address)
    _find(page, "st")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option", selected=True)).to_have_count(1)
    expect(page.get_by_role("option").nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Control+a")
    page.keyboard.type("%_no such name_%")
    expect(page.get_by_text("Nothing has the name")).to_be_visible()
    expect(page.get_by_role("option")).to_have_count(0)
    assert page.evaluate(VIOLATIONS, AXE.read_text()) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("combobox", name="Find by name")).to_be_hidden()


def test_an_id_in_the_search_box_opens_the_episode(page: Page, address: str, workspace: Workspace) -> None:
    episode_id = next(
        id for id in workspace.episodes.ids() if re.fullmatch(r"(?=[a-f]*\d)[0-9a-f]{8}", id[:8])
    )
    page.goto(address)
    page.get_by_placeholder("Search by meaning").fill(episode_id[:8])
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/episode?episode={episode_id}")


@pytest.mark.nightly
def test_both_play_on_one_clock_also_where_gripper_events_are_aligned(
    page: Page, address: str, workspace: Workspace
) -> None:
    one, other, events = _two_with_grippers(workspace)
    page.goto(f"{address}/compare?a={one}&b={other}")
    player = page.locator(".compare")
    player.locator(".side").nth(1).wait_for()
    at_the_start = page.locator(".readout").inner_text()
    choose(page, "Aligned at", "gripper event 1")
    page.wait_for_url(re.compile("align=1"))
    expect(page.locator(".readout")).not_to_have_text(at_the_start)
    page.get_by_role("button", name="A: gripper event 1").click()
    page.wait_for_function(f"({READY})(document.querySelector('.compare') ?? {{querySelectorAll: () => []}})")
    player.evaluate("player => new Promise(done => setTimeout(done, 500))")
    assert player.evaluate(TIMES) == pytest.approx([seconds[0] for seconds in events], abs=0.12)
    page.reload()
    page.locator(".compare .side").nth(1).wait_for()
    page.keyboard.press("Space")
    page.wait_for_timeout(800)
    page.keyboard.press("Space")
    page.wait_for_timeout(500)
    first, second = page.locator(".compare").evaluate(TIMES)
    assert first - events[0][0] == pytest.approx(second - events[1][0], abs=0.12), "they stay aligned"
