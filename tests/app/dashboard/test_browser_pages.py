"""A humanoid, and other people and jobs at the same time, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ares.curation import undo
from ares.episode import Record, Signal, Trajectory, make_episode_id
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.app.dashboard.browser import open_tab, serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow
_VIDEOS = 8
_JOINTS = ("kLeftShoulderPitch", "kLeftShoulderRoll", "kLeftElbow", "kRightShoulderPitch", "kRightElbow")


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[Workspace]:
    """Eight episodes, and one of a humanoid."""
    opened = open_workspace(str(tmp_path_factory.mktemp("several") / "w"), Settings())
    opened.ingest(demo_samples / "video", limit=_VIDEOS, quiet=True)
    _add_humanoid(opened)
    yield opened
    opened.close()


def _add_humanoid(opened: Workspace) -> None:
    first = next(opened.stores.tables.episodes.read("dataset = 'video'"))
    times = np.arange(first.num_steps) / first.rate_hz
    values = np.sin(times[:, None] * np.arange(1, len(_JOINTS) + 1)).astype(np.float32)
    state, action = (Signal(values=own, names=_JOINTS) for own in (values, values + np.float32(0.1)))
    new_id = make_episode_id(format="video", dataset="humanoid", version="", split="", key="h")
    episode = replace(first, episode_id=new_id, dataset="humanoid", key="h")
    trajectory = Trajectory(timestamps=times, state=state, action=action)
    opened.stores.tables.episodes.add([Record(episode=episode, trajectory=trajectory)])


@pytest.fixture(scope="module")
def address(several: Workspace) -> Iterator[str]:
    with serve(several) as address:
        yield address


def _tagged(workspace: Workspace, tag: str) -> set[str]:
    return workspace.stores.tables.episodes.ids(f"array_has(tags, '{tag}')")


def _add_tag(page: Page, tag: str) -> None:
    page.get_by_role("button", name="Tags").click()
    page.get_by_label("New tag").fill(tag)
    page.get_by_role("button", name="Add the tag").click()
    page.get_by_text(f"Tag {tag} added to").wait_for()
    page.keyboard.press("Escape")


def test_next_is_the_next_episode_also_after_one_before_it_was_excluded(
    page: Page, address: str, several: Workspace
) -> None:
    page.goto(f"{address}/?f.dataset=video")
    cards = page.locator(".card")
    cards.nth(4).wait_for()
    first, fourth = (cards.nth(number).get_attribute("data-episode") for number in (0, 3))
    cards.nth(2).click()
    page.locator(".player .camera video").first.wait_for()
    excluded = several.remove(where=f"episode_id = '{first}'")
    try:
        page.get_by_role("button", name="Next").click()
        page.wait_for_url(re.compile(f"episode={fourth}"))
    finally:
        undo(several.stores, excluded.number)


def test_joints_of_a_humanoid_are_in_groups_with_ranges_and_the_action_over_the_state(
    page: Page, address: str, several: Workspace
) -> None:
    (humanoid,) = several.stores.tables.episodes.ids("dataset = 'humanoid'")
    page.goto(f"{address}/episode?episode={humanoid}")
    page.locator(".plot").nth(1).wait_for()
    assert page.locator(".plot .plot-name").all_inner_texts() == ["left arm", "right arm"]
    assert page.locator(".plot .key").all_inner_texts() == ["solid: state, dashed: action"] * 2
    # A separate colour for each joint of a plot.
    colours = (
        page.locator(".plot")
        .first.locator(".entry i")
        .evaluate_all("all => all.map(i => i.style.background)")
    )
    assert len(set(colours)) == len(colours) > 2
    widths = page.locator(".range i").evaluate_all("bars => bars.map(bar => bar.clientWidth)")
    assert len(widths) == len(_JOINTS) and min(widths) > 0
    first = page.locator(".plot").first.locator(".entry").first
    first.click()
    assert (
        first.get_attribute("aria-pressed"),
        page.locator(".plot-title").first.inner_text().count("shown"),
    ) == ("false", 1)
    first.click()
    before = page.locator(".joints .value").all_inner_texts()
    page.keyboard.press("ArrowRight")
    assert page.locator(".joints .value").all_inner_texts() != before


def test_the_skip_link_leads_to_the_first_card(page: Page, address: str) -> None:
    page.goto(address)
    page.locator(".card").first.wait_for()
    skip = page.get_by_role("button", name="Skip to the episodes")
    skip.focus()
    box = skip.bounding_box()
    assert box is not None and box["height"] >= 24
    page.keyboard.press("Enter")
    focused = page.evaluate(
        "() => { let at = document.activeElement; while (at.shadowRoot) at = at.shadowRoot.activeElement;"
        " return at.dataset.episode; }"
    )
    assert focused == page.locator(".card").first.get_attribute("data-episode")


@pytest.mark.nightly
def test_two_people_tick_tag_and_undo_at_once(
    browser: Browser, page: Page, address: str, several: Workspace
) -> None:
    with open_tab(browser, address) as other:
        for tab, number in ((page, 0), (other, 3)):
            tab.goto(f"{address}/?f.dataset=video")
            tab.locator(".tick").nth(number).click()
            tab.get_by_text("1 selected").wait_for()
        ids = [page.locator(".card").nth(number).get_attribute("data-episode") for number in (0, 3)]
        _add_tag(page, "mine")
        _add_tag(other, "yours")
        assert (_tagged(several, "mine"), _tagged(several, "yours")) == ({ids[0]}, {ids[1]})
        page.get_by_role("button", name="Undo").click()
        page.get_by_role("button", name="Undo").wait_for(state="detached")
        assert (_tagged(several, "mine"), _tagged(several, "yours")) == (set(), {ids[1]})


@pytest.mark.nightly
def test_an_ingest_beside_the_page_adds_episodes_and_disturbs_no_player(
    browser: Browser, tmp_path: Path, demo_samples: Path
) -> None:
    workspace = open_workspace(str(tmp_path / "grows"), Settings())
    workspace.ingest(demo_samples / "video", limit=3, quiet=True)
    with serve(workspace) as address, open_tab(browser, address) as page:
        page.goto(address)
        second = page.locator(".card").nth(1).get_attribute("data-episode")
        page.locator(".card").first.click()
        page.locator(".player .camera video").first.wait_for()
        player = page.locator(".player").element_handle()
        workspace.ingest(demo_samples / "rlds", rate_hz=10, quiet=True)
        page.keyboard.press("Home")
        assert player is not None and player.evaluate("player => player.isConnected")
        page.get_by_role("button", name="Next").click()
        page.wait_for_url(re.compile(f"episode={second}"))
        page.get_by_role("link", name="Status", exact=True).click()
        page.locator("[data-testid=stMetricValue]", has_text="15").first.wait_for()
        page.get_by_role("link", name="Browse", exact=True).click()
        page.get_by_text("15 of 15 episodes").wait_for()
    workspace.close()
