"""The 24 jobs of a lab in a real browser: none takes more clicks and keys than the manual says."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from ares.review import QueueRequest
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.app.dashboard.browser import open_tab, serve
from tests.ingesting import copy_open_workspace
from tests.thinning import some_by_day

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.slow
_MANUAL = Path(__file__).parents[3] / "docs" / "dashboard-jobs-of-a-lab.md"
_ROW = re.compile(r"^\| (?P<job>[^|]+?)(?: \([^|)]*\))? \| [^|]+ \| (?P<most>\d+) \|", re.MULTILINE)
_MOST = {row["job"]: int(row["most"]) for row in _ROW.finditer(_MANUAL.read_text())}
_ITEMS = 10
_CAPTIONERS = "compare two captioners"


class Lab:
    """A tab of a workspace, and the hands of a person: each click, key and typed text counts one.

    Args:
        page: The tab.
        address: The address of the dashboard.
        workspace: What the tab shows.
    """

    def __init__(self, page: Page, address: str, workspace: Workspace) -> None:
        self.page, self.address, self.workspace = page, address, workspace
        self.count, self.began = 0, 0.0

    def _begin(self) -> None:
        self.began = self.began or time.monotonic()
        self.count += 1

    def click(self, what: Locator) -> None:
        what.wait_for()
        self._begin()
        what.click()

    def press(self, key: str) -> None:
        self._begin()
        self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        """Type a text where the keyboard is."""
        self._begin()
        self.page.keyboard.type(text)

    def fill(self, field: str, text: str) -> None:
        """Click into a field, and type a text."""
        self.click(self.page.get_by_role("textbox", name=field))
        self.type(text)

    def button(self, name: str | re.Pattern[str], exact: bool = True) -> Locator:
        return self.page.get_by_role("button", name=name, exact=exact)

    def open_page(self, name: str) -> None:
        self.click(self.page.get_by_role("link", name=name, exact=True))

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
        self.page.locator("details[data-column=dataset] .value").first.wait_for(state="attached")

    def watch(self, episode_id: str) -> None:
        """Open an episode, before the job begins."""
        self.page.goto(f"{self.address}/episode?episode={episode_id}&at=0")
        self.page.locator(".player .camera video").first.wait_for()


@pytest.fixture(scope="module")
def lab_workspace(workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    folder = tmp_path_factory.mktemp("lab") / "w"
    copy_open_workspace(workspace, folder)
    with open_workspace(str(folder), Settings()) as opened:
        opened.review.create(
            QueueRequest(name="ten", question="acceptable", person="Ada", random_items=_ITEMS)
        )
        opened.sets.create("frozen", where="dataset = 'video'")
        yield opened


@pytest.fixture(scope="module")
def lab_address(lab_workspace: Workspace) -> Iterator[str]:
    with serve(lab_workspace) as address:
        yield address


@pytest.fixture
def lab(browser: Browser, lab_address: str, lab_workspace: Workspace) -> Iterator[Lab]:
    with open_tab(browser, lab_address) as page:
        yield Lab(page, lab_address, lab_workspace)
    lab_workspace.stores.catch_up()
    if tagged := [episode.episode_id for episode in lab_workspace.episodes.where("tagged('blurred')")]:
        lab_workspace.untag("blurred", tagged)


def _find(lab: Lab, name: str) -> None:
    lab.press("Control+k")
    lab.page.get_by_role("combobox", name="Find by name").wait_for()
    lab.type(name)
    lab.page.get_by_role("option").first.wait_for()
    lab.press("Enter")


def open_by_id(lab: Lab) -> None:
    (first, *_) = lab.ids("dataset = 'video'")
    _find(lab, first)
    lab.page.locator(f".player[data-episode='{first}']").wait_for()


def open_dataset(lab: Lab) -> None:
    _find(lab, "metaworld")
    lab.page.get_by_text("12 of 25 episodes").wait_for()


def find_words(lab: Lab) -> None:
    lab.fill("Filter by words", "drawer open")
    lab.press("Enter")
    number = len(lab.ids("lower(instruction) LIKE '%drawer%' AND lower(instruction) LIKE '%open%'"))
    lab.page.get_by_text(f"{number} of 25 episodes").wait_for()


def find_by_meaning(lab: Lab) -> None:
    lab.press("/")
    lab.type("drawer")
    lab.press("Enter")
    lab.page.locator(".card[href*='q=drawer']", has_text="pull the green drawer open").first.wait_for()


def combine_filters(lab: Lab) -> None:
    for column, value in (("dataset", "metaworld_sawyer"), ("success", "false")):
        lab.click(lab.page.locator(f"details[data-column={column}] button.value[title='{value}']"))
    lab.page.get_by_text("6 of 25 episodes").wait_for()


def _open_first(lab: Lab) -> None:
    lab.click(lab.page.locator(".card .title").first)
    lab.page.locator(".player .camera video").first.wait_for()


def watch_episode(lab: Lab) -> None:
    _open_first(lab)
    lab.press("Space")
    _wait_until_it_plays(lab)


def _wait_until_it_plays(lab: Lab) -> None:
    video = lab.page.locator(".camera:not(.collapsed) video").first
    expect(video).to_have_js_property("paused", False)
    deadline = time.monotonic() + 120
    while video.evaluate("video => video.currentTime") == 0:
        assert time.monotonic() < deadline


def watch_ten(lab: Lab) -> None:
    lab.press("Space")
    _wait_until_it_plays(lab)
    for number in range(2, 11):
        before = lab.page.locator(".player").get_attribute("data-episode")
        lab.press("Shift+ArrowRight")
        expect(lab.page.locator(f".player[data-episode='{before}']")).to_have_count(0)
        expect(lab.page.locator(".place")).to_have_text(f"{number} of 25")
        _wait_until_it_plays(lab)


def go_to_gripper_event(lab: Lab) -> None:
    lab.press("e")
    expect(lab.page.locator(".readout")).not_to_contain_text("step 1 of")


def find_like_by_motion(lab: Lab) -> None:
    lab.click(lab.page.locator(".card .title", has_text="pull the green drawer open").first)
    lab.click(lab.page.get_by_role("radio", name="State", exact=True))
    lab.page.locator(".grid.small .card").first.wait_for()


def see_hours(lab: Lab) -> None:
    lab.open_page("Statistics")
    expect(lab.page.get_by_role("row", name="pull the green drawer open")).to_contain_text(" s;")


def see_success_of_datasets(lab: Lab) -> None:
    lab.open_page("Statistics")
    lab.click(lab.page.get_by_role("combobox", name="Count by"))
    lab.click(lab.page.get_by_role("option", name="dataset", exact=True))
    expect(lab.page.get_by_role("row", name="metaworld_sawyer")).to_contain_text("%")


def see_extremes(lab: Lab) -> None:
    lab.open_page("Statistics")
    for end in ("Highest", "Lowest"):
        lab.page.get_by_text(end, exact=True).wait_for()
    lab.page.locator(".card").nth(6).wait_for()


def see_failures_of_task(lab: Lab) -> None:
    lab.open_page("Statistics")
    lab.click(lab.page.locator("a.part.bad").first)
    lab.page.wait_for_url(re.compile("f.instruction="))
    lab.page.get_by_text(re.compile(r"^\d of 25 episodes")).wait_for()
    expect(lab.page.locator(".card .badge.good", has_text="success")).to_have_count(0)


def compare_episodes(lab: Lab) -> None:
    for number in (0, 1):
        lab.click(lab.page.locator(".tick").nth(number))
        lab.page.get_by_text(f"{number + 1} selected").wait_for()
    lab.click(lab.button("Compare"))
    lab.page.locator(".compare .side").nth(1).wait_for()


def tag_episodes(lab: Lab) -> None:
    lab.click(lab.page.locator(".tick").first)
    lab.page.get_by_text("1 selected").wait_for()
    lab.click(lab.button("Tags", exact=False))
    lab.fill("New tag", "blurred")
    lab.click(lab.button("Add the tag"))
    lab.page.get_by_text("Tag blurred added to").wait_for()
    assert len(lab.ids("array_has(tags, 'blurred')")) == 1


def exclude_episode(lab: Lab) -> None:
    lab.click(lab.page.locator(".tick").first)
    lab.page.get_by_text("1 selected").wait_for()
    lab.click(lab.button("Exclude", exact=False))
    lab.fill("Why", "black picture")
    lab.click(lab.button("Exclude 1"))
    lab.wait_for("true", 24)
    lab.workspace.undo()
    lab.wait_for("true", 25)


def take_back(lab: Lab) -> None:
    lab.click(lab.button("Undo", exact=False))
    lab.wait_for("array_has(tags, 'blurred')", 0)


def freeze_set(lab: Lab) -> None:
    lab.click(lab.button(re.compile("Make a set from these")))
    lab.fill("Name of the set", "drawers")
    lab.click(lab.button("Make the set"))
    lab.button("Open it in Sets").wait_for()


def export_set(lab: Lab) -> None:
    lab.open_page("Sets")
    lab.click(lab.button("Export"))
    lab.page.get_by_text(re.compile("Exported to")).wait_for()


def keep_view(lab: Lab) -> None:
    lab.click(lab.button("Views", exact=False))
    lab.fill("Name of this view", "videos")
    lab.click(lab.button("Save this view"))
    lab.button("videos").wait_for()


def say_that_it_failed(lab: Lab) -> None:
    _open_first(lab)
    lab.click(lab.button("Failure"))
    expect(lab.page.locator(".judge .undo")).to_have_text("Undo: outcome: failure")
    lab.wait_for("person_success IS FALSE", 1)


def answer_ten(lab: Lab) -> None:
    for number in range(1, _ITEMS + 1):
        lab.press("yn?"[number % 3])
        lab.page.get_by_text(f"{number} of {_ITEMS}").first.wait_for()
    lab.page.get_by_text("Nothing is left for you").wait_for()


def plan_annotator(lab: Lab) -> None:
    lab.open_page("Jobs")
    lab.click(lab.page.get_by_role("radiogroup").get_by_text(re.compile("annotate", re.IGNORECASE)))
    lab.click(lab.page.get_by_label("Annotators, in this order"))
    lab.type("motion")
    lab.press("Enter")
    lab.press("Escape")
    lab.click(lab.button(re.compile("Plan$")))
    lab.button("Start it", exact=False).wait_for()
    lab.page.get_by_role("columnheader", name="annotator").first.wait_for()


def _watch_first(lab: Lab) -> None:
    lab.browse()
    lab.watch(str(lab.page.locator(".card").first.get_attribute("data-episode")))


def _tag_before(lab: Lab) -> None:
    lab.browse()
    tag_episodes(lab)
    lab.press("Escape")
    lab.count, lab.began = 0, 0.0


def _open_queue(lab: Lab) -> None:
    lab.page.goto(f"{lab.address}/review?queue=ten&person=Ada")
    lab.page.locator(".review .text").wait_for()


_STARTS: dict[str, Callable[[Lab], None]] = {
    "watch ten in a row": _watch_first,
    "go to the next gripper event": lambda lab: lab.watch(lab.ids("dataset = 'metaworld_sawyer'")[0]),
    "take back the last action": _tag_before,
    "keep a view": lambda lab: lab.browse("?f.dataset=video"),
    "answer ten items of a queue": _open_queue,
}
_JOBS: dict[str, Callable[[Lab], None]] = {
    "open an episode by its id": open_by_id,
    "open a dataset by its name": open_dataset,
    "find words in captions and instructions": find_words,
    "find episodes by their meaning": find_by_meaning,
    "combine two filters": combine_filters,
    "watch an episode": watch_episode,
    "watch ten in a row": watch_ten,
    "go to the next gripper event": go_to_gripper_event,
    "find episodes that move alike": find_like_by_motion,
    "see the hours of each task": see_hours,
    "see the success of each dataset": see_success_of_datasets,
    "see the extremes of a number": see_extremes,
    "see the failures of one task": see_failures_of_task,
    "compare two episodes": compare_episodes,
    "tag episodes": tag_episodes,
    "exclude an episode": exclude_episode,
    "take back the last action": take_back,
    "freeze a set": freeze_set,
    "export a set": export_set,
    "keep a view": keep_view,
    "say that an episode failed": say_that_it_failed,
    "answer ten items of a queue": answer_ten,
    "plan an annotator": plan_annotator,
}


def _report(lab: Lab, job: str) -> None:
    print(f"{job}: {lab.count} clicks and keys, {time.monotonic() - lab.began:.1f} s")
    assert lab.count <= _MOST[job]


@pytest.mark.parametrize("job", some_by_day(_JOBS, 4))
def test_a_job_takes_no_more_clicks_and_keys_than_the_manual_says(lab: Lab, job: str) -> None:
    _STARTS.get(job, Lab.browse)(lab)
    _JOBS[job](lab)
    _report(lab, job)


def test_two_captioners_are_compared_in_two_clicks(browser: Browser, contested: Workspace) -> None:
    with serve(contested) as address, open_tab(browser, address) as page:
        lab = Lab(page, address, contested)
        lab.browse()
        lab.click(page.locator(".card", has_text="producers differ").locator(".title").first)
        lab.click(lab.button("Compare producers"))
        page.wait_for_url("**/compare?a=**")
        _report(lab, _CAPTIONERS)
        texts = page.locator(".side-text")
        expect(texts.nth(0).locator("mark")).to_have_text(["open", "it"])
        expect(texts.nth(1)).to_contain_text("lift")
        expect(page.locator(".compare .cameras")).to_have_count(1)


def test_each_job_of_the_manual_has_a_test() -> None:
    assert sorted(_MOST) == sorted([*_JOBS, _CAPTIONERS])
    assert len(_MOST) == 24
