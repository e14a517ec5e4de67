"""The player in a real browser: keys, a phone, a loop, ticks, paging at any pace, and what axe says of every page."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Literal

import pytest
from playwright.sync_api import expect

from ares.curation import SOURCE_ORDER
from ares.workspace import Workspace
from tests.app.dashboard.browser import AXE, CODE_WORDS, VIOLATIONS, visit

if TYPE_CHECKING:
    from playwright.sync_api import Page


pytestmark = pytest.mark.slow
_SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
# The page has followed the browser when its background has.
_HAS_SCHEME = """(scheme) => {
    const colour = getComputedStyle(document.querySelector("[data-testid=stApp]")).backgroundColor;
    return (Number(colour.match(/\\d+/)[0]) < 128) === (scheme === "dark");
}"""


def _open_episode(
    page: Page, address: str, workspace: Workspace, where: str = "grade = 'acceptable'"
) -> None:
    episode_id = min(workspace.stores.tables.episodes.ids(where))
    page.goto(f"{address}/episode?episode={episode_id}")
    page.locator(".player .camera video").first.wait_for()


@pytest.mark.skipif(not AXE.is_file(), reason="no axe-core: run scripts/node.sh check")
def test_no_page_shows_code_and_axe_has_nothing_serious_to_say_of_any_in_light_and_dark(
    page: Page, address: str, workspace: Workspace
) -> None:
    # So high that the transport, which stays in sight, lies over no other button.
    page.set_viewport_size({"width": 1400, "height": 1400})
    first, second, *_ = sorted(workspace.stores.tables.episodes.ids("grade = 'acceptable'"))
    pages = {
        f"episode?episode={first}": ".grid.small .card",
        "": ".card",
        "?show=table": "[data-testid=stDataFrame]",
        "?q=drawer&words=drawer": ".corner.score",
        "sets": "h2, [data-testid=stAlert]",
        "review": "h2",
        "quality?f.dataset=metaworld_sawyer": ".st-key-quality-spread svg.marks",
        "map": "h2",
        "jobs": "h2",
        f"compare?a={first}&b={second}": ".camera",
    }
    names = _names_of_data(workspace)
    violations: dict[str, list[str]] = {}
    codes: dict[str, list[str]] = {}
    for name, element in pages.items():
        page.goto(f"{address}/{name}")
        page.locator(element).first.wait_for()
        for scheme in _SCHEMES:
            page.emulate_media(color_scheme=scheme)
            page.wait_for_function(_HAS_SCHEME, arg=scheme)
            violations[f"{name} {scheme}"] = page.evaluate(VIOLATIONS, AXE.read_text())
        # All parts of the page are there by now.
        codes[name] = page.evaluate(CODE_WORDS, names)
    assert {name: own for name, own in violations.items() if own} == {}
    assert {name: own for name, own in codes.items() if own} == {}
    page.goto(f"{address}/?f.dataset=metaworld_sawyer")
    page.get_by_text("metaworld_sawyer").first.wait_for()
    assert "metaworld_sawyer" in page.evaluate(CODE_WORDS, [])


def _names_of_data(workspace: Workspace) -> list[str]:
    """What sources and people have named: it stands on the page as they wrote it."""
    episodes = list(workspace.stores.tables.episodes.read())
    own = {text for episode in episodes for text in (episode.dataset, episode.key, episode.success_source)}
    cameras = {camera.name for episode in episodes for camera in episode.cameras}
    # The longest first: a name may be a part of another one.
    return sorted(filter(None, own | cameras), key=len, reverse=True)


def test_after_next_only_the_new_player_hears_the_keys(page: Page, address: str) -> None:
    visit(page, address)
    page.locator(".card").first.click()
    page.locator(".player .camera video").first.wait_for()
    old_player = page.locator(".player").element_handle()
    old_video = page.locator(".camera video").first.element_handle()
    old_address = page.url
    page.get_by_role("button", name="Next").click()
    page.wait_for_function("(url) => location.href !== url", arg=old_address)
    page.wait_for_function("(old) => !old.isConnected", arg=old_player)
    page.locator(".player .camera video").first.wait_for()
    page.keyboard.press("Space")
    page.locator(".player .play[aria-label=Pause]").wait_for()
    assert old_video.evaluate("(video) => video.paused")
    # What plays goes on with the next episode; slowly, so that it does not end before the click on a busy machine.
    page.locator(".camera video").evaluate_all(
        "(all) => all.forEach((video) => { video.playbackRate = 0.1; })"
    )
    playing, old_address = page.locator(".player").element_handle(), page.url
    page.get_by_role("button", name="Next").click()
    page.wait_for_function("(url) => location.href !== url", arg=old_address)
    page.wait_for_function("(old) => !old.isConnected", arg=playing)
    page.locator(".player .play[aria-label=Pause]").wait_for()
    assert (
        old_player.evaluate("(player) => player.querySelector('.play').getAttribute('aria-label')") == "Play"
    )


@pytest.mark.nightly
def test_quick_hovers_over_cards_raise_no_error(page: Page, address: str) -> None:
    """`open_tab` fails at the first error of the page."""
    page.goto(address)
    cards = page.locator(".card .media")
    cards.nth(5).wait_for()
    for number in range(18):
        cards.nth(number % 6).hover()
        page.wait_for_timeout(130 + 15 * (number % 5))
    page.mouse.move(2, 2)
    expect(page.locator(".card video")).to_have_count(0)


def test_keys_zoom_the_plots_and_loop_a_part(page: Page, address: str, workspace: Workspace) -> None:
    _open_episode(page, address, workspace)
    window, loop = page.locator(".timeline .window"), page.locator(".readout")
    page.keyboard.press("Home")
    page.keyboard.press("+")
    assert window.is_visible()
    page.keyboard.press("0")
    assert not window.is_visible()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("]")
    assert loop.inner_text().endswith(", loop 0.00 to 1.00 s")
    readout = page.locator(".readout")
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    # It plays to the end of the loop and begins again, though a busy machine may miss the end of a round.
    seconds, deadline = [0.0], time.monotonic() + 300
    while not 0.5 < max(seconds) > seconds[-1] and time.monotonic() < deadline:
        seconds.append(float(readout.inner_text().split()[0]))
    assert seconds[-1] < max(seconds)
    assert 0.5 < max(seconds) < 1.05
    assert page.locator(".play[aria-label=Pause]").count() == 1
    page.keyboard.press("Escape")
    assert loop.inner_text().endswith(", loop")


def test_tab_reaches_every_control_of_the_player_and_shows_where_it_is(
    page: Page, address: str, workspace: Workspace
) -> None:
    _open_episode(page, address, workspace)
    controls = {"alike", "timeline", "moments", "play", "SELECT", "keys", "choice", "edit", "new-tag"}
    for kind in controls:
        page.locator(f".player {'select' if kind == 'SELECT' else f'.{kind}'}:visible").first.wait_for()
    page.locator(".player .alike").first.focus()
    reached: set[str] = set()
    for _ in range(120):
        if controls <= reached:
            break
        page.keyboard.press("Tab")
        kind, outline, is_own = page.evaluate(
            "() => { let at = document.activeElement; while (at.shadowRoot) at = at.shadowRoot.activeElement;"
            " return [at.classList[0] || at.tagName, getComputedStyle(at).outlineStyle, !!at.closest('.player')]; }"
        )
        # Around the page Tab goes through its body, and what is drawn again loses the focus to it for a moment.
        if not is_own:
            continue
        reached.add(kind)
        assert outline != "none", kind
    assert controls <= reached


# Marks what has the focus, and whether it shows so; then the visible controls that never had it.
_MARK_FOCUS = """() => {
    let at = document.activeElement;
    while (at.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
    at.isReached = true;
    return at === document.body;
}"""
_NOT_REACHED = """() => {
    const selector = "button, a[href], input, select, textarea, summary, [tabindex='0']";
    const missed = [];
    const read = (node) => {
        const isControl = node.matches?.(selector) && !node.disabled && node.tabIndex >= 0;
        // Of a group of choices one has the focus, and arrows move to the others.
        const isChoice = node.type === "radio" || node.role === "radio";
        if (isControl && !isChoice && !node.isReached && node.checkVisibility({ visibilityProperty: true }))
            missed.push(node.outerHTML.slice(0, 160));
        if (node.shadowRoot) read(node.shadowRoot);
        for (const child of node.children ?? []) read(child);
    };
    read(document.body);
    return missed;
}"""


def test_tab_reaches_every_control_of_jobs_and_of_two_that_are_compared(
    page: Page, address: str, workspace: Workspace
) -> None:
    first, second, *_ = sorted(workspace.stores.tables.episodes.ids("dataset = 'metaworld_sawyer'"))
    pages = {"jobs?job=annotate&names=motion": "h2", f"compare?a={first}&b={second}": ".plot canvas"}
    for name, element in pages.items():
        page.goto(f"{address}/{name}")
        page.locator(element).first.wait_for()
        page.get_by_role("button", name="Find Ctrl K").wait_for()
        for _ in range(150):
            page.keyboard.press("Tab")
            if page.evaluate(_MARK_FOCUS):
                break
        assert page.evaluate(_NOT_REACHED) == [], name


def test_a_failure_is_opened_where_it_likely_failed_and_a_key_goes_on(
    page: Page, address: str, workspace: Workspace
) -> None:
    _open_episode(page, address, workspace, "success IS FALSE AND gripper_events > 0")
    moments = page.locator(".moments")
    expect(moments).to_contain_text("last gripper")
    second = moments.inner_text().split(", ")[-1].split(" s")[0]
    assert page.locator(".readout").inner_text().startswith(f"{second} s")
    page.keyboard.press("End")
    expect(moments).to_contain_text("end")
    page.keyboard.press("Shift+E")
    assert page.locator(".readout").inner_text().startswith(f"{second} s")
    _open_episode(page, address, workspace)
    expect(page.locator(".tick.evidence").first).to_have_attribute("title", re.compile("^0.50 s"))


def test_the_second_is_in_the_address_which_opens_there(page: Page, address: str) -> None:
    visit(page, address)
    page.locator(".card").first.click()
    page.locator(".player .camera video").first.wait_for()
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**t=1.00**")
    link = page.url
    # Another part of the page is drawn again: the player stays where it is.
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**t=2.00**")
    page.get_by_role("radio", name="Words", exact=True).click()
    page.wait_for_timeout(500)
    assert page.locator(".readout").inner_text().startswith("2.00 s")
    page.goto("about:blank")
    page.goto(link)
    page.locator(".readout", has_text="1.00 s").wait_for()


_PRESSES = 8


@pytest.fixture
def ids(workspace: Workspace) -> list[str]:
    """The ids of all episodes in the order of Browse."""
    table = workspace.stores.tables.episodes
    batches = table.scan(["episode_id"], order_by=SOURCE_ORDER)
    return [str(id) for batch in batches for id in batch.column("episode_id").to_pylist()]


def _open_first(page: Page, address: str, ids: list[str]) -> None:
    page.goto(f"{address}/episode?episode={ids[0]}&at=0")
    expect(page.locator(f".player[data-episode='{ids[0]}']")).to_be_visible()
    expect(page.locator(".place")).to_have_text(f"1 of {len(ids)}")


def _page_on(page: Page, pause_ms: float, ids: list[str], keys: list[str], at: int) -> None:
    """Press keys; in the end the episode at that place is there, and a player was there all the time."""
    for key in keys:
        page.keyboard.press(key)
        assert page.locator(".player").count() == 1
        page.wait_for_timeout(pause_ms)
    expect(page.locator(f".player[data-episode='{ids[at]}']")).to_be_visible()
    expect(page.locator(".place")).to_have_text(f"{at + 1} of {len(ids)}")
    expect(page.get_by_text("because of a bug")).to_have_count(0)
    assert f"episode={ids[at]}&at={at}" in page.url


def test_no_press_is_lost_at_any_pace(page: Page, address: str, ids: list[str]) -> None:
    _open_first(page, address, ids)
    _page_on(page, 0, ids, ["Shift+ArrowRight"] * _PRESSES, _PRESSES)
    _page_on(page, 100, ids, ["Shift+ArrowLeft"] * 3 + ["Shift+ArrowRight"] * 2, _PRESSES - 1)
    # The ends of the list, by the buttons: no press beyond them counts.
    _page_on(page, 0, ids, ["Shift+ArrowRight"] * len(ids) + ["Shift+ArrowLeft"], len(ids) - 2)
    # The head is drawn behind the player: until it says so, an episode counts as passed over.
    page.get_by_role("status").get_by_text(f"{len(ids) - 1} of {len(ids)}", exact=True).wait_for()
    page.get_by_role("button", name="Next").click()
    _page_on(page, 0, ids, [], len(ids) - 1)
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    # What was passed over is no stop for the button "back" of the browser.
    page.go_back()
    _page_on(page, 0, ids, [], len(ids) - 2)
