"""Every field of every page, in a real browser: what cannot be is said at the field, and the page stays as it was."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from ares.annotation import Producer
from ares.review import QueueRequest
from ares.rubric import GRADE_COLUMNS, make_grade_value
from ares.settings import Settings
from ares.store import read_history
from ares.workspace import Workspace, open_workspace
from tests.app.contested_producers import CAPTIONER, make_annotation, make_caption
from tests.app.dashboard.browser import SERVE_COMMAND, serve, visit

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
_JUDGE = Producer(
    annotator="grade", version="1", model="j", columns=GRADE_COLUMNS, kind="model", subject_kind="annotation",
    after=("caption",),
)  # fmt: skip
_LONG = "x" * 20_001


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[Workspace]:
    """Four episodes on a map, one with a caption, with a set, another set, a tag and a queue."""
    import pyarrow as pa

    with open_workspace(str(tmp_path_factory.mktemp("fields") / "w"), Settings()) as opened:
        opened.ingest(demo_samples / "video", limit=4, quiet=True)
        ids = sorted(opened.stores.tables.episodes.ids())
        (first,) = opened.stores.tables.episodes.read(f"episode_id = '{ids[0]}'")
        caption = make_caption(first, CAPTIONER, "lift the lid")
        grade = make_annotation(first, _JUDGE, caption.annotation_id, "annotation")
        rulings: list[dict[str, Any]] = [{"criterion": "VERB", "verdict": "MET", "category": "essential"}]
        for producer in (CAPTIONER, _JUDGE):
            opened.stores.annotations.add_producer(producer)
        opened.stores.annotations.append([caption, replace(grade, value=make_grade_value(rulings))])
        opened.sync()
        places = {"episode_id": ids, "map_x": [0.0, 0.1, 5.0, 5.1], "map_y": [0.0, 0.1, 5.0, 5.1]}
        opened.stores.tables.episodes.set_values(pa.table(places))
        opened.sets.create("all", ids=ids)
        opened.sets.create("two", ids=ids[:2])
        opened.tag("odd", ids=ids[:1])
        opened.review.create(QueueRequest(name="first", question="success", person="Ada", random_items=2))
        yield opened


@pytest.fixture(scope="module")
def address(filled: Workspace, demo_samples: Path) -> Iterator[str]:
    """Of a server that may read the samples."""
    command = SERVE_COMMAND.replace("Settings()", f"Settings(source_dirs=({str(demo_samples)!r},))")
    with serve(filled, command) as address:
        yield address


def _count_actions(workspace: Workspace) -> int:
    return len(read_history(workspace.stores.annotations).actions)


def _enter(page: Page, label: str, text: str, button: str = "") -> None:
    """Fill a field, and send it by a button or by leaving it."""
    field = page.get_by_label(label, exact=True).last
    field.fill(text)
    if button:
        page.get_by_role("button", name=button).click()
    else:
        field.press("Control+Enter")


def _refuse(page: Page, message: str, kept: str, act: Callable[[], None]) -> None:
    """Do something that cannot be: one message says so, and what the page shows is still there."""
    alerts = page.locator("[data-testid=stAlert]").filter(has_text=re.compile(message))
    before = alerts.count()  # what was refused in another field stays
    act()
    expect(alerts).to_have_count(before + 1, timeout=120_000)
    expect(page.locator(kept).first).to_be_visible()
    expect(page.get_by_text("This page failed")).to_have_count(0)


def _open_popover(page: Page, name: str | re.Pattern[str]) -> None:
    page.keyboard.press("Escape")
    page.get_by_role("button", name=name).first.click()


def test_a_wrong_input_of_browse_is_said_at_its_field(page: Page, address: str, filled: Workspace) -> None:
    visit(page, address)
    page.locator(".card").first.wait_for()
    page.get_by_role("button", name="Select all 4").click()
    page.get_by_text("4 selected").wait_for()
    before = _count_actions(filled)
    _open_popover(page, "Edit tags")
    _refuse(page, "name of a tag", ".card", lambda: _enter(page, "New tag", "a@b", "Add the tag"))
    expect(page.get_by_label("New tag")).to_have_value("a@b")
    _open_popover(page, re.compile("Note$"))
    _refuse(page, "a note has 1 to", ".card", lambda: _enter(page, "Text of the note", " ", "Write it to 4"))
    _open_popover(page, re.compile("^as "))
    _refuse(
        page,
        "name of a person is too long",
        ".card",
        lambda: _enter(page, "Your name, for the log", "x" * 101),
    )
    _open_popover(page, "Make a set of")
    _refuse(page, "name of a set", ".card", lambda: _enter(page, "Name of the set", "../x", "Make the set"))
    page.keyboard.press("Escape")
    _refuse(page, "address is too long", ".card", lambda: _enter(page, "Search", _LONG))
    assert (page.url.rstrip("/"), _count_actions(filled)) == (address, before)
    # What is right is done at once, as it was typed.
    _open_popover(page, "Edit tags")
    _enter(page, "New tag", "Blurred Кухня", "Add the tag")
    page.get_by_text("Tag Blurred Кухня added to 4 episodes").wait_for()
    expect(page.get_by_label("New tag")).to_have_value("")
    assert {use.tag for use in filled.tags} == {"odd", "Blurred Кухня"}


def test_a_wrong_filter_in_sql_is_said_at_its_field(page: Page, address: str, filled: Workspace) -> None:
    visit(page, address)
    page.locator(".card").first.wait_for()
    # Escape empties the field, which the click then leaves: the error goes while the popover opens.
    _refuse(page, "address is too long", ".card", lambda: _enter(page, "Search", _LONG))
    _open_popover(page, "More filters")
    _refuse(page, "num_step'", ".card", lambda: _enter(page, "Filter in SQL", "num_step > 3"))


def test_a_wrong_input_of_another_page_is_said_at_its_field(
    page: Page, address: str, filled: Workspace
) -> None:
    episode_id = min(filled.stores.tables.episodes.ids())
    visit(page, f"{address}/quality")
    page.locator(".st-key-quality-spread svg.marks").wait_for()
    group = page.get_by_role("combobox", name="Count by")
    group.fill("no such name")
    _refuse(page, "no such name", ".st-key-quality-spread svg.marks", lambda: group.press("Enter"))
    visit(page, f"{address}/sets?set=all")
    export = page.get_by_role("button", name=re.compile("^Export [0-9]"))
    export.wait_for()
    kept = ".st-key-sets-list-table canvas"
    _enter(page, "Name of the new folder", "../x")
    _refuse(page, "name of a folder", kept, export.click)
    page.get_by_role("radio", name="Balance").click()
    # The field is left by the click itself: what stood in it before must not be made.
    page.get_by_label("Name of the new set").fill("a@b")
    _refuse(page, "name of a set", kept, lambda: page.get_by_role("button", name="Make it").click())
    assert set(filled.sets) == {"all", "two"}
    visit(page, f"{address}/jobs?job=ingest")
    kept = ".st-key-jobs-kind"
    _refuse(page, "/nowhere", kept, lambda: _enter(page, "File or folder on the server", "/nowhere/at/all"))
    visit(page, f"{address}/jobs?job=annotate&names=motion")
    _refuse(page, "num_step'", kept, lambda: _enter(page, "Only episodes of this filter", "num_step > 3"))
    visit(page, f"{address}/review?queue=first&person=Ada")
    page.locator(".review .progress").wait_for()
    _refuse(page, "cannot be printed", ".review .progress", lambda: _enter(page, "You are", "a\u202eb"))
    page.get_by_role("button", name="New queue").click()
    _refuse(page, "name of a queue", ".review .progress", lambda: _enter(page, "Name", "a/b", "Make a queue"))
    visit(page, f"{address}/episode?episode={episode_id}")
    page.locator(".judge .edit").wait_for()
    edit = page.locator(".judge .edit")
    edit.fill(_LONG)
    _refuse(page, "a text is too long", ".player .camera video", lambda: edit.press("Enter"))
