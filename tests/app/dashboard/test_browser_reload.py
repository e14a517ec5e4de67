"""What a person has done survives a reload, and what is renewed or waited for looks so, in a real browser."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from ares.workspace import Workspace
from tests.app.dashboard.browser import SERVE_COMMAND, open_tab, serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow
# Episodes are not read while a file of this name lies beside the workspace.
_GATE = "closed"
_SERVE_WITH_GATE = f"""
import pathlib, sys, time
import app.dashboard.cached_reads as reads
gate, read = pathlib.Path(sys.argv[1]).parent / {_GATE!r}, reads.read_episodes
def wait_and_read(ids):
    while gate.exists():
        time.sleep(0.01)
    return read(ids)
reads.read_episodes = wait_and_read
"""
_OPACITY = """node => {
  let all = 1;
  for (; node instanceof Element; node = node.parentElement ?? node.getRootNode().host)
    all *= getComputedStyle(node).opacity;
  return all;
}"""

# The model of the vectors is loaded once the file is gone; each load is a line of another file.
_SERVE_WITH_SLOW_MODEL = f"""
import pathlib, sys, time
from annotators.models import doubles
folder, load = pathlib.Path(sys.argv[1]).parent, doubles.load_hash_encoder
def wait_and_load(spec, device=""):
    with (folder / "loads").open("a") as file:
        file.write(spec + "\\n")
    while (folder / {_GATE!r}).exists():
        time.sleep(0.01)
    return load(spec, device)
doubles.load_hash_encoder = wait_and_load
"""


def _opacity(page: Page, selector: str) -> float:
    return float(page.locator(selector).first.evaluate(_OPACITY))


def test_ticks_and_places_survive_a_reload(page: Page, address: str) -> None:
    page.goto(f"{address}/?sort=num_steps")
    for number in (1, 20):
        page.locator(".tick").nth(number).click()
        expect(page.locator(".card.ticked").last).to_be_visible()
    page.get_by_text("2 selected").wait_for()
    ticked = page.locator(".card.ticked").evaluate_all("cards => cards.map(card => card.dataset.episode)")
    page.locator(".card").nth(20).evaluate("card => card.scrollIntoView({block: 'center'})")
    main = page.locator("[data-testid=stMain]")
    offset = main.evaluate("main => main.scrollTop")
    assert offset > 300
    stored = "() => Object.entries(sessionStorage).some(([name, value]) => name.startsWith('ares.scroll')"
    page.wait_for_function(f"{stored} && Math.abs(value - {offset}) < 2)")
    page.reload()
    page.get_by_text("2 selected").wait_for()
    expect(page.locator(".card.ticked")).to_have_count(2)
    assert (
        page.locator(".card.ticked").evaluate_all("cards => cards.map(card => card.dataset.episode)")
        == ticked
    )
    page.wait_for_function(
        f"Math.abs(document.querySelector('[data-testid=stMain]').scrollTop - {offset}) < 3"
    )
    page.get_by_role("button", name="Clear", exact=True).click()
    expect(page.locator(".card.ticked")).to_have_count(0)
    page.reload()
    page.locator(".card").first.wait_for()
    expect(page.locator(".card.ticked")).to_have_count(0)


@pytest.mark.nightly
def test_cards_that_are_renewed_look_so_and_have_no_new_count_above(
    browser: Browser, copied: Workspace
) -> None:
    gate = Path(copied.path).parent / _GATE
    with serve(copied, _SERVE_WITH_GATE + SERVE_COMMAND) as address, open_tab(browser, address) as page:
        page.goto(address)
        page.get_by_text("25 of 25 episodes").wait_for()
        expect(page.locator(".card")).to_have_count(24)
        assert _opacity(page, ".card") == 1
        gate.touch()
        page.locator("details[data-column=dataset] button", has_text="metaworld_sawyer").click()
        page.wait_for_url(re.compile("f.dataset=metaworld_sawyer"))
        count = page.get_by_text("25 of 25 episodes")
        # What stands there is of the page before, and so is its count.
        page.wait_for_function("() => document.querySelectorAll('[data-stale=true]').length > 1")
        deadline, opacity = time.monotonic() + 300, 1.0
        while opacity >= 0.5 and time.monotonic() < deadline:
            opacity = max(_opacity(page, ".card"), float(count.evaluate(_OPACITY)))
            page.wait_for_timeout(50)
        assert opacity < 0.5
        assert page.get_by_text("12 of 25 episodes").count() == 0
        gate.unlink()
        page.get_by_text("12 of 25 episodes").wait_for()
        expect(page.locator(".card")).to_have_count(12)
        page.wait_for_function("() => !document.querySelector('[data-stale=true]')")
        assert _opacity(page, ".card") == 1


@pytest.mark.nightly
def test_the_first_search_by_a_frame_waits_for_the_model_and_says_so(
    browser: Browser, mapped: Workspace
) -> None:
    mapped.annotate("embed", model="hash:32", quiet=True)
    episode_id = min(mapped.stores.tables.episodes.ids())
    gate = Path(mapped.path).parent / _GATE
    gate.touch()
    with (
        serve(mapped, _SERVE_WITH_SLOW_MODEL + SERVE_COMMAND) as address,
        open_tab(browser, address) as page,
        open_tab(browser, address) as other,
    ):
        for tab in (page, other):
            tab.goto(f"{address}/episode?episode={episode_id}")
            tab.locator(".player .camera video").first.wait_for()
            tab.get_by_role("button", name="Find like this").first.click()
            tab.locator("[data-testid=stMain]").get_by_text("Loading the model").first.wait_for()
        gate.unlink()
        for tab in (page, other):
            tab.get_by_text(re.compile("of 4 episodes")).wait_for()
            tab.locator(".card .corner.score").first.wait_for()
    assert (gate.parent / "loads").read_text().splitlines() == ["hash:32"]


def test_a_tick_counts_though_its_box_is_drawn_anew_under_the_pressed_mouse(page: Page, address: str) -> None:
    page.goto(f"{address}/?sort=num_steps")
    box = page.locator(".tick").nth(1)
    box.hover()
    page.mouse.down()
    # As a grid does that is redrawn: the browser then sends no click to the box.
    box.evaluate("box => { const cell = box.parentElement; cell.replaceWith(cell); cell.append(box); }")
    page.mouse.up()
    expect(page.locator(".card.ticked")).to_have_count(1)
    page.get_by_text("1 selected").wait_for()
    box.click()
    expect(page.locator(".card.ticked")).to_have_count(0)
