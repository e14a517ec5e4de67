"""A measurement in the browser, in a workspace of which nobody has said anything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from ares.workspace import Workspace
from tests.app.dashboard.browser import act_on_row
from tests.app.dashboard.test_browser_review import workspace as workspace

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow


def test_a_measurement_is_a_click_a_row_and_a_key_an_answer(
    page: Page, address: str, workspace: Workspace
) -> None:
    page.goto(f"{address}/review?queue=spare&person=Mia")
    page.get_by_role("button", name="Measure how true texts are").click()
    act_on_row(page, "quality-truth")
    page.wait_for_url("**queue=measure-*")
    page.locator(".review .progress", has_text=re.compile(r"you: 0; .*\d+ %")).wait_for()
    text = page.locator(".review:not(.said) .text")
    for _ in range(2):
        before = text.inner_text()
        page.locator(".review:not(.said) video").first.evaluate(
            "video => video.readyState >= 2 || new Promise(done => video.addEventListener('canplay', done))"
        )
        page.keyboard.press("y")
        text.filter(has_not_text=re.compile(f"^{before}$")).wait_for()  # "lid 1" is in "lid 13"
    page.locator(".review .progress", has_text=re.compile(r"you: 2; .*\d+ %")).wait_for()
    (queue,) = (queue for queue in workspace.review.queues() if queue.name.startswith("measure-"))
    rows = workspace.review.answers(queue=queue.name, person="Mia")
    assert [row.answer.shown for row in rows] == [True, True]
