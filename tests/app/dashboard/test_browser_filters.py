"""Filters in a real browser: no click is lost at any pace, whatever the page is still drawing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.slow
# A value of each of these columns is clicked, one after the other.
_CLICKS = (
    ("dataset", "metaworld_sawyer"),
    ("success", "true"),
    ("grade", "acceptable"),
    ("success", "false"),
)
_FILTERED = {"f.dataset": ["metaworld_sawyer"], "f.grade": ["acceptable"], "f.success": ["true", "false"]}


def _open(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator(".card").first).to_be_visible()
    for column, value in _CLICKS:
        expect(_value(page, column, value)).to_be_visible()


def _value(page: Page, column: str, value: str) -> Locator:
    return page.locator(f"details[data-column={column}] button.value[title='{value}']")


def _filters(url: str) -> dict[str, list[str]]:
    parameters = parse_qs(urlsplit(url).query)
    return {name: texts for name, texts in parameters.items() if name.startswith("f.")}


def _wait_for_filters(page: Page, filters: dict[str, list[str]]) -> None:
    """The address, the chips and the pressed values all say these filters, and stay so."""
    expect(page.locator("[class*='st-key-browse-chip-filter-']")).to_have_count(len(filters))
    page.wait_for_url(lambda url: _filters(url) == filters)
    pressed = sum(map(len, filters.values()))
    expect(page.locator("details button.value[aria-pressed=true]")).to_have_count(pressed)
    page.wait_for_timeout(500)
    assert _filters(page.url) == filters
    expect(page.locator("[class*='st-key-browse-chip-filter-']")).to_have_count(len(filters))


@pytest.mark.nightly
@pytest.mark.parametrize("pause_ms", [0, 150])
def test_no_click_on_a_filter_is_lost_at_any_pace(page: Page, address: str, pause_ms: int) -> None:
    _open(page, address)
    for column, value in _CLICKS:
        # Not by the pointer, which waits for the page to be still.
        _value(page, column, value).evaluate("button => button.click()")
        page.wait_for_timeout(pause_ms)
    _wait_for_filters(page, _FILTERED)
    for column in ("dataset", "success"):
        chip = page.locator(f".st-key-browse-chip-filter-{column} button")
        chip.first.evaluate("button => button.click()")
        page.wait_for_timeout(pause_ms)
    _wait_for_filters(page, {"f.grade": ["acceptable"]})


@pytest.mark.nightly
def test_a_click_on_what_has_just_been_replaced_counts_and_takes_none_back(page: Page, address: str) -> None:
    _open(page, address)
    boxes = page.locator(".tick").element_handles()[:3]
    ticked = (boxes[0], page.locator(".tick").nth(1).element_handle(), boxes[2])
    for number, box in enumerate(ticked, start=1):
        box.evaluate("box => box.click()")
        expect(page.get_by_text(f"{number} selected")).to_be_visible()
    rows = [_value(page, column, value).element_handle() for column, value in _CLICKS]
    for number, row in enumerate(rows, start=1):
        row.evaluate("button => button.click()")
        # Drawn by the server too, so that it knows of this click when the next comes.
        expect(page.locator("[class*='st-key-browse-chip-filter-']")).to_have_count(min(number, 3))
    _wait_for_filters(page, _FILTERED)


@pytest.mark.nightly
def test_a_tick_between_clicks_on_filters_loses_none_and_back_takes_one_back(
    page: Page, address: str
) -> None:
    _open(page, address)
    _value(page, "dataset", "metaworld_sawyer").evaluate("button => button.click()")
    page.locator(".tick").first.evaluate("box => box.click()")
    _value(page, "success", "true").evaluate("button => button.click()")
    filters = {"f.dataset": ["metaworld_sawyer"], "f.success": ["true"]}
    _wait_for_filters(page, filters)
    expect(page.get_by_text("1 selected")).to_be_visible()
    _value(page, "grade", "acceptable").click()
    _wait_for_filters(page, {**filters, "f.grade": ["acceptable"]})
    page.go_back()
    _wait_for_filters(page, filters)
    _value(page, "success", "true").click()
    _wait_for_filters(page, {"f.dataset": ["metaworld_sawyer"]})
    page.locator("details[data-column=duration_seconds] .hbar").first.click()
    page.wait_for_url(re.compile(r"f\.duration_seconds="))
