"""The review page in a real browser: answers by keyboard, with a reload in the middle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ares.review import QueueRequest
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.app.dashboard.browser import AXE, VIOLATIONS, act_on_row, visit
from tests.ares.review.conftest import fill_with_captions

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[Workspace]:
    """Queues of captions: one of all, and one whose items nobody else asks for."""
    with open_workspace(str(tmp_path_factory.mktemp("review") / "w"), Settings()) as opened:
        fill_with_captions(opened.stores, demo_samples)
        for name, size in (("alone", 12), ("spare", 1)):
            request = QueueRequest(name=name, question="acceptable", person="Ada", random_items=size)
            opened.review.create(request)
        yield opened


def _open(page: Page, address: str, queue: str, person: str) -> None:
    page.goto(f"{address}/review?queue={queue}&person={person}")
    page.locator(".review .text").wait_for()


def _press(page: Page, key: str, progress: str) -> None:
    """Press a key and wait for what the page says of the progress."""
    page.keyboard.press(key)
    page.get_by_text(progress, exact=False).first.wait_for()


def test_each_label_costs_a_key_and_no_click_and_a_reload_loses_none(
    page: Page, address: str, workspace: Workspace
) -> None:
    queue, size, half = "alone", 12, 6
    _open(page, address, queue, "Ada")
    assert page.locator(".progress").inner_text() == f"you: 0 of {size}"
    guideline = page.locator(".guideline").inner_text()
    labels = [text.split(" ", 1)[1] for text in page.locator("[data-verdict]").all_inner_texts()]
    assert labels == ["yes", "no", "cannot tell", "undo", "help"]
    assert '"put the mug on the shelf"' in guideline and all(
        f"- {label}: " in guideline for label in labels[:3]
    )
    page.keyboard.press("?")
    told = page.get_by_role("region", name="Help").inner_text()
    assert all(label in told for label in labels) and len(told.split()) <= 100
    if AXE.is_file():
        assert page.evaluate(VIOLATIONS, AXE.read_text()) == []
    shown = page.locator(".root").last.inner_text()
    assert "MET" not in shown and "grade" not in shown, "blind to the judge"
    keys = 0
    for number in range(1, size + 1):
        after = f"you: {number} of {size}" if number < size else "Nothing is left for you: you answered 12"
        _press(page, "ync"[number % 3], after)
        keys += 1
        if number == half:
            before = page.locator(".text").inner_text()
            page.reload()
            page.locator(".review .text").wait_for()
            assert page.locator(".text").inner_text() == before
            page.get_by_text(f"{half} of {size}").first.wait_for()
            _press(page, "u", f"{half - 1} of {size}")
            _press(page, "y", f"{half} of {size}")
            keys += 2
    page.get_by_text("stored in this workspace, under the name Ada").wait_for()
    assert keys <= size + 2
    answers = workspace.review.answers(queue=queue, person="Ada")
    assert sorted(row.answer.item for row in answers) == list(range(size))
    assert {row.answer.verdict for row in answers} == {"met", "unmet", "unsure"}


def test_a_queue_is_made_on_the_page(page: Page, address: str, workspace: Workspace) -> None:
    # An item that is shown is hers for a while: not one of the queues of other tests.
    visit(page, f"{address}/review?queue=spare&person=Zoe")
    page.get_by_role("button", name="New queue").click()
    page.get_by_label("Name", exact=True).fill("lids")
    page.get_by_label("Items drawn at random").fill("5")
    page.get_by_role("textbox", name="Only episodes that fulfil").fill("dataset = 'video'")
    page.get_by_role("button", name="Make a queue").click()
    page.wait_for_url("**queue=lids**")
    page.get_by_text("0 of 5").first.wait_for()
    page.get_by_role("button", name="Make a queue").wait_for(state="detached")
    if AXE.is_file():
        assert page.evaluate(VIOLATIONS, AXE.read_text()) == []
    _press(page, "y", "1 of 5")
    (queue,) = (queue for queue in workspace.review.queues() if queue.name == "lids")
    assert (queue.person, queue.items, queue.recipe) == ("Zoe", 5, {"where": "dataset = 'video'"})


def test_an_item_that_another_person_has_is_said(page: Page, address: str, workspace: Workspace) -> None:
    workspace.review.create(QueueRequest(name="held", question="acceptable", person="Ada", random_items=1))
    assert workspace.review.queue("held").next("Ben")
    page.goto(f"{address}/review?queue=held&person=Ada")
    page.get_by_text("Nothing is left for you: you answered 0").wait_for()
    page.get_by_text("1 not answered: shown to another person, for 15 minutes each").wait_for()


def test_on_a_phone_the_question_its_answers_and_the_clips_are_in_sight_together(
    page: Page, address: str, workspace: Workspace
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    _open(page, address, "spare", "Zoe")
    boxes = [
        page.locator(name).last.bounding_box() for name in (".progress", "[data-verdict]", ".clips video")
    ]
    ends = [box["y"] + box["height"] for box in boxes if box]
    assert len(ends) == 3 and ends == sorted(ends) and ends[-1] < 844
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_a_failure_has_a_kind_and_a_reason_that_fill_in_again(
    page: Page, address: str, workspace: Workspace
) -> None:
    workspace.review.create(QueueRequest(name="outcomes", question="success", person="Ada", random_items=2))
    _open(page, address, "outcomes", "Ada")
    page.get_by_label("kind of failure").select_option("dropped")
    page.get_by_label("severity").select_option("major")
    page.keyboard.press("r")
    # Keys are letters of the reason until Enter.
    page.keyboard.type("slips only at the end")
    page.keyboard.press("Enter")
    _press(page, "n", "1 of 2")
    (row,) = workspace.review.answers(queue="outcomes")
    said = row.answer
    assert (said.verdict, said.failure_kind, said.severity) == ("failure", "dropped", "major")
    assert said.reason == "slips only at the end"
    _press(page, "u", "0 of 2")
    page.reload()
    page.locator(".review .text").wait_for()
    assert page.get_by_label("Reason", exact=True).input_value() == "slips only at the end"
    assert page.get_by_label("kind of failure").input_value() == "dropped"
    assert page.get_by_label("severity").input_value() == "major"
    _press(page, "y", "1 of 2")
    (row,) = workspace.review.answers(queue="outcomes")
    assert (row.answer.verdict, row.answer.failure_kind) == ("success", ""), "a success has no kind"


def test_a_caption_and_an_instruction_are_written_and_taken_back_with_the_answer(
    page: Page, address: str, workspace: Workspace, demo_samples: Path
) -> None:
    known = workspace.stores.tables.episodes.ids()
    workspace.ingest(demo_samples / "video", limit=3, quiet=True)
    (episode_id,) = workspace.stores.tables.episodes.ids() - known
    for question in ("success", "instruction"):
        request = QueueRequest(name=f"of-{question}", question=question, person="Ada", random_items=1)
        workspace.review.create(request, where=f"episode_id = '{episode_id}'")
        _open(page, address, request.name, "Ada")
        page.keyboard.press("t")
        page.keyboard.type("yawns")
        page.keyboard.press("Enter")
        _press(page, "n", "Nothing is left for you: you answered 1")
        assert "yawns" in [row.answer.text for row in workspace.review.answers(queue=request.name)]
    workspace.sync()
    assert len(workspace.episodes.where("caption = 'yawns' AND instruction = 'yawns' AND NOT success")) == 1
    for question in ("success", "instruction"):
        page.goto(f"{address}/review?queue=of-{question}&person=Ada")
        page.get_by_role("button", name="Take the last answer back").click()
        page.locator(".review .text").wait_for()
        assert not workspace.review.answers(queue=f"of-{question}")


def test_what_is_entered_stays_when_the_part_is_drawn_anew(
    page: Page, address: str, workspace: Workspace
) -> None:
    workspace.review.create(QueueRequest(name="beside", question="acceptable", person="Ada", random_items=6))
    queue = workspace.review.queue("beside")
    _open(page, address, "beside", "Ada")
    page.keyboard.press("r")
    page.keyboard.type("the gripper is empty")
    item = queue.next("Ben")
    assert item is not None
    queue.answer(item, "Ben", "met")
    page.get_by_text("Your answers").click()
    page.get_by_text("you: 0 of 5").first.wait_for()
    assert page.get_by_label("Reason", exact=True).input_value() == "the gripper is empty"


def test_an_answer_of_the_list_is_taken_back_and_asked_again(
    page: Page, address: str, workspace: Workspace
) -> None:
    workspace.review.create(QueueRequest(name="again", question="acceptable", person="Ada", random_items=3))
    _open(page, address, "again", "Kim")
    for key, progress in zip("yyc", ("1 of 3", "2 of 3", "you answered 3"), strict=True):
        _press(page, key, progress)
    given = workspace.review.answers(queue="again", person="Kim")
    page.get_by_text("Your answers", exact=True).click()
    act_on_row(page, "review-list-3", 1)
    page.locator(".review .progress", has_text="2 of 3").wait_for()
    left = {
        row.answer.item: row.answer.verdict for row in workspace.review.answers(queue="again", person="Kim")
    }
    assert left == {row.answer.item: row.answer.verdict for row in given if row != given[1]}
    act_on_row(page, "review-list-2", 1)
    page.locator(".review .progress", has_text="1 of 3").wait_for()
    _press(page, "n", "2 of 3")
    _press(page, "n", "you answered 3")
    said = {
        row.answer.item: row.answer.verdict for row in workspace.review.answers(queue="again", person="Kim")
    }
    assert said == {given[0].answer.item: left[given[0].answer.item]} | {
        row.answer.item: "unmet" for row in given[1:]
    }
