"""Anything opens by its name, and two things side by side, in a real browser by keys alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from app.dashboard.timeline_ticks import make_gripper_ticks
from ares.workspace import Workspace
from tests.app.dashboard.browser import AXE, VIOLATIONS, choose, open_tab, serve
from tests.thinning import some_by_day

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAGES = ("", "map", "statistics", "episode", "compare", "review", "sets", "health", "status")
TIMES = "player => [...player.querySelectorAll('.side')].map(side => side.querySelector('video').currentTime)"
READY = (
    "player => [...player.querySelectorAll('video')].every(video => video.readyState > 1 && !video.seeking)"
)


@pytest.fixture
def page(browser: Browser, workspace_address: str) -> Iterator[Page]:
    with open_tab(browser, workspace_address) as tab:
        yield tab


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


@pytest.mark.nightly
def test_an_id_opens_its_episode_by_keys_alone_from_every_page(
    page: Page, workspace_address: str, workspace: Workspace
) -> None:
    episode_id = next(iter(workspace.episodes.ids()))
    for name in PAGES:
        page.goto(f"{workspace_address}/{name}")
        _find(page, episode_id[:10])
        expect(page.get_by_role("option")).to_have_count(1)
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/episode?episode={episode_id}")
    page.locator(f".player[data-episode='{episode_id}']").wait_for()


def test_each_hit_says_what_it_is_and_opens_what_it_says(page: Page, workspace_address: str) -> None:
    page.goto(workspace_address)
    _find(page, "metaworld")
    hit = page.get_by_role("option").first
    expect(hit).to_contain_text("dataset")
    expect(hit).to_contain_text("12 episodes")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?f.dataset=metaworld_sawyer")
    expect(page.get_by_text(re.compile(r"^12 of \d+ episodes$"))).to_be_visible()
    _find(page, "health")
    page.keyboard.press("Enter")
    page.wait_for_url("**/health")


def test_arrows_choose_escape_closes_and_what_has_no_name_is_said(page: Page, workspace_address: str) -> None:
    page.goto(workspace_address)
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


def test_an_id_in_the_search_box_opens_the_episode(
    page: Page, workspace_address: str, workspace: Workspace
) -> None:
    episode_id = next(
        id for id in workspace.episodes.ids() if re.fullmatch(r"(?=[a-f]*\d)[0-9a-f]{8}", id[:8])
    )
    page.goto(workspace_address)
    page.get_by_placeholder("Search by meaning").fill(episode_id[:8])
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/episode?episode={episode_id}")


@pytest.mark.nightly
def test_two_ticked_episodes_are_compared_and_the_address_keeps_it(
    page: Page, workspace_address: str
) -> None:
    page.goto(workspace_address)
    boxes = page.locator(".tick")
    for number in (0, 1):
        boxes.nth(number).click()
        expect(page.get_by_text(f"{number + 1} selected")).to_be_visible()
    page.get_by_role("button", name="Compare", exact=True).click()
    page.wait_for_url(re.compile(r"/compare\?a=[0-9a-f]{16}&b=[0-9a-f]{16}"))
    page.locator(".compare .side").nth(1).wait_for()
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile(r"t=1\.00"))
    titles = page.locator(".side-head").all_inner_texts()
    page.reload()
    page.locator(".compare .side").nth(1).wait_for()
    assert page.locator(".side-head").all_inner_texts() == titles
    expect(page.locator(".readout")).to_contain_text("1.00 s")
    assert page.evaluate(VIOLATIONS, AXE.read_text()) == []


@pytest.mark.nightly
def test_both_play_on_one_clock_also_where_gripper_events_are_aligned(
    page: Page, workspace_address: str, workspace: Workspace
) -> None:
    one, other, events = _two_with_grippers(workspace)
    page.goto(f"{workspace_address}/compare?a={one}&b={other}")
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


@pytest.mark.nightly
def test_two_captioners_of_one_episode_differ_in_marked_words(browser: Browser, contested: Workspace) -> None:
    episode = sorted(contested.stores.tables.episodes.read(), key=lambda episode: episode.key)[1]
    with serve(contested) as address, open_tab(browser, address) as tab:
        tab.goto(f"{address}/episode?episode={episode.episode_id}")
        tab.get_by_role("button", name="Compare producers").click()
        tab.wait_for_url(f"**/compare?a={episode.episode_id}")
        texts = tab.locator(".side-text")
        expect(texts.nth(0)).to_have_text(re.compile("open it"))
        expect(texts.nth(1)).to_contain_text("lift")
        expect(texts.nth(0).locator("mark")).to_have_text(["open", "it"])
        expect(tab.locator(".compare .cameras")).to_have_count(1)


@pytest.mark.parametrize(
    ("query", "text"),
    some_by_day(
        [
            ("", "Nothing to compare yet"),
            ("?a=zzzz", "no episode 'zzzz'"),
            ("?a={id}&align=x", "an alignment cannot be read"),
            ("?a={id}&align=99", "there is no event 99"),
            ("?a={id}&maker_a=nobody", "no producer 'nobody'"),
            ("?a={id}&t=soon", "a second cannot be read"),
        ],
        4,
        rows=True,
    ),
)
def test_an_address_that_says_nothing_is_answered_in_a_line(
    page: Page, workspace_address: str, workspace: Workspace, query: str, text: str
) -> None:
    episode_id = next(iter(workspace.episodes.ids()))
    page.goto(f"{workspace_address}/compare{query.format(id=episode_id)}")
    expect(page.get_by_text(text).first).to_be_visible()
