"""From a search to a set, a tag and an exclusion in a real browser, each of exactly the episodes on the page."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from filelock import FileLock
from playwright.sync_api import expect

import ares
from ares.curation import list_views
from ares.workspace import Workspace
from benchmarks.synthetic_episodes import add_synthetic_episodes
from tests.app.dashboard.browser import open_tab, serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

EPISODES = 20_000
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
def many(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Workspace]:
    """A copy of a workspace that the first worker of the run has written."""
    own = tmp_path_factory.getbasetemp()
    folder = (own if worker_id == "master" else own.parent) / "many-episodes"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            with ares.open(folder / "w", create=True) as workspace:
                add_synthetic_episodes(workspace, EPISODES)
                workspace.stores.tables.optimize()
    copy = tmp_path_factory.mktemp("many") / "w"
    shutil.copytree(folder / "w", copy)
    with ares.open(copy) as workspace:
        yield workspace


@pytest.fixture(scope="module")
def address(many: Workspace) -> Iterator[str]:
    with serve(many) as address:
        yield address


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with open_tab(browser, address) as tab:
        yield tab


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
def test_words_filter_with_and_without_a_search(page: Page, address: str, many: Workspace) -> None:
    with_words = _ids(many, "instruction LIKE '%up%' AND instruction LIKE '%drawer%'")
    page.goto(address)
    words = page.get_by_role("textbox", name="Filter by words")
    words.fill("Drawer  up")
    words.press("Enter")
    page.get_by_text(f"{len(with_words):,} of {EPISODES:,} episodes").wait_for()
    assert "words=Drawer+up" in page.url
    _freeze(page, "words")
    assert set(many.sets["words"].ids()) == with_words
    # What the search likes most, open drawers, has not the other word.
    page.goto(f"{address}/?words=up&q=open+the+drawer&cut=0")
    ups = _ids(many, "instruction LIKE '%up%'")
    page.get_by_text(f"{len(ups):,} of {EPISODES:,} episodes").wait_for()
    expect(page.locator(".card .title")).to_have_text(["pick up the drawer"] * 24)
    page.get_by_role("button", name="words: up").click()
    page.get_by_text(f"{EPISODES:,} of {EPISODES:,} episodes").wait_for()


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


@pytest.mark.nightly
def test_all_of_a_search_are_excluded_and_brought_back(page: Page, address: str, many: Workspace) -> None:
    handles = _ids(many, "instruction = 'turn the handle'")
    page.goto(f"{address}/?q=turn+the+handle")
    page.get_by_role("button", name=f"Select all {len(handles):,}").click()
    page.get_by_role("button", name="Exclude").click()
    page.get_by_label("Why").fill("black picture")
    page.get_by_role("button", name=f"Exclude {len(handles):,}").click()
    page.get_by_text(f"Excluded {len(handles):,} episodes").wait_for()
    assert not _ids(many, "instruction = 'turn the handle'")
    # Somebody else works on: the button takes back what it says and nothing else.
    many.tag("other", where="dataset = 'dataset_5'")
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Undo").wait_for(state="detached")
    assert _ids(many, "instruction = 'turn the handle'") == handles
    assert _ids(many, "array_has(tags, 'other')") == _ids(many, "dataset = 'dataset_5'") - handles


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


def test_an_image_that_is_dropped_on_the_search_box_is_searched_by(page: Page, address: str) -> None:
    page.goto(address)
    page.locator(".card").first.wait_for()
    page.get_by_role("button", name="Skip to the episodes").wait_for(state="attached")
    page.get_by_placeholder("Search by meaning").evaluate(_DROP)
    page.wait_for_url(re.compile(r"image=upload%3A[0-9a-f]{32}"))
    # No frame has a vector here: the page says what to run.
    page.get_by_text("annotate embed").first.wait_for()


def test_keys_move_tick_and_open(page: Page, address: str) -> None:
    page.goto(f"{address}/?f.dataset=dataset_4")
    page.locator(".card").first.wait_for()
    page.get_by_role("button", name="Skip to the episodes").wait_for(state="attached")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.placeholder").startswith("Search by")
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


def test_a_broken_filter_leaves_the_filters_where_they_are(page: Page, address: str) -> None:
    page.goto(f"{address}/?where=nonsense+%3D+1")
    page.get_by_text("the filter cannot be read").first.wait_for()
    page.locator("details[data-column=dataset] .value").nth(3).wait_for()


@pytest.mark.parametrize(
    ("query", "label", "value"),
    [
        ("", "Sort by", "Sort: source order"),
        ("?sort=num_steps", "Sort by", "Sort: steps"),
        ("?q=drawer&by=meaning", "Compare", "Compare: Meaning"),
    ],
)
def test_a_phone_shows_the_whole_choice_of_a_list(
    page: Page, address: str, query: str, label: str, value: str
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{address}/{query}")
    select = page.get_by_role("combobox", name=label)
    expect(select).to_have_value(value)
    assert select.evaluate("input => input.scrollWidth <= input.clientWidth")
    box = select.bounding_box()
    assert box is not None and box["x"] + box["width"] <= 390


def test_a_phone_shows_two_cards_beside_each_other(page: Page, address: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(address)
    page.locator(".card").nth(2).wait_for()
    for name in ("Image", "SQL"):
        assert page.get_by_role("button", name=name).is_visible(), name
    boxes = page.locator(".card").evaluate_all(
        "cards => cards.slice(0, 3).map(card => card.getBoundingClientRect().toJSON())"
    )
    assert boxes[0]["y"] == boxes[1]["y"] < boxes[2]["y"]
    assert boxes[1]["right"] <= 390
