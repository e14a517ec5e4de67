"""The player on uneven clocks, in a real browser: frame, step, seconds, values and cursors agree with the stamps."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.ingest.image_folders.conftest import START, STEPS, write_episode, write_images
from tests.ingesting import ingest_paths
from tests.thinning import some_by_day

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
# A gap that a video can play slowly through, one that is too long for that, and steps that jitter.
STAMPS = np.array([0.0, 0.10006, 0.2, 0.9, 1.0, 1.13, 1.2, 3.2, 3.3, 3.4])
IMAGE_RATE = 4.0
LEFT, RIGHT = 46, 8  # margins of a plot, as in plots.js
READ = """player => {
    const video = player.querySelector('.camera video'), canvas = document.createElement('canvas');
    const pen = canvas.getContext('2d'), plot = player.querySelector('.plot');
    pen.drawImage(video, 0, 0, 8, 8);
    return {
        readout: player.querySelector('.readout').textContent, grey: pen.getImageData(4, 4, 1, 1).data[0],
        ready: !video.seeking && video.readyState > 1, value: Number(plot.querySelector('.value').textContent),
        cursor: new DOMMatrix(plot.querySelector('.cursor').style.transform).m41,
        width: plot.querySelector('.area').clientWidth,
    };
}"""
_READOUT = re.compile(r"([\d.]+) s / ([\d.]+) s, step (\d+) of (\d+)")


def _write(root: Path, name: str) -> Path:
    folder = root / name / "episode_0"
    numbers = [float(number) for number in range(STEPS)]
    changed = {"timestamp": (START + STAMPS).tolist(), "joint_0": numbers}
    return write_episode(folder, changed)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """Two episodes of the same stamps: images that belong to steps by their number, and by their own stamps."""
    root = tmp_path_factory.mktemp("uneven")
    _write(root, "by_index")
    by_stamp = _write(root, "by_stamp")
    for camera in ("front", "wrist"):
        for path in (by_stamp / "images" / camera).iterdir():
            path.unlink()
        seconds = np.arange(STEPS) / IMAGE_RATE
        names = [f"{round((START + second) * 1e9)}.png" for second in seconds]
        write_images(by_stamp / "images" / camera, names)
    opened = open_workspace(str(root / "w"), Settings())
    ingest_paths(opened.stores, [str(root / "by_index"), str(root / "by_stamp")], quiet=True)
    yield opened
    opened.close()


def _open(page: Page, address: str, workspace: Workspace, pairing: str) -> None:
    (episode,) = workspace.stores.tables.episodes.read(f"frame_pairing = '{pairing}'")
    assert episode.clock_shift_seconds > 0.1
    page.goto(f"{address}/episode?episode={episode.episode_id}")
    page.locator(".player .camera video").first.wait_for()
    page.keyboard.press("Home")


def _shown(page: Page, step: int, frame: int) -> dict[str, Any]:
    """What the player shows once its video has the frame of a step, or after two minutes."""
    deadline = time.monotonic() + 120
    while True:
        read: dict[str, Any] = page.locator(".player").evaluate(READ)
        if read["ready"] and (match := _READOUT.fullmatch(read["readout"])):
            seconds, _, number, steps = map(float, match.groups())
            shown = {
                **read,
                "seconds": seconds,
                "step": number - 1,
                "steps": steps,
                "frame": round(read["grey"] / 20),
            }
            if (shown["step"], shown["frame"]) == (step, frame) or time.monotonic() > deadline:
                return shown
        assert time.monotonic() < deadline + 240, read
        time.sleep(0.02)


def _cursor_second(shown: dict[str, Any]) -> float:
    share = (shown["cursor"] - LEFT) / (shown["width"] - LEFT - RIGHT)
    return float(share * (STAMPS[-1] + 0.1))


@pytest.mark.parametrize("pairing", some_by_day(["stamp", "index"], 2))
def test_each_step_shows_its_second_its_values_and_its_frame(
    page: Page, address: str, workspace: Workspace, pairing: str
) -> None:
    _open(page, address, workspace, pairing)
    for step, second in enumerate(STAMPS):
        frame = step if pairing == "index" else min(STEPS - 1, int(second * IMAGE_RATE + 1e-6))
        shown = _shown(page, step, frame)
        assert (shown["step"], shown["value"], shown["frame"], shown["steps"]) == (step, step, frame, STEPS)
        assert shown["seconds"] == pytest.approx(second, abs=0.006)
        assert _cursor_second(shown) == pytest.approx(second, abs=0.01)
        page.keyboard.press(".")
