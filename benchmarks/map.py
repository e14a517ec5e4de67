"""Benchmark 25: what a person waits for on the map in Chromium, at two sizes, by turns in one run.

    python -m benchmarks.map [--sizes 10000 1000000] [--rounds 7] [--workspaces FOLDER]

The episodes are synthetic, in forty clusters. A folder that is given is kept, and used again where it exists.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import ares
from ares.workspace import Workspace
from benchmarks.page import open_browser
from benchmarks.synthetic_episodes import add_synthetic_episodes, set_annotator_columns
from tests.app.dashboard.browser import open_tab, serve

if TYPE_CHECKING:
    from playwright.sync_api import Page

_CLUSTERS, _BATCH_SIZE = 40, 100_000
_LASSO = ((0.3, 0.2), (0.6, 0.2), (0.65, 0.6), (0.45, 0.8), (0.3, 0.6))
# The synthetic episodes have no videos, so that the pictures under the pointer are refused.
_NO_PICTURES = "/api/thumb/"
_CANVAS = "canvas[data-paints]"
Waits = dict[str, list[float]]


def main() -> None:
    """Write the workspaces that are missing, measure the same clicks in each by turns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs=2, default=[10_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--workspaces", type=Path, help="folder of the two workspaces, which is kept")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folders = [(args.workspaces or Path(temporary)) / str(size) for size in args.sizes]
        for folder, size in zip(folders, args.sizes, strict=True):
            if not folder.exists():
                with ares.open(folder, create=True) as workspace:
                    add_mapped_episodes(workspace, size)
        small, large = measure_maps(folders, args.rounds)
    print(f"load {os.getloadavg()[0]:.1f}\n")
    print(f"| what a person waits for | {args.sizes[0]:,} | {args.sizes[1]:,} | ratio |\n|---|---|---|---|")
    for work, seconds in small.items():
        first, second = statistics.median(seconds), statistics.median(large[work])
        print(f"| {work} | {first:.2f} s | {second:.2f} s | {second / first:.2f} |")


def add_mapped_episodes(workspace: Workspace, size: int) -> None:
    """Add synthetic episodes in clusters on a map, with the columns that annotators would fill."""
    import numpy as np
    import pyarrow as pa

    add_synthetic_episodes(workspace, size)
    set_annotator_columns(workspace)
    table, rng = workspace.stores.tables.episodes, np.random.default_rng(25)
    ids = table.read_columns(["episode_id"])["episode_id"]
    middles, own = rng.uniform(-20, 20, (_CLUSTERS, 2)), rng.integers(0, _CLUSTERS, len(ids))
    x, y = (middles[own] + rng.normal(0, 1.5, (len(ids), 2))).T
    for start in range(0, len(ids), _BATCH_SIZE):
        rows = slice(start, start + _BATCH_SIZE)
        columns = {"episode_id": ids[rows], "map_x": x[rows], "map_y": y[rows]}
        table.set_values(pa.table(columns))
    workspace.stores.tables.optimize()


def measure_maps(folders: list[Path], rounds: int) -> list[Waits]:
    """Seconds of each round of the same clicks by what a person waits for, for each workspace."""
    waits: list[Waits] = [{} for _ in folders]
    with ExitStack() as stack:
        browser = stack.enter_context(open_browser())
        tabs = []
        for folder in folders:
            address = stack.enter_context(serve(stack.enter_context(ares.open(folder))))
            tabs.append((stack.enter_context(open_tab(browser, address, refused=_NO_PICTURES)), address))
        for number in range(rounds + 1):
            for (tab, address), own in zip(tabs, waits, strict=True):
                for work, seconds in _measure_round(tab, address, number).items():
                    # The first round reads the columns that are kept until the episodes change.
                    own.setdefault(f"{work}, first time" if not number else work, []).append(seconds)
    return waits


def _measure_round(tab: Page, address: str, number: int) -> dict[str, float]:
    seconds = {"open the map": _timed(lambda: _open_map(tab, address))}
    seconds["lasso to its episodes"] = _timed(lambda: _draw_lasso(tab), after_drawing=True)
    tab.get_by_role("button", name="Remove the region").click()
    tab.get_by_role("button", name="Remove the region").wait_for(state="detached")
    time.sleep(0.5)
    seconds["zoom to the next picture"] = _zoom(tab)
    time.sleep(1.0)
    seconds["another colour"] = _change_colour(tab, number)
    return seconds


def _timed(work: Callable[[], float | None], after_drawing: bool = False) -> float:
    """Seconds of a work, or those that it says itself."""
    start = time.perf_counter()
    said = work()
    return said if after_drawing and said is not None else time.perf_counter() - start


def _open_map(tab: Page, address: str) -> None:
    tab.goto(f"{address}/map")
    tab.locator(_CANVAS).wait_for()


def _draw_lasso(tab: Page) -> float:
    """Seconds from the end of the lasso to the button that opens its episodes."""
    time.sleep(0.5)
    box = tab.locator(_CANVAS).bounding_box()
    assert box is not None
    corners = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in _LASSO]
    tab.mouse.move(*corners[0])
    tab.mouse.down()
    for corner in corners[1:]:
        tab.mouse.move(*corner, steps=10)
    start = time.perf_counter()
    tab.mouse.up()
    tab.get_by_role("button", name="in Browse").first.wait_for()
    return time.perf_counter() - start


def _zoom(tab: Page) -> float:
    before = tab.locator(_CANVAS).get_attribute("data-paints")
    start = time.perf_counter()
    tab.get_by_role("button", name="Zoom in").click()
    tab.locator(f'{_CANVAS}:not([data-paints="{before}"])').wait_for()
    return time.perf_counter() - start


def _change_colour(tab: Page, number: int) -> float:
    name = ("grade", "robot")[number % 2]
    tab.get_by_label("Colour").click()
    option = tab.get_by_role("option", name=name, exact=True)
    option.wait_for()
    start = time.perf_counter()
    option.click()
    tab.locator(".legend p", has_text=name).wait_for()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
