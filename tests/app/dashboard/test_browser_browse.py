"""Browse in a real browser: cards or a table, filters that lose no click, keys, marked words, and finding by name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from ares.workspace import Workspace
from tests.app.dashboard.browser import AXE, CONTROLS, VIOLATIONS, act_on_row, visit

if TYPE_CHECKING:
    from playwright.sync_api import Page


pytestmark = pytest.mark.slow


def test_a_table_has_the_columns_of_the_address_and_its_rows_are_ticked_and_opened(
    page: Page, address: str
) -> None:
    visit(page, f"{address}/?show=table&columns=dataset,grade&f.grade=unsure")
    table = page.locator("[data-testid=stDataFrame]")
    heads = table.locator("[role=columnheader]")
    expect(heads.filter(has_text=re.compile("record|dataset|grade"))).to_have_count(3)
    table.click(position={"x": 16, "y": 50})
    page.get_by_text("1 selected").wait_for()
    assert page.evaluate(VIOLATIONS, AXE.read_text()) == []
    table.click(position={"x": 200, "y": 50})
    page.wait_for_url(re.compile("/episode.*show=table"))


def test_other_filters_are_chosen_by_name_and_one_without_a_choice_has_no_button(
    page: Page, address: str
) -> None:
    visit(page, address)
    page.get_by_role("button", name="More filters").click()
    page.get_by_role("combobox", name="Filter by").click()
    page.keyboard.type("peak speed")
    page.get_by_role("option", name="motion · peak speed").click()
    slider = page.get_by_role("slider").first
    slider.wait_for()
    slider.press("ArrowRight")
    page.wait_for_url(re.compile("f.peak_speed="))
    assert page.evaluate(VIOLATIONS, AXE.read_text()) == []
    for where, count in (("", 1), ("?where=dataset+%3D+%27metaworld_sawyer%27", 0)):
        visit(page, f"{address}/{where}")
        page.get_by_role("button", name="Outcome").wait_for()
        expect(page.get_by_role("button", name="Dataset", exact=True)).to_have_count(count)


def test_twelve_cards_and_few_controls_are_in_the_first_screen_and_a_phone_has_a_card(
    page: Page, address: str, workspace: Workspace
) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    visit(page, address)
    page.locator(".card").nth(12).wait_for()
    whole = "cards => cards.filter(card => card.getBoundingClientRect().bottom <= innerHeight).length"
    assert page.locator(".card .title").evaluate_all(whole) >= 12
    # Boxes and links of cards count once, as one sees them.
    assert page.evaluate(CONTROLS) - 2 * 15 + 2 <= 32
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.locator(".card .title").evaluate_all(whole) >= 1
    page.set_viewport_size({"width": 1440, "height": 900})
    episode_id = min(workspace.stores.tables.episodes.ids("dataset = 'metaworld_sawyer'"))
    visit(page, f"{address}/episode?episode={episode_id}&at=0")
    page.locator(".plot canvas").first.wait_for()
    assert page.locator(".plot").evaluate_all(whole) >= 1
    assert page.evaluate(CONTROLS) <= 36


def test_the_title_of_the_tab_and_the_header_name_workspace_and_dataset(
    page: Page, address: str, workspace: Workspace
) -> None:
    name = workspace.path.rpartition("/")[2]
    (episode_id, *_) = workspace.stores.tables.episodes.ids("dataset = 'metaworld_sawyer'")
    page.goto(f"{address}/episode?episode={episode_id}")
    expect(page).to_have_title(f"Episode · metaworld_sawyer · {name} · ARES")
    expect(page.locator(".changes .shown")).to_have_text(f"{name} · metaworld_sawyer")
    page.goto(f"{address}/jobs")
    expect(page).to_have_title(f"Jobs · {name} · ARES")


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
    ruling = page.locator(".criterion-line").first
    expect(ruling).to_have_attribute("title", re.compile("^VERB"))
    expect(ruling.locator(".sign")).to_have_attribute("aria-label", "met")
    assert "shown in columns" not in page.locator("body").inner_text()


def test_the_first_screen_of_quality_has_few_controls_and_a_row_is_opened_by_keys(
    page: Page, address: str
) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"{address}/quality?f.dataset=metaworld_sawyer")
    page.locator(".st-key-quality-spread svg.marks").wait_for()
    assert page.evaluate(CONTROLS) <= 32
    assert page.evaluate(VIOLATIONS, AXE.read_text()) == []
    act_on_row(page, "quality-groups", 1)
    page.wait_for_url("**f.instruction=**")
    page.locator(".card").first.wait_for()


def test_a_reader_finds_the_worst_under_a_menu_that_stays(page: Page, address: str) -> None:
    def menu() -> list[float]:
        links = page.locator("[data-testid=stTopNavLink]")
        return [box["x"] for link in links.all() if (box := link.bounding_box())]

    visit(page, f"{address}/?sort=-quality_findings")
    card = page.locator(".card").first
    expect(card.locator(".value")).to_have_text("number of findings: 3")
    episode = card.get_attribute("data-episode") or ""
    expect(card.locator(".short-id")).to_have_text(episode[:8])
    expect(card.locator(".short-id")).to_have_attribute("title", re.compile(episode))
    before = menu()
    page.get_by_role("link", name="Sets", exact=True).click()
    page.wait_for_url("**/sets")
    assert menu() == before and len(before) >= 6


def _find(page: Page, text: str) -> None:
    """Open the dialog by its key, type, and wait for what it lists."""
    page.locator(".open-find").wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Find by name").wait_for()
    page.keyboard.type(text)
    page.get_by_role("option").first.wait_for()


def test_arrows_choose_escape_closes_and_what_has_no_name_is_said(page: Page, address: str) -> None:
    page.goto(address)
    _find(page, "s")
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
    visit(page, address)
    for name, value in (("Dataset", "metaworld_sawyer"), ("Outcome", "success")):
        page.get_by_role("button", name=name, exact=True).click()
        # Not by the pointer, which waits for the page to be still.
        page.get_by_role("button", name=re.compile(f"^{value}")).evaluate("pill => pill.click()")
        page.locator(".tick").first.evaluate("box => box.click()")
        page.keyboard.press("Escape")
    filters = {"f.dataset": ["metaworld_sawyer"], "f.success": ["true"]}
    _wait_for_filters(page, filters)
    page.get_by_role("button", name="Grade", exact=True).click()
    page.get_by_role("button", name=re.compile("^acceptable")).click()
    _wait_for_filters(page, {**filters, "f.grade": ["acceptable"]})
    page.go_back()
    _wait_for_filters(page, filters)
    page.locator(".st-key-browse-chip-filter-success button").first.click()
    _wait_for_filters(page, {"f.dataset": ["metaworld_sawyer"]})
