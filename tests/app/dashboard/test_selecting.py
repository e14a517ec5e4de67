"""From a search to a set, a tag and an exclusion in a real browser, each of exactly the episodes on the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image
from playwright.sync_api import expect

import ares
from ares.curation import list_views
from ares.workspace import Workspace
from benchmarks.synthetic_episodes import add_synthetic_episodes

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
EPISODES = 5_000
_DROP = """async (box) => {
  const canvas = document.createElement("canvas");
  canvas.width = 1600; canvas.height = 1200;
  canvas.getContext("2d").fillRect(0, 0, 800, 600);
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  const data = new DataTransfer();
  data.items.add(new File([blob], "mug.png", { type: "image/png" }));
  box.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    with ares.open(tmp_path_factory.mktemp("many") / "w", create=True) as workspace:
        add_synthetic_episodes(workspace, EPISODES)
        yield workspace


def _ids(workspace: Workspace, where: str) -> set[str]:
    return workspace.stores.tables.episodes.ids(where)


def _freeze(page: Page, name: str) -> None:
    page.get_by_role("button", name=re.compile("Make a set from these")).click()
    page.get_by_label("Name of the set").fill(name)
    page.get_by_role("button", name="Make the set").click()
    page.get_by_role("button", name="Open it in Sets").wait_for()


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
    counts = page.locator("details[data-column=success] .value .count").all_inner_texts()
    assert sum(int(count.replace(",", "")) for count in counts) == len(drawers)
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


def test_a_note_and_a_view_are_kept_with_their_person(page: Page, address: str, workspace: Workspace) -> None:
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
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Views").click()
    page.get_by_label("Name of this view").fill("levers")
    page.get_by_role("button", name="Save this view").click()
    page.get_by_role("button", name="levers", exact=True).wait_for()
    (view,) = list_views(workspace.stores)
    assert (view.person, view.query["cut"]) == ("Ann", ["0.4"])
    page.goto(address)
    page.get_by_role("button", name="Views").click()
    page.get_by_role("button", name="levers", exact=True).click()
    page.wait_for_url(re.compile(r"q=press\+the\+lever.*cut=0\.4"))
    # Without a search and a filter it is a view of all episodes.
    page.goto(address)
    page.get_by_role("button", name="Views").click()
    page.get_by_label("Name of this view").fill("all of them")
    page.get_by_role("button", name="Save this view").click()
    page.get_by_role("button", name="all of them", exact=True).wait_for()
    assert [view.query for view in list_views(workspace.stores) if view.name == "all of them"] == [{}]


def test_an_image_that_is_dropped_on_the_search_box_or_uploaded_is_searched_by(
    page: Page, address: str, tmp_path: Path
) -> None:
    page.goto(address)
    page.locator(".card").first.wait_for()
    page.get_by_role("button", name="Skip to the episodes").wait_for(state="attached")
    page.get_by_placeholder("Search by meaning").evaluate(_DROP)
    page.wait_for_url(re.compile(r"image=upload%3A[0-9a-f]{32}"))
    # No frame has a vector here: the page says what to run.
    page.get_by_text("annotate embed").first.wait_for()
    picture = tmp_path / "picture.png"
    Image.new("RGB", (32, 32), "red").save(picture)
    page.goto(address)
    page.locator(".card").first.wait_for()
    page.get_by_role("button", name="Image").click()
    page.locator("input[type=file]").set_input_files(picture)
    page.get_by_role("button", name="like the uploaded image").wait_for()
    assert re.search(r"image=upload%3A[0-9a-f]{32}", page.url)


def test_keys_move_tick_and_open(page: Page, address: str) -> None:
    page.goto(f"{address}/?f.dataset=dataset_4")
    page.locator(".card").first.wait_for()
    page.get_by_role("button", name="Skip to the episodes").wait_for(state="attached")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".card").first).to_be_focused()
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
