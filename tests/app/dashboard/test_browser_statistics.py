"""The page Statistics in a real browser: an episode beside its dataset."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.app.dashboard.browser import (
    AXE,
    SERVE_COMMAND,
    VIOLATIONS,
    open_tab,
    serve,
    visit,
    wait_until_drawn,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.slow
# Draws what stands below the bars only once a file is there, as on a busy machine.
_HELD_BACK = """
import time
from pathlib import Path
from app.dashboard.views import statistics
draw = statistics._draw_distribution
def wait_and_draw(*arguments):
    while not Path({file!r}).exists():
        time.sleep(0.05)
    draw(*arguments)
statistics._draw_distribution = wait_and_draw
"""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[Workspace]:
    """The episodes of the demo with state and action, with measures of their motion."""
    opened = open_workspace(str(tmp_path_factory.mktemp("counted") / "w"), Settings())
    opened.ingest(demo_samples / "rlds", limit=8, quiet=True)
    opened.annotate("motion", quiet=True)
    yield opened
    opened.close()


def test_an_episode_is_compared_with_its_dataset(page: Page, address: str, workspace: Workspace) -> None:
    episode = next(iter(workspace.episodes))
    visit(page, f"{address}/episode?episode={episode.episode_id}")
    page.get_by_role("button", name="Compare it with its dataset").click()
    page.wait_for_url(re.compile(f"statistics.*episode={episode.episode_id}"))
    for name in ("duration (s)", "share of time at rest", *episode.state_names[:2]):
        page.get_by_role("rowheader", name=name, exact=True).first.wait_for()
    trajectories = [stored.trajectory for stored in workspace.episodes]
    assert episode.trajectory.state is not None
    lowest = min(float(own.state.values[:, 0].min()) for own in trajectories if own.state is not None)
    first = page.get_by_role("row").filter(
        has=page.get_by_role("rowheader", name=episode.state_names[0], exact=True)
    )
    expect(first.first.get_by_role("link").first).to_have_text(f"{lowest:.4g}")
    assert first.first.locator(".own").count() > 0
    assert page.evaluate(VIOLATIONS, AXE.read_text()) == []
    first.first.get_by_role("link").first.click()
    page.locator(".player").first.wait_for()


def _sides(drawn: Locator) -> tuple[float, float]:
    box = drawn.bounding_box()
    assert box is not None
    return box["x"], box["width"]


def test_a_bar_stays_where_it_is_while_the_rest_of_the_page_is_drawn(
    browser: Browser, workspace: Workspace, tmp_path: Path
) -> None:
    file = tmp_path / "go on"
    command = f"exec({_HELD_BACK.format(file=str(file))!r}); {SERVE_COMMAND}"
    with serve(workspace, command) as address, open_tab(browser, address) as page:
        visit(page, address)
        sidebar = page.locator("[data-testid=stSidebar]")
        expect(sidebar).to_be_visible()
        page.get_by_role("link", name="Statistics", exact=True).click()
        bar = page.locator(".bar").first
        bar.wait_for()
        before = _sides(bar)
        file.touch()
        page.get_by_text("Lowest", exact=True).wait_for()
        wait_until_drawn(page)
        assert _sides(bar) == before
        page.get_by_role("link", name="Browse", exact=True).click()
        expect(sidebar).to_be_visible()
