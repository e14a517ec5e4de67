"""Benchmark 22: what a person waits for on the page, in Chromium: one alone, two at once, and while an ingest runs.

    python -m benchmarks.page 1000000 [--workspace FOLDER] [--rounds 7]
    python -m benchmarks.page 1000000 --only review [--labels 60]
    python -m benchmarks.page 1000000 --beside 10000 [--rounds 3]

The second is a review queue of 100,000 items, or of all episodes where there are fewer: a person labels by keyboard and
reloads the page in the middle, then two do so at once; from the key to the next question. The third is one person at
both sizes by turns, with the ratio of the medians.

A trace of Chromium says how long the longest task of the main thread is while an episode plays: over 50 ms is seen.

The episodes are synthetic. Their videos are those of the demo, two cameras each, so that every card has pixels. A
folder that is given is kept, and used again where it exists.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import ares
from ares.episode import Camera, Episode, Record, Signal, Trajectory
from ares.store import applied_sequence, skip_applied
from ares.workspace import Workspace
from ares_app.demo import DEMO_FOLDER
from ares_ingest.pipeline import CHECKER, make_findings_annotation
from benchmarks.synthetic_episodes import set_annotator_columns, synthetic_episode
from benchmarks.synthetic_lerobot import write_lerobot_dataset
from tests.app.dashboard.browser import QUIET, open_tab, serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_BATCH_SIZE = 50_000
_RATE_HZ = 20.0
_CREATED = "2026-11-24T00:00:00+00:00"
# Episodes up to this key have a step for each frame: the pages that are opened show them.
_LAST_KEY_WITH_STEPS = "101"
# The ingest adds so many episodes every two seconds or so.
_INGESTED, _INGEST_PAUSE_SECONDS = 1_000, 1.0
# Elements that match a selector, also those of the components.
_ALL = """const all = (root, css) => [...root.querySelectorAll("*")].flatMap((node) => [
  ...(node.matches(css) ? [node] : []), ...(node.shadowRoot ? all(node.shadowRoot, css) : [])]);"""
_IS_SHOWN = f"css => {{ {_ALL} return all(document, css).length > 0; }}"
# Every camera shows a frame at the start of the episode, and its picture is not the poster.
_ALL_FRAMES_SHOWN = f"""() => {{ {_ALL}
  const videos = all(document, ".camera video");
  return videos.length === 2 && videos.every((video) => video.readyState >= 2 && !video.seeking);
}}"""
# Milliseconds from a key to the next question with a frame of its first camera.
_KEY_TO_NEXT = f"""key => new Promise(done => {{ {_ALL}
  const shown = all(document, ".review")[0], start = performance.now();
  document.body.dispatchEvent(new KeyboardEvent("keydown", {{ key, bubbles: true }}));
  const look = () => {{
    const next = all(document, ".review:not(.said)")[0], video = next && all(next, "video")[0];
    if (next && next !== shown && video && video.readyState >= 2) done(performance.now() - start);
    else setTimeout(look, 4);
  }};
  look();
}})"""
_MOST_ITEMS = 100_000
# An episode of the demo has at least so much to play, with the half second before.
_PLAYED_SECONDS = 2.0
# A locator would look again only after 0.5 s when it has waited for 0.3 s.
_POLL_MS = 10
_TURNS = 3
Waits = dict[str, list[float]]


def main() -> None:
    """Write a workspace of the size in the arguments where there is none, measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("episodes", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--workspace", type=Path, help="folder of the workspace, which is kept")
    parser.add_argument("--only", choices=["alone", "two", "ingest", "review"], help="one of the settings")
    parser.add_argument("--labels", type=int, default=60, help="labels of a person in the review queue")
    parser.add_argument("--rounds", type=int, choices=range(1, 8), default=7, help="times of each work")
    parser.add_argument("--beside", type=int, metavar="EPISODES", help="compare with a workspace of so many")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = _write_where_absent(args.workspace or Path(temporary) / "workspace", args.episodes)
        if args.beside:
            smaller = _write_where_absent(Path(f"{folder}-{args.beside}"), args.beside)
            _print_ratios({args.beside: smaller, args.episodes: folder}, args.rounds)
            return
        print("| setting | what a person waits for | median | slowest |\n|---|---|---|---|")
        measures: list[tuple[str, str, Callable[[], Waits]]] = [
            ("alone", f"one person, {args.episodes:,} episodes", lambda: measure_page(folder, args.rounds)),
            ("two", "two people at once", lambda: measure_page(folder, args.rounds, people=2)),
            ("ingest", "an ingest runs", lambda: _measure_with_ingest(folder, args.rounds)),
            ("review", f"review, {args.episodes:,} episodes", lambda: measure_review(folder, args.labels)),
        ]
        for name, setting, measure in measures:
            if args.only not in (None, name):
                continue
            for work, seconds in measure().items():
                numbers = f"{statistics.median(seconds):.3f} s | {max(seconds):.3f} s"
                print(f"| {setting} | {work} | {numbers} |", flush=True)


def _write_where_absent(folder: Path, size: int) -> Path:
    if not folder.exists():
        with ares.open(folder, create=True) as workspace:
            add_episodes_with_pixels(workspace, size)
    return folder


def _print_ratios(folders: dict[int, Path], rounds: int) -> None:
    """Measure one person at two sizes by turns, so that what else the machine does meets both."""
    waits: dict[int, Waits] = {size: {} for size in folders}
    for _ in range(_TURNS):
        for size, folder in folders.items():
            for work, seconds in measure_page(folder, rounds, is_traced=False).items():
                waits[size].setdefault(work, []).extend(seconds)
    small, large = waits.values()
    print(
        f"| what a person waits for | {' | '.join(f'{size:,}' for size in folders)} | ratio |\n|---|---|---|---|"
    )
    for work in small:
        before, after = statistics.median(small[work]), statistics.median(large[work])
        print(f"| {work} | {before:.3f} s | {after:.3f} s | {after / before:.2f} |", flush=True)


def add_episodes_with_pixels(ws: Workspace, size: int) -> None:
    """Add synthetic episodes with the videos of the demo, and the columns that annotators would fill."""
    cameras = _demo_cameras()
    records = (
        _with_pixels(synthetic_episode(number, Random(number)), cameras, number) for number in range(size)
    )
    first = applied_sequence(ws.stores.tables)
    ws.stores.annotations.add_producer(CHECKER)
    while batch := list(islice(records, _BATCH_SIZE)):
        ws.stores.tables.episodes.add(batch)
        # Else the next ingest would check them all.
        checks = [make_findings_annotation(record.episode, (), _CREATED) for record in batch]
        last = ws.stores.annotations.append(checks)
        skip_applied(ws.stores.tables, first, last, CHECKER.maker_id)
        first = last
    set_annotator_columns(ws)


def measure_page(folder: Path, rounds: int, people: int = 1, is_traced: bool = True) -> Waits:
    """Seconds of each round of some people at once, by what they wait for; the first one has opened the page before."""
    with (
        ares.open(folder) as workspace,
        serve(workspace) as address,
        ProcessPoolExecutor(people, get_context("spawn")) as pool,
    ):
        measured = list(
            pool.map(partial(_measure_person, rounds=rounds, is_traced=is_traced), [address] * people)
        )
    return {work: [second for waits in measured for second in waits[work]] for work in measured[0]}


def measure_review(folder: Path, labels: int) -> Waits:
    """Seconds from the key to the next question of one person, and of two at once; prints keys and processor time."""
    from ares.review import QueueRequest

    with ares.open(folder) as workspace:
        size = min(_MOST_ITEMS, len(workspace.episodes))
        name, labels = f"keys-{len(workspace.review.queues())}", min(labels, size // 3)
        workspace.review.create(QueueRequest(name=name, question="success", person="Ada", random_items=size))
        waits: Waits = {}
        for people in (("Ada",), ("Ben", "Cleo")):
            with serve(workspace) as address, ProcessPoolExecutor(len(people), get_context("spawn")) as pool:
                addresses = [f"{address}/review?queue={name}&person={person}" for person in people]
                before = _server_seconds()
                measured = list(pool.map(partial(_label_items, labels=labels), addresses))
                used = (_server_seconds() - before) / (labels * len(people))
            own = sum(len(list(workspace.review.answers(queue=name, person=person))) for person in people)
            keys = sum(len(seconds) for seconds in measured)
            print(f"{len(people)} people: {own} labels, {keys} keys, {used:.3f} s of processors a label")
            waits[f"key to the next question, {len(people)} at once"] = list(chain(*measured))
        seats = {(row.answer.item, row.answer.person) for row in workspace.review.answers(queue=name)}
        print(f"{len(seats)} seats of {name}, each answered by one person")
    return waits


def _server_seconds() -> float:
    """Processor seconds of the servers that this process has started and that still run; Linux alone tells them."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            is_own = int(fields[1]) == os.getpid()
            if is_own and b"make_served_pages" in (stat.parent / "cmdline").read_bytes():
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _label_items(address: str, labels: int) -> list[float]:
    """Answer by keyboard alone, with a reload, an undo and its answer in the middle; seconds of each key."""
    with open_browser() as browser, open_tab(browser, address.partition("/review")[0]) as tab:
        tab.set_default_timeout(120_000)
        _open_review(tab, address)
        first = [_press(tab, "yn?"[number % 3]) for number in range(labels // 2)]
        _open_review(tab, address)
        again = [_press(tab, "u"), _press(tab, "y")]
        return [*first, *again, *(_press(tab, "yn?"[number % 3]) for number in range(labels - labels // 2))]


def _open_review(tab: Page, address: str) -> None:
    tab.goto(address)
    tab.locator(".review .progress").wait_for()
    time.sleep(1.0)


def _press(tab: Page, key: str) -> float:
    """Seconds from a key to the next question, as the page measures them: its first camera shows a frame."""
    seconds = tab.evaluate(_KEY_TO_NEXT, key) / 1_000
    time.sleep(0.5)
    return float(seconds)


def _measure_with_ingest(folder: Path, rounds: int) -> Waits:
    """Measure on a copy of the workspace, to which a command adds episodes again and again."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        copy = Path(temporary) / "copy"
        shutil.copytree(folder, copy, copy_function=_link_table_file)
        with _running_ingest(copy, Path(temporary)):
            return measure_page(copy, rounds)


def _link_table_file(source: str, target: str) -> None:
    """Copy a file, or link it where it is one of a table: those are never written again."""
    if ".lance/" in source:
        os.link(source, target)
    else:
        shutil.copy2(source, target)


@contextmanager
def _running_ingest(folder: Path, temporary: Path) -> Iterator[None]:
    """Run `ares ingest` on one dataset after another, each in a separate process as a person would."""
    is_over = threading.Event()

    def ingest() -> None:
        number = 0
        while not is_over.wait(_INGEST_PAUSE_SECONDS):
            number += 1
            dataset = write_lerobot_dataset(temporary / f"more_{number}", _INGESTED)
            command = [sys.executable, "-m", "ares", "ingest", str(dataset), "-w", str(folder), "-q"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    thread = threading.Thread(target=ingest)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _measure_person(address: str, rounds: int, is_traced: bool) -> Waits:
    """What one person waits for, in a separate browser."""
    waits: Waits = {}
    with open_browser() as browser, open_tab(browser, address) as tab:
        tab.set_default_timeout(120_000)
        _open_browse(tab, address)
        opened = [_open_card(tab, number) for number in range(rounds)]
        waits["click on a card to the player"] = [painted for painted, _ in opened]
        waits["click on a card to the first frame of both cameras"] = [shown for _, shown in opened]
        waits["next episode to the first frame of both cameras"] = [_next_episode(tab) for _ in range(rounds)]
        if is_traced:
            waits["longest task of the main thread while an episode plays"] = [
                _find_longest_task(browser, tab) for _ in range(rounds)
            ]
        _open_browse(tab, address)
        waits["a value of a facet to its cards"] = [_filter(tab, number) for number in range(rounds)]
        _open_browse(tab, address)
        waits["words of a search to their cards"] = [_search(tab, number) for number in range(rounds)]
        _open_browse(tab, address)
        waits["words of the filter to their count"] = [_filter_words(tab, number) for number in range(rounds)]
    return waits


@contextmanager
def open_browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("ARES_TEST_CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=QUIET)
        yield browser
        browser.close()


def _open_browse(tab: Page, address: str) -> None:
    tab.goto(address)
    tab.locator(".card").nth(23).wait_for()
    time.sleep(1.0)


def _wait_for(tab: Page, css: str) -> None:
    """Wait until an element is on the page."""
    tab.wait_for_function(_IS_SHOWN, arg=css, polling=_POLL_MS)


def _open_card(tab: Page, number: int) -> tuple[float, float]:
    """Seconds from the click to the player, and to the first frame of both cameras."""
    card = tab.locator(".card").nth(number)
    card.wait_for()
    start = time.perf_counter()
    card.click()
    _wait_for(tab, ".player")
    painted = time.perf_counter() - start
    tab.wait_for_function(_ALL_FRAMES_SHOWN, polling=_POLL_MS)
    shown = time.perf_counter() - start
    time.sleep(1.0)
    tab.get_by_role("button", name="Results").click()
    tab.locator(".card").nth(23).wait_for()
    time.sleep(1.0)
    return painted, shown


def _next_episode(tab: Page) -> float:
    if "/episode?" not in tab.url:
        tab.locator(".card").first.click()
        tab.wait_for_function(_ALL_FRAMES_SHOWN, polling=_POLL_MS)
    time.sleep(1.0)
    before = tab.url
    button = tab.get_by_role("button", name="Next")
    start = time.perf_counter()
    button.click()
    tab.wait_for_function("before => location.href !== before", arg=before, polling=_POLL_MS)
    tab.wait_for_function(_ALL_FRAMES_SHOWN, polling=_POLL_MS)
    return time.perf_counter() - start


def _find_longest_task(browser: Browser, tab: Page) -> float:
    """Seconds of the longest task of the main thread while the episode of the page plays, by a trace."""
    tab.locator(".timeline").first.press("Home")
    time.sleep(1.0)
    tab.locator(".play").click()
    tab.locator(".play[aria-label=Pause]").wait_for()
    time.sleep(0.5)
    browser.start_tracing(page=tab, categories=["toplevel", "disabled-by-default-devtools.timeline"])
    time.sleep(_PLAYED_SECONDS)
    events = json.loads(browser.stop_tracing())["traceEvents"]
    if tab.locator(".play[aria-label=Pause]").count():  # it may have come to its end
        tab.locator(".play").click()
    mains = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks = [
        event["dur"]
        for event in events
        if event["name"].endswith("RunTask") and (event["pid"], event["tid"]) in mains and "dur" in event
    ]
    return float(max(tasks)) / 1e6


def _filter(tab: Page, number: int) -> float:
    tab.get_by_role("button", name="Dataset", exact=True).click()
    value = tab.get_by_role("button").filter(has_text=" · ").nth(number)
    name = value.inner_text().rpartition(" · ")[0]
    start = time.perf_counter()
    value.click()
    _wait_for(tab, f".card[href*='{name}']")
    seconds = time.perf_counter() - start
    time.sleep(1.0)
    value.click()
    tab.locator(".card:not([href*='f.dataset'])").first.wait_for()
    tab.keyboard.press("Escape")
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
    _wait_for(tab, f".card[href*='{text.replace(' ', '+')}']")
    seconds = time.perf_counter() - start
    time.sleep(1.0)
    return seconds


def _filter_words(tab: Page, number: int) -> float:
    text = ["drawer", "door", "mug", "pot", "lever", "button", "faucet"][number]
    box = tab.get_by_placeholder("Search by meaning")
    box.fill(f'"{text}"')
    start = time.perf_counter()
    box.press("Enter")
    _wait_for(tab, f".card[href*='words={text}']")
    seconds = time.perf_counter() - start
    time.sleep(1.0)
    return seconds


def _with_pixels(episode: Episode, cameras: list[tuple[Camera, ...]], number: int) -> Record:
    import numpy as np

    pair = cameras[number % len(cameras)]
    steps = pair[0].media.num_frames
    times = np.arange(steps if str(number) < _LAST_KEY_WITH_STEPS else 1) / _RATE_HZ
    values = np.sin(times[:, None] * np.arange(1, 8)).astype(np.float32)
    signal = Signal(values=values, names=tuple(f"joint_{joint}" for joint in range(7)))
    episode = replace(episode, cameras=pair, num_steps=len(times), rate_hz=_RATE_HZ)
    return Record(episode=episode, trajectory=Trajectory(timestamps=times, state=signal, action=signal))


def _demo_cameras() -> list[tuple[Camera, ...]]:
    """The cameras of the episodes of the demo, which are ingested into a separate workspace."""
    with tempfile.TemporaryDirectory() as folder:
        demo = ares.open(f"{folder}/workspace", create=True)
        demo.ingest(DEMO_FOLDER / "samples" / "video", quiet=True)
        cameras = [tuple(episode.cameras) for episode in demo.stores.tables.episodes.read("", limit=100)]
        demo.close()
        return cameras


if __name__ == "__main__":
    main()
