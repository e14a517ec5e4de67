"""The map, the sets, a humanoid, and other people and jobs at the same time, in a real browser."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from playwright.sync_api import expect

from app.server import list_jobs
from ares.curation import undo
from ares.episode import Record, Signal, Trajectory, make_episode_id
from ares.review import Answer
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.app.dashboard.browser import AXE, VIOLATIONS, choose, open_tab, serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_VIDEOS = 8
_MIDDLE = ((0.42, 0), (0.53, 0), (0.53, 1), (0.42, 1))
_JOINTS = ("kLeftShoulderPitch", "kLeftShoulderRoll", "kLeftElbow", "kRightShoulderPitch", "kRightElbow")


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[Workspace]:
    """Eight episodes on a map, four of them in its middle, and one of a humanoid."""
    opened = open_workspace(str(tmp_path_factory.mktemp("several") / "w"), Settings())
    opened.ingest(demo_samples / "video", limit=_VIDEOS, quiet=True)
    _put_on_map(opened)
    _add_humanoid(opened)
    yield opened
    opened.close()


def _put_on_map(opened: Workspace) -> None:
    """Places that no fact of the log holds: an episode that is brought back has lost its own."""
    import pyarrow as pa

    ids = sorted(opened.stores.tables.episodes.ids("dataset = 'video'"))[:_VIDEOS]
    x = [0.0, 0.0, 4.0, 4.0, 4.0, 4.0, 9.0, 9.0]
    y = [float(number) for number in range(_VIDEOS)]
    opened.stores.tables.episodes.set_values(pa.table({"episode_id": ids, "map_x": x, "map_y": y}))


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


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with open_tab(browser, address) as tab:
        yield tab


def _tagged(workspace: Workspace, tag: str) -> set[str]:
    return workspace.stores.tables.episodes.ids(f"array_has(tags, '{tag}')")


def _add_tag(page: Page, tag: str) -> None:
    page.get_by_role("button", name="Tags").click()
    page.get_by_label("New tag").fill(tag)
    page.get_by_role("button", name="Add the tag").click()
    page.get_by_text(f"Tag {tag} added to").wait_for()
    page.keyboard.press("Escape")


@pytest.mark.nightly
def test_a_lasso_on_the_map_is_tagged_and_opened_in_browse(
    page: Page, address: str, several: Workspace
) -> None:
    middle = several.stores.tables.episodes.ids("map_x = 4")
    page.goto(f"{address}/map")
    canvas = page.locator("canvas[data-points]")
    canvas.wait_for()
    box = canvas.bounding_box()
    assert box is not None
    # Around the middle of the map, whose points lie between 0 and 9.
    corners = [(box["x"] + box["width"] * x, box["y"] + 5 + (box["height"] - 10) * y) for x, y in _MIDDLE]
    page.mouse.move(*corners[0])
    page.mouse.down()
    for corner in corners[1:]:
        page.mouse.move(*corner, steps=5)
    page.mouse.up()
    page.get_by_role("button", name=f"Open these {len(middle)} in Browse").wait_for()
    page.get_by_role("button", name=f"Select all {len(middle)}").click()
    _add_tag(page, "middle")
    assert _tagged(several, "middle") == middle
    page.get_by_role("button", name=f"Open these {len(middle)} in Browse").click()
    expect(page.locator(".card")).to_have_count(len(middle))
    shown = page.locator(".card").evaluate_all("cards => cards.map(card => card.dataset.episode)")
    assert set(shown) == middle


@pytest.mark.nightly
def test_a_tag_is_a_filter_with_its_count(page: Page, address: str, several: Workspace) -> None:
    # Drawn once before, so that the columns of then are kept: the first tag is a new column.
    page.goto(address)
    page.locator(".card").first.wait_for()
    several.tag("odd", where="map_y IN (1, 3, 5)")
    page.goto(address)
    facet = page.locator("details[data-column=tags]")
    facet.locator("summary").click()
    value = facet.locator("button.value", has_text="odd")
    assert value.locator(".count").inner_text() == "3"
    value.click()
    page.get_by_text(f"3 of {_VIDEOS + 1} episodes").wait_for()
    expect(page.locator(".card")).to_have_count(3)


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
        _put_on_map(several)


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


def test_sets_are_compared_and_a_set_that_is_not_there_shows_no_other(
    page: Page, address: str, several: Workspace
) -> None:
    several.sets.create("upper", where="map_y > 2")
    several.sets.create("lower", where="map_y < 5")
    page.goto(f"{address}/sets?set=nope")
    page.get_by_text("there is no set 'nope'").wait_for()
    assert page.locator(".card").count() == 0
    page.goto(f"{address}/sets?set=upper")
    page.get_by_role("heading", name="upper@1").wait_for()
    choose(page, "Compare with", "lower@1")
    page.get_by_text("2 episodes in both, 3 only in upper@1, 3 only in lower@1").wait_for()


@pytest.mark.nightly
def test_a_set_is_split_on_its_page_with_what_is_known_of_copies(
    page: Page, address: str, several: Workspace
) -> None:
    several.sets.create("whole", where="dataset = 'video'")
    page.goto(f"{address}/sets?set=whole")
    assert page.get_by_label("Format").input_value() == "lerobot"
    page.get_by_text("Compose from this set").click()
    choose(page, "What is made", "A split that keeps copies together")
    page.get_by_text("ares set split whole@1 --train=0.9 --val=0.1").wait_for()
    page.get_by_role("button", name="Make it").click()
    page.get_by_text(
        re.compile(r"whole-train@1 has \d episodes, whole-val@1 has \d .*; on two sides: copies 0 ")
    ).wait_for()
    if AXE.is_file():
        assert page.evaluate(VIOLATIONS, AXE.read_text()) == []
    parts = [set(several.sets[f"whole-{part}"].ids()) for part in ("train", "val")]
    assert parts[0] | parts[1] == set(several.sets["whole"].ids()) and not parts[0] & parts[1]


@pytest.mark.nightly
def test_an_export_is_stopped_and_another_result_keeps_its_own_folder(
    page: Page, address: str, several: Workspace, browser: Browser
) -> None:
    label = several.sets.create("written", where="dataset = 'video'").label
    page.goto(f"{address}/sets?set=written")
    choose(page, "Format", "parquet")
    # The box of the name is made again for the format: what was typed before would be lost.
    page.get_by_text("exports/written-v1-parquet").wait_for()
    name = page.get_by_role("textbox", name="Name of the new folder")
    _export_as(page, "first")
    page.get_by_text(re.compile("Exported to .*first")).wait_for()
    _export_as(page, "second")
    pid = _suspend_newest(several, label)
    page.get_by_role("button", name="Stop").click()
    os.kill(pid, signal.SIGCONT)
    page.get_by_text(re.compile("^stopped by ")).wait_for()
    # A result stays with its folder when another one is named.
    name.fill("third")
    name.press("Enter")
    page.get_by_text("exports/third").wait_for()
    assert page.get_by_text(re.compile("Exported to .*third")).count() == 0
    with serve(several) as other_address, open_tab(browser, other_address) as other:
        other.goto(f"{other_address}/sets?set=written")
        other.get_by_text(re.compile("Exported to .*first")).wait_for()
        other.get_by_text(re.compile("^stopped by ")).wait_for()


def _export_as(page: Page, folder: str) -> None:
    name = page.get_by_role("textbox", name="Name of the new folder")
    name.fill(folder)
    name.press("Enter")
    page.get_by_text(f"exports/{folder}").wait_for()
    page.get_by_role("button", name="Export", exact=True).click()


def _suspend_newest(workspace: Workspace, label: str) -> int:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        jobs = list_jobs(workspace.stores, "export", label)
        if "second" in jobs[0].name and jobs[0].pid:
            os.kill(jobs[0].pid, signal.SIGSTOP)
            return jobs[0].pid
        time.sleep(0.005)
    pytest.fail("the export does not start")


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


@pytest.mark.nightly
def test_failures_of_one_task_are_two_clicks_away_and_the_filters_of_browse_hold(
    page: Page, address: str, several: Workspace
) -> None:
    ids = sorted(several.stores.tables.episodes.ids("dataset = 'video'"))
    task = several.episodes[ids[0]].instruction
    alike = several.episodes.where("instruction = '" + task.replace("'", "''") + "'")
    for episode_id in alike.ids():
        several.review.give(
            Answer(
                question="success",
                subject_id=episode_id,
                subject_kind="episode",
                verdict="failure",
                person="Ada",
            )
        )
    page.goto(f"{address}/?where=num_steps%20%3E%201")
    page.get_by_text(f"of {len(several.episodes)} episodes").wait_for()
    page.get_by_role("link", name="Statistics").click()
    row = page.get_by_role("row").filter(has_text=task).first
    row.get_by_role("link", name=f"{len(alike)} failed").last.click()
    page.get_by_text(f"{len(alike)} of {len(several.episodes)} episodes").wait_for()
    expect(page.get_by_role("button", name=f"instruction: {task}")).to_be_visible()
    expect(page.get_by_role("button", name="num_steps > 1")).to_be_visible()
    for stored in several.review.answers(person="Ada"):
        several.review.withdraw(stored.answer_id, "Ada")
