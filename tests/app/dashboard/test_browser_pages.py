"""A humanoid and odd episodes in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from playwright.sync_api import expect

from ares.episode import Episode, Record, Signal, Trajectory, make_episode_id
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.app.dashboard.browser import visit

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
_VIDEOS = 8
_LONG = "open the drawer " * 230
_CAMERAS, _PLAYED_AT_ONCE = 40, 6
_JOINTS = ("kLeftShoulderPitch", "kLeftShoulderRoll", "kLeftElbow", "kRightShoulderPitch", "kRightElbow")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[Workspace]:
    """Eight episodes, one of a humanoid, and odd ones: a long title, many cameras, a file that is gone."""
    with open_workspace(str(tmp_path_factory.mktemp("several") / "w"), Settings()) as opened:
        opened.ingest(demo_samples / "video", limit=_VIDEOS, quiet=True)
        videos = opened.stores.tables.episodes.read("dataset = 'video'")
        first = min(videos, key=lambda episode: episode.key)
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


def test_joints_of_a_humanoid_are_in_groups_with_the_action_over_the_state(
    page: Page, address: str, workspace: Workspace
) -> None:
    (humanoid,) = workspace.stores.tables.episodes.ids("dataset = 'humanoid'")
    page.goto(f"{address}/episode?episode={humanoid}")
    page.locator(".plot").nth(1).wait_for()
    assert page.locator(".plot .plot-name").all_inner_texts() == ["left arm", "right arm"]
    assert page.locator(".plot .key").all_inner_texts() == ["solid state, dashed action"] * 2
    # A separate colour for each joint of a plot.
    first = page.locator(".plot").first
    colours = first.locator(".entry i").evaluate_all("all => all.map(i => i.style.background)")
    assert len(set(colours)) == len(colours) > 2
    first.get_by_role("combobox").select_option(index=1)
    expect(first.locator(".entry:visible")).to_have_count(1)
    first.get_by_role("combobox").select_option(index=0)
    before = page.locator(".entry .value").all_inner_texts()
    page.keyboard.press("ArrowRight")
    assert page.locator(".entry .value").all_inner_texts() != before


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


def test_of_many_cameras_a_few_play_and_one_whose_file_is_gone_says_so(
    page: Page, workspace: Workspace, address: str
) -> None:
    page.goto(f"{address}/episode?episode={_id(workspace, 'cameras')}")
    playing, last = page.locator(".camera video[src]"), page.locator(f"[data-camera=camera{_CAMERAS - 1}]")
    expect(page.locator(".camera")).to_have_count(_CAMERAS)
    expect(playing).to_have_count(_PLAYED_AT_ONCE)
    last.get_by_role("button", name="Play").click()
    expect(playing).to_have_count(_PLAYED_AT_ONCE + 1)
    last.locator("video").click()
    expect(page.locator(".large .camera")).to_have_attribute("data-camera", f"camera{_CAMERAS - 1}")

    page.goto(f"{address}/episode?episode={_id(workspace, 'gone')}")
    lost = page.locator(".camera[data-camera=lost]")
    expect(lost.locator(".badge")).to_have_text("gone")
    assert "gone.mp4" in lost.locator(".note").inner_text()
    assert lost.locator("video").evaluate("video => video.src + video.poster") == ""
    # A title of thousands of words does not push the player out of sight.
    visit(page, f"{address}/episode?episode={_id(workspace, 'title')}")
    box = page.locator(".player .play").bounding_box()
    assert box is not None and 0 < box["y"] < 850
