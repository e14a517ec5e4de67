"""A person's path through the dashboard in a real browser: find, watch, step, and nothing from data runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.app.contested_producers import MARKUP
from tests.app.dashboard.browser import open_tab, serve, visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize


pytestmark = pytest.mark.slow
_PHONE: ViewportSize = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def shown(contested_folder: Path) -> Iterator[Workspace]:
    """The contested workspace, which no test of this file changes."""
    with open_workspace(str(contested_folder), Settings()) as opened:
        yield opened


@pytest.fixture(scope="module")
def contested_address(shown: Workspace) -> Iterator[str]:
    with serve(shown) as address:
        yield address


@pytest.fixture
def contested_page(browser: Browser, contested_address: str) -> Iterator[Page]:
    with open_tab(browser, contested_address) as tab:
        yield tab


def _time(page: Page) -> float:
    return float(page.locator(".camera:not(.collapsed) video").first.evaluate("video => video.currentTime"))


def _wait_time(page: Page, test: str) -> None:
    page.wait_for_function(
        "() => { const find = root => { for (const node of root.querySelectorAll('*')) {"
        " if (node.tagName === 'VIDEO' && node.closest('.camera')) return node;"
        " const inner = node.shadowRoot && find(node.shadowRoot); if (inner) return inner; } };"
        f" const video = find(document); const t = video && video.currentTime; return video && ({test}); }}"
    )


def test_watch_and_step(page: Page, address: str, workspace: Workspace) -> None:
    episode_id = min(workspace.stores.tables.episodes.ids("grade = 'acceptable'"))
    page.goto(f"{address}/episode?episode={episode_id}")
    page.locator(".player .camera video").first.wait_for()
    _watch(page)
    _step_by_keys(page)
    _seek_in_the_plots(page)
    page.locator(".criterion-line").first.click()
    page.locator(".criterion-open .moment").first.click()
    _wait_time(page, "Math.abs(t - 0.5) < 0.1")


def _watch(page: Page) -> None:
    start = _time(page)
    page.keyboard.press("Space")
    _wait_time(page, f"t > {start} + 0.4")
    page.keyboard.press("Space")
    videos = page.locator(".camera:not(.collapsed) video")
    expect(videos).to_have_count(2)
    apart, deadline = 1.0, time.monotonic() + 120
    while apart >= 0.15 and time.monotonic() < deadline:
        first, second = videos.evaluate_all("videos => videos.map(video => video.currentTime)")
        apart = abs(first - second)
    assert apart < 0.15


def _step_by_keys(page: Page) -> None:
    page.keyboard.press("Home")
    page.keyboard.press(".")
    page.keyboard.press(".")
    assert "step 3 of" in page.locator(".readout").inner_text()
    page.keyboard.press(",")
    assert "step 2 of" in page.locator(".readout").inner_text()
    before = _time(page)
    page.keyboard.press("ArrowRight")
    _wait_time(page, f"t > {before} + 0.8")
    page.keyboard.press("?")
    assert page.locator(".help").is_visible()


def _seek_in_the_plots(page: Page) -> None:
    plots = page.locator(".plot")
    assert plots.count() >= 1
    colours = (
        "canvas => new Set(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data).size"
    )
    assert plots.first.locator("canvas").evaluate(colours) > 20
    transform = plots.first.locator(".cursor").evaluate("cursor => cursor.style.transform")
    area = plots.first.locator(".area")
    box = area.bounding_box()
    assert box is not None
    area.click(position={"x": box["width"] * 0.8, "y": 40})
    assert plots.first.locator(".cursor").evaluate("cursor => cursor.style.transform") != transform
    _wait_time(page, "t > 2")


def test_tabs_and_the_button_back_keep_what_was_filtered(page: Page, address: str) -> None:
    page.goto(f"{address}/?f.dataset=metaworld_sawyer&q=drawer")
    card = page.locator(".card[href*='q=drawer']").first
    card.hover()
    card.locator("video.ready").wait_for()
    card.click()
    page.locator(".player").wait_for()
    page.get_by_role("button", name="Results").click()
    page.get_by_role("button", name="“drawer”").wait_for()
    # No address of an episode is left behind, and none between the two pages.
    assert "episode=" not in page.url
    page.go_back()
    page.locator(".player").wait_for()
    page.go_back()
    page.get_by_role("button", name="“drawer”").wait_for()
    assert "episode=" not in page.url
    page.get_by_role("link", name="Map", exact=True).click()
    page.wait_for_url("**/map?**q=drawer**")
    page.get_by_role("link", name="Browse", exact=True).click()
    page.get_by_role("button", name="Clear all").click()
    page.get_by_text("25 of 25 episodes").wait_for()


def _check_that_markup_is_text(page: Page) -> None:
    page.get_by_text("onerror").first.wait_for()
    assert page.locator("img[src=x]").count() == 0
    assert "broken in" not in page.title()


def test_markup_in_data_stays_text(page: Page, address: str, workspace: Workspace) -> None:
    page.goto(f"{address}/?f.dataset=hostile")
    assert page.locator(".card .title").first.inner_text() == MARKUP
    for where in ("dataset = 'hostile'", "grade = 'acceptable'"):
        episode_id = min(workspace.stores.tables.episodes.ids(where))
        page.goto(f"{address}/episode?episode={episode_id}")
        page.locator(".judge .part-head").first.wait_for()
        page.get_by_text("What the source says").click()
        page.locator("td", has_text=episode_id).wait_for()
        _check_that_markup_is_text(page)


def test_the_page_shows_contradictions_and_segments_of_any_annotator(
    contested_page: Page, contested_address: str, shown: Workspace
) -> None:
    tables = shown.stores.tables.episodes
    (conflicting,) = tables.ids("conflict IS NOT NULL")
    contested_page.goto(contested_address)
    card = contested_page.locator(f".card[data-episode='{conflicting}']")
    card.wait_for()
    assert "source: success, caption: failure" in card.locator(".rest .badge").all_text_contents()
    card.click()
    contested_page.locator(".player").wait_for()
    contested_page.get_by_text("source: success, caption: failure").first.wait_for()
    assert contested_page.locator("[data-lane=skills] .segment").count() == 2
    contested_page.keyboard.press("Home")
    contested_page.keyboard.press("b")  # the next boundary of a lane
    _wait_time(contested_page, "Math.abs(t - 1.0) < 0.1")
    _check_that_markup_is_text(contested_page)
    contested_page.goto(f"{contested_address}/quality")
    contested_page.get_by_role("heading", name="Coverage").wait_for()
    assert contested_page.locator("img[src=x]").count() == 0


def test_a_phone_shows_two_numbers_of_a_dataset_beside_each_other(page: Page, address: str) -> None:
    page.set_viewport_size(_PHONE)
    page.goto(f"{address}/quality")
    tiles = page.locator("[data-testid=stMetric]")
    tiles.nth(3).wait_for()
    first, second, third = (tiles.nth(number).bounding_box() for number in range(3))
    assert first and second and third
    assert first["y"] == second["y"] < third["y"]
    assert second["x"] + second["width"] <= 390


@pytest.mark.parametrize(
    ("query", "label", "value"),
    [
        ("", "Sort by", "Sort: source order"),
        ("?sort=num_steps", "Sort by", "Sort: steps"),
        ("?q=drawer&by=meaning", "Compare", "Compare: Meaning"),
    ],
)
def test_a_phone_shows_the_whole_choice_of_a_list(
    page: Page, address: str, query: str, label: str, value: str
) -> None:
    page.set_viewport_size(_PHONE)
    page.goto(f"{address}/{query}")
    select = page.get_by_role("combobox", name=label)
    expect(select).to_have_value(value)
    assert select.evaluate("input => input.scrollWidth <= input.clientWidth")
    box = select.bounding_box()
    assert box is not None and box["x"] + box["width"] <= 390


def test_a_phone_shows_two_cards_beside_each_other(page: Page, address: str) -> None:
    page.set_viewport_size(_PHONE)
    page.goto(address)
    page.locator(".card").nth(2).wait_for()
    boxes = page.locator(".card").evaluate_all(
        "cards => cards.slice(0, 3).map(card => card.getBoundingClientRect().toJSON())"
    )
    assert boxes[0]["y"] == boxes[1]["y"] < boxes[2]["y"]
    assert boxes[1]["right"] <= 390


def test_ticks_survive_a_reload(page: Page, address: str) -> None:
    visit(page, f"{address}/?sort=num_steps")
    for number in (1, 20):
        page.locator(".tick").nth(number).click()
        expect(page.locator(".card.ticked").last).to_be_visible()
    page.get_by_text("2 selected").wait_for()
    ticked = page.locator(".card.ticked").evaluate_all("cards => cards.map(card => card.dataset.episode)")
    page.reload()
    page.get_by_text("2 selected").wait_for()
    expect(page.locator(".card.ticked")).to_have_count(2)
    assert (
        page.locator(".card.ticked").evaluate_all("cards => cards.map(card => card.dataset.episode)")
        == ticked
    )
    page.get_by_role("button", name="Clear", exact=True).click()
    expect(page.locator(".card.ticked")).to_have_count(0)
    page.reload()
    page.locator(".card").first.wait_for()
    expect(page.locator(".card.ticked")).to_have_count(0)
