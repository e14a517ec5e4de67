"""Segments in a real browser: lanes on the clock of the player, the text of now, keys, and thousands of spans."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ares.settings import Settings
from ares.workspace import open_workspace
from tests.app.contested_producers import MARKUP
from tests.app.dashboard.browser import open_tab, serve
from tests.app.segment_lanes import NUM_MANY, NUM_STYLES, add_segments
from tests.ingesting import ingest_paths

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# What a browser may get of an episode with thousands of segments, in bytes.
_MOST_BYTES = 600_000


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[tuple[str, str, str]]:
    """The address, an episode with segments of every kind, and one with thousands."""
    with open_workspace(str(tmp_path_factory.mktemp("segments") / "w"), Settings()) as opened:
        ingest_paths(opened.stores, [str(demo_samples / "video")], limit=2, quiet=True)
        few, many = add_segments(opened)
        with serve(opened) as address:
            yield address, few, many


def _open(page: Page, address: str, episode_id: str) -> None:
    page.goto(f"{address}/episode?episode={episode_id}")
    page.locator(".player .lanes").wait_for()


def _second(page: Page) -> float:
    return float(page.locator(".readout").inner_text().split()[0])


def test_lanes_show_spans_and_the_text_of_now_and_keys_go_from_boundary_to_boundary(
    browser: Browser, shown: tuple[str, str, str]
) -> None:
    address, few, _ = shown
    with open_tab(browser, address) as page:
        _open(page, address, few)
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


@pytest.mark.nightly
def test_thousands_of_segments_in_dozens_of_lanes_are_folded_and_no_megabytes(
    browser: Browser, shown: tuple[str, str, str]
) -> None:
    address, _, many = shown
    received = [0]
    with open_tab(browser, address) as page:
        page.on(
            "websocket",
            lambda socket: socket.on("framereceived", lambda frame: received.append(len(frame))),
        )
        _open(page, address, many)
        assert page.locator(".lane").count() == NUM_STYLES + 1
        assert page.locator(".lane:not(.folded)").count() == 6
        lane = page.locator("[data-lane^=segment]")
        assert lane.locator(".segment").count() == NUM_MANY
        lane.locator(".lane-fold").click()
        page.locator("[data-lane=source_style39] .lane-fold").click()
        assert page.locator("[data-lane=source_style39] .segment").count() == 1
        page.get_by_text("The first 100 of 5,040 segments").wait_for()
        page.get_by_text("All 5041 annotations").wait_for()
        page.locator("[data-testid=stExpander]", has_text="All 5041 annotations").click()
        page.get_by_text("The first 500 of 5,041 annotations").wait_for()
    assert sum(received) < _MOST_BYTES
