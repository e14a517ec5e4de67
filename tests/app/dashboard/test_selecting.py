"""From a search to a set, a tag and an exclusion in a real browser, each of exactly the episodes on the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

import ares
from ares.workspace import Workspace
from benchmarks.synthetic_episodes import add_synthetic_episodes
from tests.app.dashboard.browser import wait_until_drawn

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow

EPISODES = 5_000


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    with ares.open(tmp_path_factory.mktemp("many") / "w", create=True) as workspace:
        add_synthetic_episodes(workspace, EPISODES)
        yield workspace


def _ids(workspace: Workspace, where: str) -> set[str]:
    return workspace.stores.tables.episodes.ids(where)


def _freeze(page: Page, name: str) -> None:
    page.get_by_role("button", name=re.compile("Make a set of")).click()
    page.get_by_label("Name of the set").fill(name)
    page.get_by_role("button", name="Make the set").click()
    page.wait_for_url(re.compile(f"/sets.set={name}"))


def test_a_set_of_a_search_has_what_its_cut_says_and_nothing_else(
    page: Page, address: str, workspace: Workspace
) -> None:
    drawers = _ids(workspace, "instruction = 'open the drawer'")
    page.goto(address)
    search = page.get_by_placeholder("Search by meaning")
    search.fill("open the drawer")
    search.press("Enter")
    page.get_by_text(f"{len(drawers):,} of {EPISODES:,} episodes").wait_for()
    expect(page.locator(".corner.score")).to_have_text(["1.00"] * 24)
    page.get_by_role("button", name="Outcome").click()
    pills = page.get_by_role("button", name=re.compile(r"^(success|failure|none) · ")).all_inner_texts()
    assert sum(int(pill.rpartition(" ")[2].replace(",", "")) for pill in pills) == len(drawers)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Dataset", exact=True).click()
    expect(page.get_by_role("button", name=re.compile("^dataset_5 · "))).to_have_count(1)
    page.keyboard.press("Escape")
    _freeze(page, "drawers")
    assert set(workspace.sets["drawers"].ids()) == drawers
    assert workspace.sets["drawers"].recipe["min_score"] == 1.0


def test_all_of_a_search_are_excluded_and_brought_back(
    page: Page, address: str, workspace: Workspace
) -> None:
    handles = _ids(workspace, "instruction = 'turn the handle'")
    page.goto(f"{address}/?q=turn+the+handle")
    page.get_by_role("button", name=f"Select all {len(handles):,}").click()
    page.get_by_role("button", name="Exclude").click()
    page.get_by_label("Why").fill("black picture")
    page.get_by_role("button", name=f"Exclude {len(handles):,}").click()
    page.get_by_text(f"Excluded {len(handles):,} episodes").wait_for()
    assert not _ids(workspace, "instruction = 'turn the handle'")
    # Somebody else works on: the button takes back what it says and nothing else.
    workspace.tag("other", where="dataset = 'dataset_5'")
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Undo").wait_for(state="detached")
    assert _ids(workspace, "instruction = 'turn the handle'") == handles
    assert _ids(workspace, "array_has(tags, 'other')") == _ids(workspace, "dataset = 'dataset_5'") - handles


def test_a_note_is_kept_with_its_person(page: Page, address: str, workspace: Workspace) -> None:
    page.goto(f"{address}/?f.dataset=dataset_6&q=press+the+lever&cut=0.4")
    page.locator(".tick").first.click()
    page.get_by_text("1 selected").wait_for()
    page.get_by_role("button", name=re.compile("^as ")).click()
    page.get_by_label("Your name").fill("Ann")
    page.get_by_label("Your name").press("Enter")
    page.get_by_role("button", name="as Ann").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Note", exact=True).click()
    page.get_by_label("Text of the note").fill("the gripper slips")
    page.get_by_role("button", name="Write it to 1").click()
    page.get_by_text("Noted of 1 episode").wait_for()
    noted = _ids(workspace, "array_has(notes, 'the gripper slips')")
    assert noted == {page.locator(".card").first.get_attribute("data-episode")}


def test_keys_move_tick_and_open(page: Page, address: str) -> None:
    page.goto(f"{address}/?f.dataset=dataset_4")
    page.locator(".card").first.wait_for()
    page.get_by_role("button", name="Skip to the episodes").wait_for(state="attached")
    wait_until_drawn(page)
    page.keyboard.press("/")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.placeholder").startswith("Search by"), "keys of a field"
    page.keyboard.press("Escape")
    page.locator(".card").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("x")
    page.get_by_text("1 selected").wait_for()
    assert page.locator(".cell .card.ticked").count() == 1
    assert page.locator(".tick").nth(1).is_checked()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    expected = page.locator(".card").nth(1).get_attribute("data-episode")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(rf"episode={expected}"))
