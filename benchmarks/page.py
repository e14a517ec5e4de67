"""Benchmark 22: a click on a card to the first frame of all cameras, and filter and search to paint, in Chromium.

    python -m benchmarks.page 1000000

The episodes are synthetic. Their videos are those of the demo, two cameras each, so that every card has pixels.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from random import Random
from typing import TYPE_CHECKING

import ares
from app.demo import DEMO_FOLDER
from ares.episode import Camera, Episode, Record, Signal, Trajectory
from ares.workspace import Workspace
from benchmarks.synthetic_episodes import set_annotator_columns, synthetic_episode

if TYPE_CHECKING:
    from playwright.sync_api import Page

_ROUNDS = 7
_BATCH_SIZE = 50_000
_RATE_HZ = 20.0
# Every camera shows a frame at the start of the episode, and its picture is not the poster.
_ALL_FRAMES_SHOWN = """() => {
  const all = (root, tag) => [...root.querySelectorAll("*")].flatMap((node) => [
    ...(node.localName === tag ? [node] : []), ...(node.shadowRoot ? all(node.shadowRoot, tag) : [])]);
  const videos = all(document, "video").filter((video) => video.closest(".camera"));
  return videos.length === 2 && videos.every((video) => video.readyState >= 2 && !video.seeking);
}"""


def main() -> None:
    """Write a workspace of the size in the arguments, measure, and print a table."""
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        workspace = ares.open(f"{folder}/workspace", create=True)
        add_episodes_with_pixels(workspace, size)
        print(f"| {size:,} episodes, {_ROUNDS} rounds | median | slowest |\n|---|---|---|")
        for work, seconds in measure_page(workspace):
            print(f"| {work} | {statistics.median(seconds):.2f} s | {max(seconds):.2f} s |", flush=True)


def add_episodes_with_pixels(ws: Workspace, size: int) -> None:
    """Add synthetic episodes with the videos of the demo, and the columns that annotators would fill."""
    cameras = _demo_cameras()
    records = (
        _with_pixels(synthetic_episode(number, Random(number)), cameras, number) for number in range(size)
    )
    while batch := list(islice(records, _BATCH_SIZE)):
        ws.stores.tables.episodes.add(batch)
    set_annotator_columns(ws)


def measure_page(ws: Workspace) -> Iterator[tuple[str, list[float]]]:
    """Seconds of each round by what a person does."""
    from playwright.sync_api import sync_playwright

    from tests.app.dashboard.browser import QUIET, open_tab, serve

    chromium = shutil.which("chromium") or "/usr/bin/chromium"
    with serve(ws) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=QUIET)
        with open_tab(browser, address) as tab:
            tab.set_default_timeout(120_000)
            tab.goto(address)
            tab.locator(".card").nth(23).wait_for()
            yield (
                "click on a card to the first frame of both cameras",
                [_open_card(tab, n) for n in range(_ROUNDS)],
            )
            yield (
                "next episode to the first frame of both cameras",
                [_next_episode(tab) for _ in range(_ROUNDS)],
            )
            tab.goto(address)
            tab.locator(".card").nth(23).wait_for()
            yield "a value of a facet to its cards", [_filter(tab, n) for n in range(_ROUNDS)]
            tab.goto(address)
            tab.locator(".card").nth(23).wait_for()
            yield "words to their cards", [_search(tab, n) for n in range(_ROUNDS)]
        browser.close()


def _open_card(tab: Page, number: int) -> float:
    card = tab.locator(".card").nth(number)
    card.wait_for()
    start = time.perf_counter()
    card.click()
    tab.wait_for_function(_ALL_FRAMES_SHOWN, polling=10)
    seconds = time.perf_counter() - start
    time.sleep(1.0)
    tab.get_by_role("button", name="Results").click()
    tab.locator(".card").nth(23).wait_for()
    time.sleep(1.0)
    return seconds


def _next_episode(tab: Page) -> float:
    if "/episode?" not in tab.url:
        tab.locator(".card").first.click()
        tab.wait_for_function(_ALL_FRAMES_SHOWN, polling=10)
    time.sleep(1.0)
    before = tab.url
    button = tab.get_by_role("button", name="Next")
    start = time.perf_counter()
    button.click()
    tab.wait_for_function("before => location.href !== before", arg=before, polling=10)
    tab.wait_for_function(_ALL_FRAMES_SHOWN, polling=10)
    return time.perf_counter() - start


def _filter(tab: Page, number: int) -> float:
    value = tab.locator("details[data-column=dataset] button.value").nth(number)
    name = value.locator(".name").inner_text()
    start = time.perf_counter()
    value.click()
    tab.locator(f".card[href*='{name}']").first.wait_for()
    seconds = time.perf_counter() - start
    time.sleep(1.0)
    tab.get_by_role("button", name=f"dataset: {name}").click()
    tab.locator(".card:not([href*='f.dataset'])").first.wait_for()
    time.sleep(1.0)
    return seconds


def _search(tab: Page, number: int) -> float:
    text = ["open drawer", "close door", "push mug", "pull pot", "turn lever", "press button", "turn faucet"][
        number
    ]
    box = tab.get_by_placeholder("Search by meaning")
    box.fill(text)
    start = time.perf_counter()
    box.press("Enter")
    tab.locator(f".card[href*='{text.replace(' ', '+')}']").first.wait_for()
    seconds = time.perf_counter() - start
    time.sleep(1.0)
    return seconds


def _with_pixels(episode: Episode, cameras: list[tuple[Camera, ...]], number: int) -> Record:
    import numpy as np

    pair = cameras[number % len(cameras)]
    steps = pair[0].media.num_frames
    times = np.arange(steps if number < 1_000 else 1) / _RATE_HZ
    values = np.sin(times[:, None] * np.arange(1, 8)).astype(np.float32)
    signal = Signal(values=values, names=tuple(f"joint_{joint}" for joint in range(7)))
    episode = replace(episode, cameras=pair, num_steps=len(times), rate_hz=_RATE_HZ)
    return Record(episode=episode, trajectory=Trajectory(timestamps=times, state=signal, action=signal))


def _demo_cameras() -> list[tuple[Camera, ...]]:
    """The cameras of the episodes of the demo, which are ingested into a workspace of their own."""
    with tempfile.TemporaryDirectory() as folder:
        demo = ares.open(f"{folder}/workspace", create=True)
        demo.ingest(DEMO_FOLDER / "samples" / "video", quiet=True)
        cameras = [tuple(episode.cameras) for episode in demo.stores.tables.episodes.read("", limit=100)]
        demo.close()
        return cameras


if __name__ == "__main__":
    main()
