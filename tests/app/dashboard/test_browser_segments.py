"""Segments in a real browser: lanes on the clock of the player, the text of now, and keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ares.workspace import Workspace
from tests.app.contested_producers import MARKUP
from tests.app.dashboard.browser import serve
from tests.app.segment_lanes import add_segments

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow


@pytest.fixture
def segmented(video_ws: Workspace) -> str:
    """An episode with segments of every kind."""
    few, _ = add_segments(video_ws)
    return few


@pytest.fixture
def address(video_ws: Workspace, segmented: str) -> Iterator[str]:
    with serve(video_ws) as served:
        yield served


def _second(page: Page) -> float:
    return float(page.locator(".readout").inner_text().split()[0])


def test_lanes_show_spans_and_the_text_of_now_and_keys_go_from_boundary_to_boundary(
    page: Page, address: str, segmented: str
) -> None:
    page.goto(f"{address}/episode?episode={segmented}")
    page.locator(".player .lanes").wait_for()
    lanes = {lane: page.locator(f"[data-lane='{lane}']") for lane in ("source_plan", "source_vqa")}
    boxes = [block.bounding_box() for block in lanes["source_plan"].locator(".segment").all()]
    # Two plans overlap: one above the other, in proportion to the length of the episode.
    assert boxes[0] and boxes[1] and boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"]
    assert abs(boxes[0]["width"] - boxes[1]["width"]) < 2
    assert lanes["source_vqa"].locator(".segment.instant").count() == 2
    seconds = []
    for key in ("b", "b", "b", "B"):
        page.keyboard.press(key)
        seconds.append(_second(page))
    assert seconds == [0.5, 1.0, 1.1, 1.0]
    now = page.locator(".now")
    assert MARKUP in now.inner_text() and "1. lift 2. throw" in now.inner_text()
    assert "subtask, of the source, by person" in now.inner_text()
    assert page.locator(".segment.current", has_text="lift it").count() == 1
    assert page.locator("img[src=x]").count() == 0 and "broken in" not in page.title()
    # The boundaries of a lane that is folded are passed over.
    lanes["source_plan"].locator(".lane-fold").click()
    page.keyboard.press("Home")
    page.keyboard.press("b")
    assert _second(page) == 1.0 and "throw" not in now.inner_text()
    page.locator(".lane .segment", has_text="contact").click()
    assert _second(page) == 2.0
