"""Browse in a real browser: cards or a table, filters that lose no click, keys, marked words, and finding by name."""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from app.dashboard.column_words import GROUPS, column_group
from app.dashboard.timeline_ticks import make_gripper_ticks
from ares.workspace import Workspace
from tests.app.dashboard.browser import AXE, VIOLATIONS, choose

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


pytestmark = pytest.mark.slow


def _show(page: Page, name: str) -> None:
    page.locator(".st-key-browse-show").get_by_text(name, exact=True).click()


def test_a_table_has_the_records_ticks_and_columns_of_the_address(
    page: Page, address: str, workspace: Workspace
) -> None:
    page.goto(address)
    page.locator(".card").first.wait_for()
    _show(page, "Table")
    page.wait_for_url(re.compile("show=table"))
    rows = page.locator(".table tbody tr")
    expect(rows).to_have_count(24)
    keys = {episode.key for episode in workspace.stores.tables.episodes.read()}
    assert set(page.locator(".table .record").all_inner_texts()) <= keys
    page.goto(f"{address}/?show=table&columns=dataset,grade&f.grade=unsure")
    expect(page.locator(".table thead th")).to_have_text(["tick", "record", "id", "dataset", "grade"])
    page.locator(".table .tick").nth(1).check()
    page.get_by_text("1 selected").wait_for()
    page.keyboard.press("ArrowUp")
    assert page.evaluate(VIOLATIONS, AXE.read_text()) == []
    page.locator(".table .record").first.click()
    page.wait_for_url(re.compile("/episode.*show=table"))


def test_a_table_is_copied_as_rows_with_tabs(page: Page, address: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{address}/?show=table&columns=instruction,grade&f.grade=unsure")
    page.get_by_role("button", name="Copy the table").click()
    page.get_by_text("Copied 4 rows").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert copied[0] == "record\tid\tinstruction\tgrade"
    assert len(copied) == 5 and all(line.endswith("\tunsure") for line in copied[1:])


def test_the_size_of_cards_is_in_the_address_and_outlasts_clear_all(page: Page, address: str) -> None:
    page.goto(f"{address}/?f.grade=acceptable&words=drawer")
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

    page.goto(address)
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


TIMES = "player => [...player.querySelectorAll('.side')].map(side => side.querySelector('video').currentTime)"
READY = (
    "player => [...player.querySelectorAll('video')].every(video => video.readyState > 1 && !video.seeking)"
)


def _find(page: Page, text: str) -> None:
    """Open the dialog by its key, type, and wait for what it lists."""
    page.get_by_role("button", name="Find").wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Find by name").wait_for()
    page.keyboard.type(text)
    page.get_by_role("option").first.wait_for()


def _two_with_grippers(workspace: Workspace) -> tuple[str, str, list[list[float]]]:
    """Two episodes whose grippers move first at different seconds, and the seconds of both."""
    table = workspace.stores.tables.trajectories
    events = {
        id: sorted(float(str(tick["seconds"])) for tick in make_gripper_ticks(table.get(id), None))
        for id in sorted(workspace.episodes.where("dataset = 'metaworld_sawyer'").ids())
    }
    return next(
        (one, other, [events[one], events[other]])
        for one, other in combinations(events, 2)
        if events[one] and events[other] and abs(events[one][0] - events[other][0]) > 0.3
    )


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
    page.goto(address)
    page.get_by_placeholder("Search by meaning").fill(episode_id[:8])
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/episode?episode={episode_id}")


@pytest.mark.nightly
def test_both_play_on_one_clock_also_where_gripper_events_are_aligned(
    page: Page, address: str, workspace: Workspace
) -> None:
    one, other, events = _two_with_grippers(workspace)
    page.goto(f"{address}/compare?a={one}&b={other}")
    player = page.locator(".compare")
    player.locator(".side").nth(1).wait_for()
    at_the_start = page.locator(".readout").inner_text()
    choose(page, "Aligned at", "gripper event 1")
    page.wait_for_url(re.compile("align=1"))
    expect(page.locator(".readout")).not_to_have_text(at_the_start)
    page.get_by_role("button", name="A: gripper event 1").click()
    page.wait_for_function(f"({READY})(document.querySelector('.compare') ?? {{querySelectorAll: () => []}})")
    player.evaluate("player => new Promise(done => setTimeout(done, 500))")
    assert player.evaluate(TIMES) == pytest.approx([seconds[0] for seconds in events], abs=0.12)
    page.reload()
    page.locator(".compare .side").nth(1).wait_for()
    page.keyboard.press("Space")
    page.wait_for_timeout(800)
    page.keyboard.press("Space")
    page.wait_for_timeout(500)
    first, second = page.locator(".compare").evaluate(TIMES)
    assert first - events[0][0] == pytest.approx(second - events[1][0], abs=0.12), "they stay aligned"
