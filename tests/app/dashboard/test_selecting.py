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
from tests.app.dashboard.browser import serve

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
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    with ares.open(tmp_path_factory.mktemp("many") / "w", create=True) as workspace:
        add_synthetic_episodes(workspace, EPISODES)
        yield workspace


@pytest.fixture(scope="module")
def address(many: Workspace) -> Iterator[str]:
    with serve(many) as address:
        yield address


def _ids(workspace: Workspace, where: str) -> set[str]:
    return workspace.stores.tables.episodes.ids(where)


def _freeze(page: Page, name: str) -> None:
    page.get_by_role("button", name=re.compile("Make a set from these")).click()
    page.get_by_label("Name of the set").fill(name)
    page.get_by_role("button", name="Make the set").click()
    page.get_by_role("button", name="Open it in Sets").wait_for()


def test_a_set_of_a_search_has_what_its_cut_says_and_nothing_else(
    page: Page, address: str, many: Workspace
) -> None:
    drawers = _ids(many, "instruction = 'open the drawer'")
    page.goto(address)
    search = page.get_by_placeholder("Search by meaning")
    search.fill("open the drawer")
    search.press("Enter")
    page.get_by_text(f"{len(drawers):,} of {EPISODES:,} episodes").wait_for()
    expect(page.locator(".corner.score")).to_have_text(["1.00"] * 24)
    counts = page.locator("details[data-column=success] .value .count").all_inner_texts()
    assert sum(int(count.replace(",", "")) for count in counts) == len(drawers)
    _freeze(page, "drawers")
    assert set(many.sets["drawers"].ids()) == drawers
    assert many.sets["drawers"].recipe["min_score"] == 1.0


@pytest.mark.nightly
def test_a_lower_cut_is_in_the_address_and_lets_more_pass(page: Page, address: str, many: Workspace) -> None:
    either = _ids(many, "instruction LIKE 'open the %' OR instruction LIKE '% the drawer'")
    successes = _ids(many, "success") & either
    page.goto(f"{address}/?q=open+the+drawer&f.success=true")
    page.locator(".card").first.wait_for()
    slider = page.locator("details[data-column='~score'] input[type=range]").first
    slider.evaluate("slider => { slider.value = 0.3; slider.dispatchEvent(new Event('change')); }")
    page.get_by_text(f"{len(successes):,} of {EPISODES:,} episodes").wait_for()
    assert "cut=0.3" in page.url
    shared = page.url
    page.goto("about:blank")
    page.goto(shared)
    page.get_by_text(f"{len(successes):,} of {EPISODES:,} episodes").wait_for()
    _freeze(page, "either")
    assert set(many.sets["either"].ids()) == successes
    page.locator("details[data-column='~score'] .clear").click()
    drawers = _ids(many, "success AND instruction = 'open the drawer'")
    page.get_by_text(f"{len(drawers):,} of {EPISODES:,} episodes").wait_for()
    assert "cut=" not in page.url


@pytest.mark.nightly
def test_the_last_page_of_a_search_offers_less_relevant_episodes(
    page: Page, address: str, many: Workspace
) -> None:
    drawers = _ids(many, "instruction = 'open the drawer'")
    page.goto(f"{address}/?q=open+the+drawer&page=999")
    page.get_by_role("button", name="Show less relevant ones").click()
    page.get_by_role("button", name=re.compile("score from 0")).wait_for()
    shown = page.get_by_text(re.compile(rf"of {EPISODES:,} episodes")).inner_text()
    assert int(shown.split()[0].replace(",", "")) > len(drawers)


@pytest.mark.nightly
def test_ticked_episodes_are_tagged_counted_and_untagged(page: Page, address: str, many: Workspace) -> None:
    page.goto(f"{address}/?f.dataset=dataset_3")
    page.locator(".tick").nth(1).click()
    page.get_by_text("1 selected").wait_for()
    page.locator(".tick").nth(4).click(modifiers=["Shift"])
    page.get_by_text("4 selected").wait_for()
    cards = page.locator(".card")
    ids = {cards.nth(number).get_attribute("data-episode") for number in range(1, 5)}
    _add_tag(page, "blurred")
    page.get_by_text("Tag blurred added to 4 episodes").wait_for()
    page.keyboard.press("Escape")
    assert _ids(many, "array_has(tags, 'blurred')") == ids
    page.locator(".card .tag").nth(3).wait_for()
    page.locator(".tick").nth(0).click()
    page.get_by_text("5 selected").wait_for()
    page.get_by_role("button", name="Tags").click()
    page.get_by_role("button", name="blurred: 4 of 5").click()
    page.get_by_text("Tag blurred added to 5 episodes").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Undo").wait_for(state="detached")
    assert _ids(many, "array_has(tags, 'blurred')") == ids


def _add_tag(page: Page, tag: str) -> None:
    page.get_by_role("button", name="Tags").click()
    page.get_by_label("New tag").fill(tag)
    page.get_by_role("button", name="Add the tag").click()


def test_a_note_and_a_view_are_kept_with_their_person(page: Page, address: str, many: Workspace) -> None:
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
    noted = _ids(many, "array_has(notes, 'the gripper slips')")
    assert noted == {page.locator(".card").first.get_attribute("data-episode")}
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Views").click()
    page.get_by_label("Name of this view").fill("levers")
    page.get_by_role("button", name="Save this view").click()
    page.get_by_role("button", name="levers", exact=True).wait_for()
    (view,) = list_views(many.stores)
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
    assert [view.query for view in list_views(many.stores) if view.name == "all of them"] == [{}]


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
