"""Near duplicates are a filter of Browse, and each group opens its pairs side by side, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from ares.settings import Settings
from ares.workspace import DuplicateTable, Workspace, open_workspace
from tests.app.dashboard.browser import AXE, VIOLATIONS, choose, serve
from tests.ares.curation.test_composition import draw_course, make_record

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """Four motions, two copies of the first, and one of the second."""
    with open_workspace(str(tmp_path_factory.mktemp("duplicates") / "w"), Settings()) as workspace:
        courses = [draw_course(number, 40 + number) for number in range(4)]
        records = [make_record(str(number), course) for number, course in enumerate(courses)]
        copies = {"0b": courses[0] + [3, 0, 0, 0], "0c": courses[0] * [1, -1, 1, 1], "1b": courses[1][3:-4]}
        records += [make_record(key, course, dataset="b") for key, course in copies.items()]
        workspace.stores.tables.episodes.add(records)
        yield workspace


@pytest.fixture(scope="module")
def groups(copied: Workspace) -> DuplicateTable:
    return copied.episodes.find_duplicates()


@pytest.fixture(scope="module")
def address(copied: Workspace, groups: DuplicateTable) -> Iterator[str]:
    with serve(copied) as address:
        yield address


def test_a_group_is_a_filter_that_opens_its_pairs(page: Page, address: str, groups: DuplicateTable) -> None:
    largest = groups[0]
    page.goto(f"{address}/?f.duplicate_group={largest.name}")
    expect(page.get_by_text("3 of 7 episodes")).to_be_visible()
    page.get_by_role("button", name=f"Compare pairs of {largest.name}").click()
    page.wait_for_url(f"**/compare?group={largest.name}")
    page.locator(".player").first.wait_for()
    assert page.evaluate(VIOLATIONS, AXE.read_text()) == []
    second = largest.pairs[1]
    shown = re.compile(f"^2 of {len(largest.pairs)}: {second.first}")
    choose(page, "Near duplicates of this group", shown)
    page.wait_for_url(f"**/compare?group={largest.name}&a={second.first}&b={second.second}")
    page.reload()
    page.locator(".player").first.wait_for()
    expect(page.get_by_role("combobox", name="Near duplicates of this group")).to_have_value(
        re.compile(second.second)
    )
