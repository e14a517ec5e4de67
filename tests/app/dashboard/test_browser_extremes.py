"""Episodes beyond what is usual, in a real browser: long titles, many cameras, long signals, files that are gone."""

from __future__ import annotations

import shutil
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
from tests.app.dashboard.browser import serve

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.slow
_HEIGHT = 900
_LONG = "open the drawer " * 230
_CAMERAS, _PLAYED_AT_ONCE, _DIMENSIONS, _HOURS, _RATE_HZ = 40, 6, 60, 3, 10


def _add(opened: Workspace, key: str, trajectory: Trajectory | None = None, **changes: object) -> Episode:
    first = next(opened.stores.tables.episodes.read("dataset = 'video'"))
    new_id = make_episode_id(format="video", dataset="odd", version="", split="", key=key)
    episode = replace(first, episode_id=new_id, dataset="odd", key=key, **changes)  # type: ignore[arg-type]
    trajectory = trajectory or opened.stores.tables.trajectories.get(first.episode_id)
    opened.stores.tables.episodes.add([Record(episode=episode, trajectory=trajectory)])
    return episode


def _long_trajectory() -> Trajectory:
    steps = _HOURS * 3600 * _RATE_HZ
    noise = np.random.default_rng(0).normal(0, 1, (steps, _DIMENSIONS)).astype(np.float32)
    names = tuple(f"channel{number}" for number in range(_DIMENSIONS))
    return Trajectory(timestamps=np.arange(steps) / _RATE_HZ, state=Signal(values=noise, names=names))


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[Workspace]:
    folder = tmp_path_factory.mktemp("odd")
    shutil.copytree(demo_samples / "video", folder / "video")
    with open_workspace(str(folder / "w"), Settings()) as opened:
        opened.ingest(folder / "video", limit=2, quiet=True)
        first = next(opened.stores.tables.episodes.read("dataset = 'video'"))
        camera = first.cameras[0]
        cameras = tuple(replace(camera, name=f"camera{number}") for number in range(_CAMERAS))
        gone = folder / "gone.mp4"
        lost = replace(camera, name="lost", media=replace(camera.media, uri=str(gone)))
        _add(opened, "title", instruction=_LONG, instructions=(_LONG,))
        _add(opened, "cameras", cameras=cameras)
        _add(opened, "gone", cameras=(lost, first.cameras[1]))
        _add(
            opened, "long", _long_trajectory(), num_steps=_HOURS * 3600 * _RATE_HZ, rate_hz=float(_RATE_HZ),
            state_names=tuple(f"channel{number}" for number in range(_DIMENSIONS)),
        )  # fmt: skip
        yield opened


@pytest.fixture(scope="module")
def address(odd: Workspace) -> Iterator[str]:
    with serve(odd) as address:
        yield address


def _id(opened: Workspace, key: str) -> str:
    (episode_id,) = opened.stores.tables.episodes.ids(f"dataset = 'odd' AND key = '{key}'")
    return episode_id


def _is_in_sight(element: Locator) -> bool:
    box = element.bounding_box()
    return box is not None and box["y"] >= 0 and box["y"] + box["height"] <= _HEIGHT


@pytest.mark.nightly
def test_the_player_of_an_odd_episode_can_be_used(page: Page, odd: Workspace, address: str) -> None:
    page.goto(f"{address}/episode?episode={_id(odd, 'title')}")
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

    page.goto(f"{address}/episode?episode={_id(odd, 'cameras')}")
    expect(page.locator(".camera")).to_have_count(_CAMERAS)
    page.locator(".camera").nth(_CAMERAS - 1).scroll_into_view_if_needed()
    assert _is_in_sight(page.locator(".player .play"))
    _only_chosen_cameras_load(page)

    page.goto(f"{address}/episode?episode={_id(odd, 'gone')}")
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


@pytest.mark.nightly
def test_hours_of_many_dimensions_are_bands_and_not_a_block(page: Page, odd: Workspace, address: str) -> None:
    page.goto(f"{address}/episode?episode={_id(odd, 'long')}")
    plot = page.locator(".plot").first
    plot.wait_for()
    title = plot.locator(".plot-title").inner_text()
    assert f"10 of {_DIMENSIONS} dimensions shown, extremes of every 11 s" in title
    # Of one dimension: its line, and around it a band through which the levels are seen.
    plot.locator(".entry").first.dblclick()
    assert f"1 of {_DIMENSIONS} dimensions shown" in plot.locator(".plot-title").inner_text()
    strong, weak = plot.locator("canvas").evaluate(_PAINTED)
    assert 0 < strong < 0.4 < weak
    plot.get_by_role("button", name="show all").click()
    assert "shown" not in plot.locator(".plot-title").inner_text()
    page.keyboard.press("End")
    assert page.locator(".readout").inner_text().startswith("3:00:00.00 / 3:00:00, step 108000 ")
    assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= 1400


# Shares of the pixels of a plot that are painted strongly and weakly, apart from its axes.
_PAINTED = """canvas => {
  const pen = canvas.getContext('2d');
  const { data } = pen.getImageData(60, 20, canvas.width - 80, canvas.height - 60);
  let strong = 0, weak = 0;
  for (let at = 3; at < data.length; at += 4) { if (data[at] > 200) strong++; else if (data[at] > 20) weak++; }
  return [strong, weak].map(count => count / (data.length / 4));
}"""
