"""The jobs of a lab in a real browser: none takes more clicks and keys than `jobs_of_a_lab.md` says."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from ares.review import QueueRequest
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.app.dashboard.browser import open_tab, serve, wait_until_drawn
from tests.ingesting import copy_open_workspace

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.slow
_ROW = re.compile(r"^\| (?P<job>[^|]+?)(?: \([^|)]*\))? \| [^|]+ \| (?P<most>\d+) \|", re.MULTILINE)
_LIST = Path(__file__).with_name("jobs_of_a_lab.md").read_text()
_MOST = {row["job"]: int(row["most"]) for row in _ROW.finditer(_LIST)}
_ITEMS = 10


class Lab:
    """A tab of a workspace, and the hands of a person: each click, key and typed text counts one."""

    def __init__(self, page: Page, address: str, workspace: Workspace) -> None:
        self.page, self.address, self.workspace = page, address, workspace
        self.count, self.began = 0, 0.0

    def begin(self) -> None:
        self.began = self.began or time.monotonic()
        self.count += 1

    def click(self, what: Locator) -> None:
        what.wait_for()
        wait_until_drawn(self.page)
        self.begin()
        what.click()

    def press(self, key: str) -> None:
        self.begin()
        self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        """Type a text where the keyboard is."""
        self.begin()
        self.page.keyboard.type(text)

    def fill(self, field: str, text: str) -> None:
        """Click into a field, and type a text."""
        self.click(self.page.get_by_role("textbox", name=field))
        self.type(text)

    def button(self, name: str | re.Pattern[str], exact: bool = True) -> Locator:
        return self.page.get_by_role("button", name=name, exact=exact)

    def open_page(self, name: str) -> None:
        self.click(self.page.get_by_role("link", name=name, exact=True))

    def find(self, name: str) -> None:
        """Open the first thing of a name."""
        self.press("Control+k")
        self.page.get_by_role("combobox", name="Find by name").wait_for()
        self.type(name)
        self.page.get_by_role("option").first.wait_for()
        self.press("Enter")

    def tick(self, number: int = 0) -> None:
        self.click(self.page.locator(".tick").nth(number))
        self.page.get_by_text(f"{number + 1} selected").wait_for()

    def open_first(self) -> None:
        self.click(self.page.locator(".card .title").first)
        self.page.locator(".player .camera video").first.wait_for()

    def wait_until_it_plays(self) -> None:
        video = self.page.locator(".camera:not(.collapsed) video").first
        expect(video).not_to_have_js_property("currentTime", 0)

    def ids(self, where: str) -> list[str]:
        """The ids of the episodes that fulfil a filter now."""
        self.workspace.stores.catch_up()
        return sorted(self.workspace.stores.tables.episodes.ids(where))

    def wait_for(self, where: str, number: int) -> None:
        """Wait until so many episodes fulfil a filter."""
        deadline = time.monotonic() + 120
        while len(self.ids(where)) != number:
            assert time.monotonic() < deadline, where
            time.sleep(0.05)

    def browse(self, query: str = "") -> None:
        """Open Browse, before the job begins."""
        self.page.goto(f"{self.address}/{query}")
        self.page.locator(".card").first.wait_for()
        wait_until_drawn(self.page)

    def watch(self, episode_id: str) -> None:
        """Open an episode, before the job begins."""
        self.page.goto(f"{self.address}/episode?episode={episode_id}&at=0")
        self.page.locator(".player .camera video").first.wait_for()

    def end(self, job: str) -> None:
        """Hold what was counted against the manual."""
        print(f"{job}: {self.count} clicks and keys, {time.monotonic() - self.began:.1f} s")
        assert self.count <= _MOST[job]


@pytest.fixture(scope="module")
def workspace(workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """A copy with a queue and a set."""
    folder = tmp_path_factory.mktemp("lab") / "w"
    copy_open_workspace(workspace, folder)
    with open_workspace(str(folder), Settings()) as opened:
        opened.review.create(
            QueueRequest(name="ten", question="acceptable", person="Ada", random_items=_ITEMS)
        )
        opened.sets.create("frozen", where="dataset = 'video'")
        yield opened


@pytest.fixture
def lab(
    browser: Browser, address: str, workspace: Workspace, request: pytest.FixtureRequest
) -> Iterator[Lab]:
    """On Browse without filters; the name of the test is that of the job in the manual."""
    with open_tab(browser, address) as page:
        lab = Lab(page, address, workspace)
        lab.browse()
        yield lab
        lab.end(request.node.name.removeprefix("test_").replace("_", " "))


def test_open_an_episode_by_its_id(lab: Lab) -> None:
    (first, *_) = lab.ids("dataset = 'video'")
    lab.find(first)
    lab.page.locator(f".player[data-episode='{first}']").wait_for()


def test_open_a_dataset_by_its_name(lab: Lab) -> None:
    lab.find("metaworld")
    lab.page.get_by_text(re.compile(r"^12 of \d+ episodes")).wait_for()


def test_find_words_in_captions_and_instructions(lab: Lab) -> None:
    lab.press("/")
    lab.type('"drawer open"')
    lab.press("Enter")
    number = len(lab.ids("lower(instruction) LIKE '%drawer%' AND lower(instruction) LIKE '%open%'"))
    lab.page.get_by_text(re.compile(rf"^{number} of \d+ episodes")).wait_for()


def test_find_episodes_by_their_meaning(lab: Lab) -> None:
    lab.press("/")
    lab.type("drawer")
    lab.press("Enter")
    lab.page.locator(".card[href*='q=drawer']", has_text="pull the green drawer open").first.wait_for()


def test_combine_two_filters(lab: Lab) -> None:
    for column, value in (("Dataset", "metaworld_sawyer"), ("Outcome", "failure")):
        lab.click(lab.button(column))
        lab.click(lab.button(re.compile(f"^{value}")))
    lab.page.get_by_text(re.compile(r"^6 of \d+ episodes")).wait_for()


def test_watch_an_episode(lab: Lab) -> None:
    lab.open_first()
    lab.press("Space")
    lab.wait_until_it_plays()


@pytest.mark.nightly
def test_watch_ten_in_a_row(lab: Lab) -> None:
    lab.watch(str(lab.page.locator(".card").first.get_attribute("data-episode")))
    lab.press("Space")
    lab.wait_until_it_plays()
    for number in range(2, 11):
        before = lab.page.locator(".player").get_attribute("data-episode")
        lab.press("Shift+ArrowRight")
        expect(lab.page.locator(f".player[data-episode='{before}']")).to_have_count(0)
        expect(lab.page.locator(".place")).to_have_text(re.compile(rf"^{number} of \d+$"))
        lab.wait_until_it_plays()


def test_go_to_the_next_gripper_event(lab: Lab) -> None:
    lab.watch(lab.ids("dataset = 'metaworld_sawyer'")[0])
    lab.press("e")
    expect(lab.page.locator(".readout")).not_to_contain_text("step 1 of")


def test_find_episodes_that_move_alike(lab: Lab) -> None:
    lab.click(lab.page.locator(".card .title", has_text="pull the green drawer open").first)
    lab.click(lab.page.get_by_role("radio", name="State", exact=True))
    lab.page.locator(".grid.small .card").first.wait_for()


def test_see_the_hours_of_each_task(lab: Lab) -> None:
    lab.open_page("Quality")
    lab.page.locator(".st-key-quality-groups-table td", has_text="pull the green drawer").wait_for(
        state="attached"
    )
    lab.page.locator(".st-key-quality-groups-table th", has_text="minutes").wait_for(state="attached")


def test_see_the_success_of_each_dataset(lab: Lab) -> None:
    lab.open_page("Quality")
    lab.click(lab.page.get_by_role("combobox", name="Count by"))
    lab.click(lab.page.get_by_role("option", name="dataset", exact=True))
    bars = lab.page.locator(".st-key-quality-outcomes [aria-label*='group: metaworld_sawyer']")
    expect(bars.first).to_have_attribute("aria-label", re.compile("outcome: success"))


def test_see_the_extremes_of_a_number(lab: Lab) -> None:
    lab.open_page("Quality")
    for end in ("Lowest", "Highest"):
        lab.button(re.compile(rf"^{end}: [\d.]+$")).wait_for()


def test_see_the_failures_of_one_task(lab: Lab) -> None:
    lab.open_page("Quality")
    lab.click(lab.page.locator(".st-key-quality-outcomes [aria-label$='outcome: failure']").first)
    lab.page.wait_for_url(re.compile("f.instruction="))
    lab.page.get_by_text(re.compile(r"^\d of \d+ episodes")).wait_for()
    expect(lab.page.locator(".card .badge.good", has_text="success")).to_have_count(0)


def test_compare_two_episodes(lab: Lab) -> None:
    for number in (0, 1):
        lab.tick(number)
    lab.click(lab.button("Compare"))
    lab.page.locator("[data-camera^='B ']").first.wait_for()


def _tag(lab: Lab) -> None:
    lab.tick()
    lab.click(lab.button("Edit tags", exact=False))
    lab.fill("New tag", "blurred")
    lab.click(lab.button("Add the tag"))
    lab.page.get_by_text("Tag blurred added to").wait_for()
    assert len(lab.ids("array_has(tags, 'blurred')")) == 1


def test_tag_episodes(lab: Lab) -> None:
    _tag(lab)
    lab.workspace.undo()


def test_exclude_an_episode(lab: Lab) -> None:
    lab.tick()
    lab.click(lab.button("Exclude", exact=False))
    lab.fill("Why", "black picture")
    lab.click(lab.button("Exclude 1"))
    lab.wait_for("true", 24)
    lab.workspace.undo()
    lab.wait_for("true", 25)


def test_take_back_the_last_action(lab: Lab) -> None:
    _tag(lab)
    lab.press("Escape")
    wait_until_drawn(lab.page)
    lab.count, lab.began = 0, 0.0
    lab.click(lab.button("Undo", exact=False))
    lab.wait_for("array_has(tags, 'blurred')", 0)


@pytest.mark.nightly
def test_freeze_a_set(lab: Lab) -> None:
    lab.click(lab.button(re.compile("Make a set of")))
    lab.fill("Name of the set", "drawers")
    lab.click(lab.button("Make the set"))
    lab.page.wait_for_url("**/sets?set=drawers**")


def test_export_a_set(lab: Lab) -> None:
    lab.open_page("Sets")
    lab.click(lab.button(re.compile("^Export [0-9]")))
    lab.page.get_by_text(re.compile("Exported to")).wait_for()


def test_find_the_moment_of_a_failure(lab: Lab) -> None:
    # Another job may have called an episode of videos a failure.
    failed, *_ = lab.ids("success IS FALSE AND dataset = 'metaworld_sawyer'")
    lab.click(lab.page.locator(f".card[data-episode='{failed}']"))
    lab.page.locator(".moments", has_text="gripper").wait_for()
    lab.press("e")
    expect(lab.page.locator(".moments")).to_contain_text(" s")


def test_caption_an_episode(lab: Lab) -> None:
    (bare, *_) = lab.ids("caption IS NULL")
    lab.watch(bare)
    lab.fill("Caption", "shuts the door")
    lab.press("Enter")
    lab.wait_for("caption = 'shuts the door'", 1)


def test_say_that_an_episode_failed(lab: Lab) -> None:
    lab.open_first()
    lab.click(lab.button("Failure"))
    expect(lab.page.locator(".judge .undo")).to_have_text("Undo: outcome: failure")
    lab.wait_for("person_success IS FALSE", 1)


@pytest.mark.nightly
def test_answer_ten_items_of_a_queue(lab: Lab) -> None:
    lab.page.goto(f"{lab.address}/review?queue=ten&person=Ada")
    lab.page.locator(".review .text").wait_for()
    for number in range(1, _ITEMS + 1):
        lab.press("ync"[number % 3])
        after = f"you: {number} of" if number < _ITEMS else "Nothing is left for you"
        lab.page.get_by_text(after).first.wait_for()


@pytest.mark.nightly
def test_plan_an_annotator(lab: Lab) -> None:
    lab.open_page("Jobs")
    lab.click(lab.page.get_by_role("radiogroup").get_by_text(re.compile("annotate", re.IGNORECASE)))
    lab.click(lab.page.get_by_label("Annotators, in this order"))
    lab.type("motion")
    lab.press("Enter")
    lab.press("Escape")
    lab.click(lab.button(re.compile("Plan$")))
    lab.button("Start it", exact=False).wait_for()
    lab.page.locator("th", has_text="annotator").first.wait_for(state="attached")


def test_compare_two_captioners(browser: Browser, contested: Workspace) -> None:
    with serve(contested) as address, open_tab(browser, address) as page:
        lab = Lab(page, address, contested)
        lab.browse()
        lab.click(page.locator(".card", has_text="producers differ").locator(".title").first)
        lab.click(lab.button("More"))
        lab.click(lab.button("Compare producers"))
        page.wait_for_url("**/compare?a=**")
        lab.end("compare two captioners")
        marked = page.locator(".stMarkdownColoredBackground")
        expect(marked.filter(has_text=re.compile("^open$"))).to_be_visible()
        expect(page.get_by_text("lift").first).to_be_visible()
        expect(page.locator(".player .cameras")).to_have_count(1)


def test_each_job_of_the_list_has_a_test() -> None:
    assert len(_MOST) == 25
    assert [job for job in _MOST if f"test_{job.replace(' ', '_')}" not in globals()] == []
