"""Browse in a real browser: cards or a table, filters that lose no click, keys, marked words, and finding by name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from app.dashboard.column_words import GROUPS, column_group
from ares.workspace import Workspace
from tests.app.dashboard.browser import AXE, VIOLATIONS, choose, visit

if TYPE_CHECKING:
    from playwright.sync_api import Page


pytestmark = pytest.mark.slow


def _show(page: Page, name: str) -> None:
    page.locator(".st-key-browse-show").get_by_text(name, exact=True).click()


def test_a_table_has_the_records_ticks_and_columns_of_the_address(
    page: Page, address: str, workspace: Workspace
) -> None:
    visit(page, address)
    page.locator(".card").first.wait_for()
    _show(page, "Table")
    page.wait_for_url(re.compile("show=table"))
    rows = page.locator(".table tbody tr")
    expect(rows).to_have_count(24)
    keys = {episode.key for episode in workspace.stores.tables.episodes.read()}
    assert set(page.locator(".table .record").all_inner_texts()) <= keys
    visit(page, f"{address}/?show=table&columns=dataset,grade&f.grade=unsure")
    expect(page.locator(".table thead th")).to_have_text(["tick", "record", "id", "dataset", "grade"])
    page.locator(".table .tick").nth(1).check()
    page.get_by_text("1 selected").wait_for()
    page.keyboard.press("ArrowUp")
    assert page.evaluate(VIOLATIONS, AXE.read_text()) == []
    page.locator(".table .record").first.click()
    page.wait_for_url(re.compile("/episode.*show=table"))


def test_a_table_is_copied_as_rows_with_tabs(page: Page, address: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visit(page, f"{address}/?show=table&columns=instruction,grade&f.grade=unsure")
    page.get_by_role("button", name="Copy the table").click()
    page.get_by_text("Copied 4 rows").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert copied[0] == "record\tid\tinstruction\tgrade"
    assert len(copied) == 5 and all(line.endswith("\tunsure") for line in copied[1:])


def test_the_size_of_cards_is_in_the_address_and_outlasts_clear_all(page: Page, address: str) -> None:
    visit(page, f"{address}/?f.grade=acceptable&words=window")
    page.locator(".st-key-browse-clear").wait_for()
    widths = []
    for name in ("Small", "Medium", "Large"):
        page.locator(".card").first.wait_for()
        _show(page, name)
        page.locator(f".grid.{name.lower()}" if name != "Medium" else ".grid:not(.small)").first.wait_for()
        box = page.locator(".card").first.bounding_box()
        assert box is not None
        widths.append(box["width"])
    assert widths[0] < widths[2] and widths[1] < widths[2]
    page.get_by_role("button", name="Clear all").click()
    page.wait_for_url(lambda url: "f.grade" not in url and "show=large" in url)


def test_filters_are_in_groups_and_found_by_a_field(page: Page, address: str) -> None:
    page.goto(address)
    groups = page.locator("details.group")
    groups.first.wait_for()
    names = groups.evaluate_all("groups => groups.map(group => group.dataset.group)")
    # No annotator of this workspace has a filter of captions.
    assert names == ["episode", "outcome", "motion", "checks", "grade"]
    assert column_group("verb") == "caption" and tuple(names) == tuple(g for g in GROUPS if g in names)
    peak = page.locator("details[data-column=peak_speed]")
    expect(peak).not_to_be_visible()
    page.get_by_label("Find a filter").fill("peak speed")
    expect(peak).to_be_visible()
    expect(page.locator("details[data-column=dataset]")).to_have_count(0)
    page.get_by_label("Find a filter").fill("no filter of this name")
    page.get_by_text("No filter has this").wait_for()
    page.get_by_label("Find a filter").fill("")
    motion = page.locator("details.group[data-group=motion] > summary")
    motion.focus()
    page.keyboard.press("Enter")
    expect(peak).to_be_visible()


def test_a_filter_with_one_value_is_folded(page: Page, address: str) -> None:
    page.goto(f"{address}/?where=dataset+%3D+%27metaworld_sawyer%27")
    facet = page.locator("details[data-column=dataset]")
    facet.wait_for()
    assert facet.get_attribute("open") is None
    assert page.locator("details[data-column=grade]").get_attribute("open") is not None


def test_a_caption_is_marked_where_it_differs_from_the_instruction(
    page: Page, address: str, workspace: Workspace
) -> None:
    first = min(workspace.stores.tables.episodes.ids("caption IS NOT NULL AND caption != instruction"))
    same = min(workspace.stores.tables.episodes.ids("caption = instruction"))
    page.goto(f"{address}/?where=episode_id+IN+(%27{first}%27,%27{same}%27)")
    marked = page.locator(f".card[data-episode='{first}'] mark")
    expect(marked.first).to_have_attribute("title", "Not in the instruction")
    expect(page.locator(f".card[data-episode='{same}'] mark")).to_have_count(0)
    page.goto(f"{address}/episode?episode={first}")
    expect(page.locator(".headline .said mark").first).to_be_visible()
    page.goto(f"{address}/episode?episode={same}")
    page.locator(".headline .badge").first.wait_for()
    expect(page.locator(".headline mark")).to_have_count(0)


def test_every_badge_says_its_question(page: Page, address: str, workspace: Workspace) -> None:
    episode_id = min(workspace.stores.tables.episodes.ids("grade = 'unsure'"))
    for path, badges in ((f"/episode?episode={episode_id}", ".headline .badge"), ("", ".card .badge")):
        page.goto(f"{address}{path}")
        page.locator(badges).first.wait_for()
        titles = page.locator(badges).evaluate_all("badges => badges.map(badge => badge.title)")
        assert titles and all(title.endswith("?") for title in titles)


def test_the_title_of_the_tab_and_the_header_name_workspace_and_dataset(
    page: Page, address: str, workspace: Workspace
) -> None:
    name = workspace.path.rpartition("/")[2]
    page.goto(f"{address}/?f.dataset=metaworld_sawyer")
    expect(page).to_have_title(f"Browse · metaworld_sawyer · {name} · ARES")
    expect(page.locator(".changes .shown")).to_have_text(f"{name} · metaworld_sawyer")
    page.goto(f"{address}/status")
    expect(page).to_have_title(f"Status · {name} · ARES")


def test_pages_say_words_and_keep_codes_as_tips(page: Page, address: str, workspace: Workspace) -> None:
    episode_id = min(workspace.stores.tables.episodes.ids("grade = 'acceptable'"))
    (producer,) = (
        id
        for id, producer in workspace.stores.annotations.producers().items()
        if producer.annotator == "grade"
    )
    page.goto(f"{address}/?f.grade_maker={producer}")
    chip = page.locator(".st-key-browse-chip-filter-grade_maker")
    expect(chip).to_contain_text("grade made by: hand, version 1")
    page.goto(f"{address}/episode?episode={episode_id}")
    ruling = page.locator(".group td[data-cell=criterion] b").first
    expect(ruling).to_have_attribute("title", "VERB")
    assert page.locator(".group td[data-cell=verdict]").first.text_content() == "met"
    assert "shown in columns" not in page.locator("body").inner_text()


def test_a_table_of_text_wraps_is_searched_and_axe_has_nothing_to_say(page: Page, address: str) -> None:
    page.goto(f"{address}/status")
    table = page.locator(".st-key-status-tables table")
    table.wait_for()
    finder = page.locator(".st-key-status-tables").get_by_label("Find in this table")
    finder.fill("segments")
    shown = page.locator(".st-key-status-tables tbody tr:visible")
    assert all("segments" in text for text in shown.all_inner_texts())
    assert page.evaluate(VIOLATIONS, AXE.read_text()) == []


def test_a_reader_finds_the_worst_under_a_menu_that_stays_and_a_caption_under_its_pictures(
    page: Page, address: str, workspace: Workspace
) -> None:
    def menu() -> list[float]:
        links = page.locator("[data-testid=stTopNavLink]")
        return [box["x"] for link in links.all() if (box := link.bounding_box())]

    visit(page, address)
    page.locator(".card").first.wait_for()
    choose(page, "Sort by", "Worst first: findings")
    page.get_by_text("Worst first. Ordered by the number").wait_for()
    card = page.locator(".card").first
    expect(card.locator(".value")).to_have_text("number of findings: 3")
    episode = card.get_attribute("data-episode") or ""
    expect(card.locator(".short-id")).to_have_text(episode[:8])
    expect(card.locator(".short-id")).to_have_attribute("title", re.compile(episode))
    with_filters = menu()
    page.get_by_role("link", name="Statistics").click()
    page.get_by_role("heading", name="How a number spreads").wait_for()
    assert menu() == with_filters and len(with_filters) == 10
    page.set_viewport_size({"width": 390, "height": 844})
    first, second = sorted(workspace.stores.tables.episodes.ids("grade = 'unsure'"))[:2]
    page.goto(f"{address}/compare?a={first}&b={second}")
    parts = page.locator(".side-head, .cameras, .side-text")
    expect(parts).to_have_count(6)
    boxes = [box for part in parts.all() if (box := part.bounding_box())]
    assert [box["y"] for box in boxes] == sorted(box["y"] for box in boxes), (
        "title, pictures, caption of each"
    )


def _find(page: Page, text: str) -> None:
    """Open the dialog by its key, type, and wait for what it lists."""
    page.get_by_role("button", name="Find").wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Find by name").wait_for()
    page.keyboard.type(text)
    page.get_by_role("option").first.wait_for()


def test_arrows_choose_escape_closes_and_what_has_no_name_is_said(page: Page, address: str) -> None:
    page.goto(address)
    _find(page, "st")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option", selected=True)).to_have_count(1)
    expect(page.get_by_role("option").nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Control+a")
    page.keyboard.type("%_no such name_%")
    expect(page.get_by_text("Nothing has the name")).to_be_visible()
    expect(page.get_by_role("option")).to_have_count(0)
    assert page.evaluate(VIOLATIONS, AXE.read_text()) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("combobox", name="Find by name")).to_be_hidden()


def test_an_id_in_the_search_box_opens_the_episode(page: Page, address: str, workspace: Workspace) -> None:
    episode_id = next(
        id for id in workspace.episodes.ids() if re.fullmatch(r"(?=[a-f]*\d)[0-9a-f]{8}", id[:8])
    )
    visit(page, address)
    page.get_by_placeholder("Search by meaning").fill(episode_id[:8])
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/episode?episode={episode_id}")


def _wait_for_filters(page: Page, filters: dict[str, list[str]]) -> None:
    """The address and the chips say these filters, and stay so."""
    chips = page.locator("[class*='st-key-browse-chip-filter-']")
    for _ in range(2):
        page.wait_for_url(lambda url: parse_qs(urlsplit(url).query) == filters)
        expect(chips).to_have_count(len(filters))
        page.wait_for_timeout(500)


def test_no_click_on_a_filter_or_tick_is_lost_at_any_pace_and_back_takes_one_back(
    page: Page, address: str
) -> None:
    page.goto(address)
    values = [
        page.locator(f"details[data-column={column}] button.value[title='{value}']")
        for column, value in (("dataset", "metaworld_sawyer"), ("success", "true"), ("grade", "acceptable"))
    ]
    for value in values:
        expect(value).to_be_visible()
    # Not by the pointer, which waits for the page to be still.
    for clicked in (values[0], page.locator(".tick").first, values[1]):
        clicked.evaluate("box => box.click()")
    filters = {"f.dataset": ["metaworld_sawyer"], "f.success": ["true"]}
    _wait_for_filters(page, filters)
    expect(page.get_by_text("1 selected")).to_be_visible()
    values[2].click()
    _wait_for_filters(page, {**filters, "f.grade": ["acceptable"]})
    page.go_back()
    _wait_for_filters(page, filters)
    page.locator(".st-key-browse-chip-filter-success button").first.click()
    _wait_for_filters(page, {"f.dataset": ["metaworld_sawyer"]})
