"""A person's path through the dashboard in a real browser: find, watch, step, freeze, and nothing from data runs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from playwright.sync_api import expect

from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.app.dashboard.browser import open_tab, serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture
def address(workspace_address: str) -> str:
    return workspace_address


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
def page(browser: Browser, address: str) -> Iterator[Page]:
    with open_tab(browser, address) as tab:
        yield tab


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


def test_find_watch_step_and_freeze(page: Page, address: str) -> None:
    page.goto(address)
    _find(page)
    _watch(page)
    _step_by_keys(page)
    _seek_in_the_plots(page)
    page.locator(".second").first.click()
    _wait_time(page, "Math.abs(t - 0.5) < 0.1")
    _freeze(page)


@pytest.mark.nightly
def test_similar_by_motion_and_by_the_frame_that_is_shown(page: Page, address: str) -> None:
    page.goto(f"{address}?q=drawer")
    page.locator(".card", has_text="pull the green drawer open").first.click()
    page.locator(".player .camera video").first.wait_for()
    page.get_by_role("radio", name="State", exact=True).click()
    page.locator(".grid.small .card").first.wait_for()
    page.locator(".timeline").click()
    page.get_by_role("button", name="Find like this").first.click()
    page.get_by_role("button", name="like the frame").wait_for()
    assert re.search(r"image=[0-9a-f]{16}%2F\w+%40[1-9]", page.url)
    # No frame has a vector here: the page says what to run.
    page.get_by_text("annotate embed").wait_for()


def _find(page: Page) -> None:
    page.locator(".card").first.wait_for()
    search = page.get_by_placeholder("Search by meaning")
    search.fill("drawer")
    search.press("Enter")
    page.get_by_role("button", name="“drawer”").wait_for()
    assert "q=drawer" in page.url
    # The button is drawn before the results: until then the old cards stand elsewhere, and the pointer would miss.
    card = page.locator(".card[href*='q=drawer']", has_text="pull the green drawer open").first
    card.hover()
    card.locator("video.ready").wait_for()
    card.click()
    page.locator(".player .camera video").first.wait_for()
    assert "/episode?" in page.url


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


def _freeze(page: Page) -> None:
    page.get_by_role("button", name="Results").click()
    page.get_by_role("button", name=re.compile("Make a set from these")).click()
    page.get_by_label("Name of the set").fill("drawers")
    page.get_by_role("button", name="Make the set").click()
    page.get_by_role("button", name="Open it in Sets").click()
    page.get_by_role("heading", name="drawers@1").wait_for()
    page.locator(".card").first.wait_for()


def test_a_click_on_a_value_filters_and_a_shared_address_shows_the_same(page: Page, address: str) -> None:
    page.goto(address)
    page.locator("details[data-column=dataset] button", has_text="metaworld_sawyer").click()
    page.get_by_text("12 of 25 episodes").wait_for()
    page.locator("details[data-column=success] button.value", has_text="false").click()
    page.get_by_text("6 of 25 episodes").wait_for()
    shared = page.url
    page.goto("about:blank")
    page.goto(shared)
    page.get_by_text("6 of 25 episodes").wait_for()


def test_tabs_keep_what_was_filtered_and_the_episode_that_was_open(page: Page, address: str) -> None:
    page.goto(f"{address}/?f.dataset=metaworld_sawyer&q=drawer")
    page.locator(".card[href*='q=drawer']").first.click()
    page.locator(".player").wait_for()
    episode = page.url
    for tab in ("Status", "Browse"):
        page.get_by_role("link", name=tab, exact=True).click()
        page.get_by_role("heading", name=tab).or_(
            page.get_by_role("button", name="“drawer”")
        ).first.wait_for()
    page.wait_for_url("**f.dataset=metaworld_sawyer**")
    page.get_by_role("link", name="Map", exact=True).click()
    page.wait_for_url("**/map?**q=drawer**")
    page.get_by_role("link", name="Episode", exact=True).click()
    page.locator(".player").wait_for()
    assert page.url == episode
    page.get_by_role("link", name="Browse", exact=True).click()
    page.get_by_role("button", name="Clear all").click()
    page.get_by_text("25 of 25 episodes").wait_for()


def test_markup_in_data_stays_text(page: Page, address: str, workspace: Workspace, markup: str) -> None:
    page.goto(f"{address}/?f.dataset=hostile")
    assert page.locator(".card .title").first.inner_text() == markup
    with_markup = next(iter(workspace.stores.tables.episodes.ids("dataset = 'hostile'")))
    graded = next(
        episode.episode_id
        for episode in workspace.stores.tables.episodes.read("dataset = 'metaworld_sawyer'", limit=1)
    )
    for episode_id in (with_markup, graded):
        page.goto(f"{address}/episode?episode={episode_id}")
        page.locator(".player").wait_for()
        page.get_by_text("onerror").first.wait_for()
        page.locator("dl dd", has_text=episode_id).wait_for()
        assert page.locator("img[src=x]").count() == 0
        assert "broken in" not in page.title()


def test_the_page_shows_contradictions_and_segments_of_any_annotator(
    contested_page: Page, contested_address: str, shown: Workspace
) -> None:
    tables = shown.stores.tables.episodes
    (conflicting,) = tables.ids("conflict IS NOT NULL")
    contested_page.goto(contested_address)
    card = contested_page.locator(f".card[data-episode='{conflicting}']")
    card.wait_for()
    shown_badges = card.locator(".badge").all_inner_texts()
    # The grade and the outcome come first.
    assert shown_badges[2:] == ["source: success, caption: failure"]
    card.click()
    contested_page.locator(".player").wait_for()
    contested_page.get_by_text("source: success, caption: failure").first.wait_for()
    rows = contested_page.locator("tr.segment")
    rows.nth(2).wait_for()
    assert rows.locator("[data-cell=annotator]").all_inner_texts() == ["caption", "skills", "skills"]
    assert "skill done: yes" in rows.nth(1).inner_text()
    assert contested_page.locator("[data-lane=skills] .segment").count() == 2
    rows.nth(2).locator("button").click()
    _wait_time(contested_page, "Math.abs(t - 1.5) < 0.1")


def test_a_page_marks_what_fills_columns_and_folds_the_rest(
    contested_page: Page, contested_address: str, shown: Workspace, markup: str
) -> None:
    tables = shown.stores.tables.episodes
    (differing,) = tables.ids("array_has(disagreement, 'grade')")
    contested_page.goto(f"{contested_address}/episode?episode={differing}")
    caption = contested_page.locator(".caption.shown")
    caption.wait_for()
    assert caption.locator(".text").all_inner_texts() == [markup]
    # A person has refused what the newer judge accepted.
    assert caption.locator(".head .badge").inner_text() == "not acceptable"
    assert "acceptable" in caption.locator(".grade .badge.good").all_inner_texts()
    made = " ".join(caption.locator(".grade .made").all_inner_texts())
    assert f"by a person Ada {markup}" in made
    assert "not used in filters" in made
    contested_page.get_by_text("producers differ: acceptable, caption, grade").wait_for()
    older = contested_page.locator(".others .text")
    assert not older.is_visible()
    contested_page.locator(".others summary").click()
    assert older.inner_text() == "open it"


def test_markup_of_producers_stays_text(
    contested_page: Page, contested_address: str, shown: Workspace, markup: str
) -> None:
    for episode_id in shown.stores.tables.episodes.ids("caption IS NOT NULL"):
        contested_page.goto(f"{contested_address}/episode?episode={episode_id}")
        contested_page.locator("tr.segment").first.wait_for()
        contested_page.get_by_text("onerror").first.wait_for()
        assert contested_page.locator("img[src=x]").count() == 0
        assert "broken in" not in contested_page.title()
    contested_page.goto(f"{contested_address}/status")
    contested_page.get_by_role("heading", name="Producers").wait_for()
    assert contested_page.locator("img[src=x]").count() == 0


_CONTRAST = """(element) => {
  const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const pixel = (colour) => {
    pen.clearRect(0, 0, 1, 1); pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => {
    const [r, g, b] = pixel(colour).slice(0, 3).map((part) => part / 255)
      .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const text = light(getComputedStyle(element).color);
  let behind = element;
  while (behind && pixel(getComputedStyle(behind).backgroundColor)[3] < 255) {
    behind = behind.parentElement || (behind.getRootNode().host ?? null);
  }
  const back = behind ? light(getComputedStyle(behind).backgroundColor) : 1;
  return [(Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05), back];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_have_the_theme_of_the_browser_and_can_be_read_in_it(
    page: Page, address: str, scheme: Literal["light", "dark"]
) -> None:
    page.emulate_media(color_scheme=scheme)
    for path, texts in (
        ("", [".card .title", ".card .meta", ".card .badge", ".value .count", "summary"]),
        ("health", ["h2", "[data-testid=stMetricValue]"]),
    ):
        page.goto(f"{address}/{path}")
        for selector in texts:
            element = page.locator(selector).first
            element.wait_for()
            contrast, background = element.evaluate(_CONTRAST)
            assert contrast >= 4.5, (path, selector)
            assert (background < 0.2) == (scheme == "dark"), (path, selector)


def test_a_phone_shows_two_numbers_of_a_dataset_beside_each_other(page: Page, address: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{address}/health")
    tiles = page.locator("[data-testid=stMetric]")
    tiles.nth(3).wait_for()
    first, second, third = (tiles.nth(number).bounding_box() for number in range(3))
    assert first and second and third
    assert first["y"] == second["y"] < third["y"]
    assert second["x"] + second["width"] <= 390
