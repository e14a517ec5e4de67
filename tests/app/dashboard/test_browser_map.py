"""The map in a real browser: lasso, zoom, colours, a region with a name, and the way to and from the grid."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from playwright.sync_api import expect

from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.app.dashboard.browser import AXE, VIOLATIONS, choose, visit
from tests.thinning import some_by_day

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
_VIDEOS = 8
# Corners, from 0 to 1 of the canvas, around the middle four of the episodes.
_AROUND_MIDDLE = ((0.3, 0.03), (0.62, 0.03), (0.62, 0.97), (0.3, 0.97))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[Workspace]:
    """Eight episodes on a map, four of them in its middle."""
    import pyarrow as pa

    opened = open_workspace(str(tmp_path_factory.mktemp("map") / "w"), Settings())
    opened.ingest(demo_samples / "video", limit=_VIDEOS, quiet=True)
    ids = sorted(opened.stores.tables.episodes.ids())
    x = [0.0, 0.0, 4.0, 4.0, 4.0, 4.0, 9.0, 9.0]
    y = [0.5 * number for number in range(_VIDEOS)]
    opened.stores.tables.episodes.set_values(pa.table({"episode_id": ids, "map_x": x, "map_y": y}))
    yield opened
    opened.close()


def _open_map(page: Page, address: str, query: str = "") -> None:
    page.goto(f"{address}/map{query}")
    expect(page.locator("canvas[data-points]")).to_be_visible()
    page.wait_for_timeout(300)


def _draw_lasso(page: Page, corners: tuple[tuple[float, float], ...] = _AROUND_MIDDLE) -> None:
    box = page.locator("canvas[data-points]").bounding_box()
    assert box is not None
    points = [(box["x"] + box["width"] * x, box["y"] + box["height"] * y) for x, y in corners]
    page.mouse.move(*points[0])
    page.mouse.down()
    for point in (*points[1:], points[0]):
        page.mouse.move(*point, steps=8)
    page.mouse.up()


def _shown_cards(page: Page) -> set[str]:
    return set(page.locator(".card").evaluate_all("cards => cards.map(card => card.dataset.episode)"))


def test_a_lasso_is_a_filter_that_browse_and_the_address_keep(
    page: Page, address: str, workspace: Workspace
) -> None:
    middle = workspace.stores.tables.episodes.ids("map_x = 4")
    _open_map(page, address)
    _draw_lasso(page)
    page.get_by_role("button", name=f"Open these {len(middle)} in Browse").wait_for()
    expect(page.locator("canvas[data-inside='4']")).to_be_visible()
    page.reload()
    expect(page.locator("canvas[data-inside='4']")).to_be_visible()
    page.get_by_role("button", name=f"Open these {len(middle)} in Browse").click()
    expect(page.locator(".card")).to_have_count(len(middle))
    assert _shown_cards(page) == middle
    page.get_by_role("button", name="region of the map").click()
    expect(page.locator(".card")).to_have_count(_VIDEOS)


def test_ticks_and_filters_of_browse_show_on_the_map(page: Page, address: str, workspace: Workspace) -> None:
    visit(page, address)
    page.locator(".tick").first.click()
    page.get_by_text("1 selected").wait_for()
    page.get_by_role("link", name="Map").click()
    expect(page.locator("canvas[data-ticked='1']")).to_be_visible()
    succeeded = len(workspace.stores.tables.episodes.ids("success"))
    page.goto(f"{address}/map?f.success=true")
    expect(page.locator(f"canvas[data-points='{succeeded}']")).to_be_visible()


def test_colours_of_values_have_a_legend_and_those_of_numbers_a_scale(
    page: Page, address: str, workspace: Workspace
) -> None:
    _open_map(page, address)
    dataset = next(iter(workspace.status().datasets))
    entry = page.locator(".legend li", has_text=dataset)
    expect(entry).to_contain_text(str(_VIDEOS))
    choose(page, "Colour", "duration (s)")
    expect(page.locator(".legend .scale")).to_be_visible()
    page.wait_for_url(re.compile("colour=duration_seconds"))
    _draw_lasso(page)
    page.wait_for_url(re.compile("colour=duration_seconds.*region=|region=.*colour=duration_seconds"))
    page.reload()
    expect(page.locator(".legend .scale")).to_be_visible()


def test_the_keyboard_alone_selects_a_region(page: Page, address: str) -> None:
    _open_map(page, address)
    page.locator("canvas[data-points]").focus()
    for _ in range(4):
        page.keyboard.press("+")
    page.keyboard.press("Enter")
    page.get_by_role("button", name=re.compile("Open these [1-7] in Browse")).wait_for()
    page.get_by_role("button", name="Remove the region").click()
    expect(page.get_by_role("button", name="Remove the region")).to_have_count(0)


def test_a_point_shows_its_picture_and_opens_its_episode(
    page: Page, address: str, workspace: Workspace
) -> None:
    _open_map(page, address)
    box = page.locator("canvas[data-points]").bounding_box()
    assert box is not None
    # The point in the middle of the map, but for half a unit of its nine.
    (middle,) = workspace.stores.tables.episodes.ids("map_x = 4 AND map_y = 1.5")
    scale = min(box["width"] / (9 * 1.08), box["height"] / (3.5 * 1.08))
    at = (
        box["x"] + box["width"] / 2 + (4 - 4.5) * scale,
        box["y"] + box["height"] / 2 - (1.5 - 1.75) * scale,
    )
    page.route("**/api/episodes/*", lambda route: route.fulfill(status=300), times=1)
    with page.expect_response("**/api/episodes/*"):
        page.mouse.move(*at, steps=3)
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.move(*at, steps=3)
    preview = page.locator(f".preview[data-episode='{middle}']")
    expect(preview).to_be_visible()
    expect(preview.locator("img")).to_have_js_property("complete", True)
    assert preview.locator("img").evaluate("image => image.naturalWidth") > 0
    page.mouse.click(*at)
    page.wait_for_url(re.compile(f"episode={middle}"))


@pytest.mark.parametrize("scheme", some_by_day(["light", "dark"], 2))
def test_the_map_has_no_serious_violation(page: Page, address: str, scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=scheme)
    region = "?region=3+-1%2C+5+-1%2C+5+9%2C+3+9&colour=success"
    _open_map(page, address, region)
    assert page.evaluate(VIOLATIONS, AXE.read_text()) == []
