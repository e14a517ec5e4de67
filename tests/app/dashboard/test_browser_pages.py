"""A humanoid, odd episodes, and other people and jobs at the same time, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from playwright.sync_api import expect

from ares.curation import undo
from ares.episode import Episode, Record, Signal, Trajectory, make_episode_id
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.app.dashboard.browser import open_tab, serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.slow
_VIDEOS = 8
_HEIGHT, _LONG = 900, "open the drawer " * 230
_CAMERAS, _PLAYED_AT_ONCE = 40, 6
_JOINTS = ("kLeftShoulderPitch", "kLeftShoulderRoll", "kLeftElbow", "kRightShoulderPitch", "kRightElbow")


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[Workspace]:
    """Eight episodes, one of a humanoid, and odd ones: a long title, many cameras, a file that is gone."""
    with open_workspace(str(tmp_path_factory.mktemp("several") / "w"), Settings()) as opened:
        opened.ingest(demo_samples / "video", limit=_VIDEOS, quiet=True)
        first = next(opened.stores.tables.episodes.read("dataset = 'video'"))
        times = np.arange(first.num_steps) / first.rate_hz
        values = np.sin(times[:, None] * np.arange(1, len(_JOINTS) + 1)).astype(np.float32)
        state, action = (Signal(values=own, names=_JOINTS) for own in (values, values + np.float32(0.1)))
        trajectory = Trajectory(timestamps=times, state=state, action=action)
        camera = first.cameras[0]
        cameras = tuple(replace(camera, name=f"camera{number}") for number in range(_CAMERAS))
        lost = replace(camera, name="lost", media=replace(camera.media, uri="/nowhere/gone.mp4"))
        _add(opened, first, "humanoid", "h", trajectory)
        _add(opened, first, "odd", "title", instruction=_LONG, instructions=(_LONG,))
        _add(opened, first, "odd", "cameras", cameras=cameras)
        _add(opened, first, "odd", "gone", cameras=(lost, first.cameras[1]))
        yield opened


def _add(
    opened: Workspace,
    first: Episode,
    dataset: str,
    key: str,
    trajectory: Trajectory | None = None,
    **changes: object,
) -> None:
    new_id = make_episode_id(format="video", dataset=dataset, version="", split="", key=key)
    episode = replace(first, episode_id=new_id, dataset=dataset, key=key, **changes)  # type: ignore[arg-type]
    trajectory = trajectory or opened.stores.tables.trajectories.get(first.episode_id)
    opened.stores.tables.episodes.add([Record(episode=episode, trajectory=trajectory)])


def _id(opened: Workspace, key: str) -> str:
    (episode_id,) = opened.stores.tables.episodes.ids(f"dataset = 'odd' AND key = '{key}'")
    return episode_id


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


def _is_in_sight(element: Locator) -> bool:
    box = element.bounding_box()
    return box is not None and box["y"] >= 0 and box["y"] + box["height"] <= _HEIGHT


@pytest.mark.nightly
def test_the_player_of_an_odd_episode_can_be_used(page: Page, several: Workspace, address: str) -> None:
    page.goto(f"{address}/episode?episode={_id(several, 'title')}")
    page.locator(".player").wait_for()
    title = page.locator("h2.text")
    box = title.bounding_box()
    assert box is not None and box["height"] < 60
    assert _is_in_sight(page.locator(".player .play"))
    # Beside the buttons, and not below them.
    buttons = page.get_by_role("button", name="Results").bounding_box()
    assert buttons is not None and abs(buttons["y"] - box["y"]) < 20
    page.get_by_role("button", name="more", exact=True).click()
    assert title.evaluate("title => title.clientHeight") > 200
    assert title.inner_text().strip() == _LONG.strip()

    page.goto(f"{address}/episode?episode={_id(several, 'cameras')}")
    expect(page.locator(".camera")).to_have_count(_CAMERAS)
    page.locator(".camera").nth(_CAMERAS - 1).scroll_into_view_if_needed()
    assert _is_in_sight(page.locator(".player .play"))
    _only_chosen_cameras_load(page)

    page.goto(f"{address}/episode?episode={_id(several, 'gone')}")
    lost = page.locator(".camera[data-camera=lost]")
    expect(lost.locator(".badge")).to_have_text("gone")
    assert "gone.mp4" in lost.locator(".note").inner_text()
    assert lost.locator("video").evaluate("video => video.src + video.poster") == ""
    page.locator(".camera:not(.lost) video").first.wait_for()
    page.goto(f"{address}/?f.dataset=odd")
    expect(page.locator(".card .lost")).to_have_text(["no picture"])


def _only_chosen_cameras_load(page: Page) -> None:
    """Of many cameras one is large and a few play; another one plays when it is chosen, and is large the next time."""
    playing, last = page.locator(".camera video[src]"), page.locator(f"[data-camera=camera{_CAMERAS - 1}]")
    expect(playing).to_have_count(_PLAYED_AT_ONCE)
    assert last.locator("video").get_attribute("poster")
    last.get_by_role("button", name="Play").click()
    expect(playing).to_have_count(_PLAYED_AT_ONCE + 1)
    expect(last.get_by_role("button", name="Play")).to_be_hidden()
    large = page.locator(".large .camera")
    expect(large).to_have_attribute("data-camera", "camera0")
    last.locator("video").click()
    expect(large).to_have_attribute("data-camera", f"camera{_CAMERAS - 1}")
    page.get_by_role("button", name="Cameras: choose").click()
    page.locator(".chooser-row").nth(1).get_by_role("checkbox").uncheck()
    page.get_by_title("camera3: up", exact=True).click()
    page.reload()
    expect(large).to_have_attribute("data-camera", f"camera{_CAMERAS - 1}")
    expect(page.locator("[data-camera=camera1]")).to_have_class("camera collapsed")
    small = page.locator(".small .camera").evaluate_all("all => all.map(camera => camera.dataset.camera)")
    assert small[:4] == ["camera0", "camera1", "camera3", "camera2"]
    assert large.locator("video").evaluate("video => video.clientWidth") > 300
