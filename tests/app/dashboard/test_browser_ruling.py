"""Ruling where one watches, in a real browser: criteria, captions, tags and segments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from ares.annotation import Producer
from ares.rubric import GRADE_COLUMNS, make_grade_value
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_annotators.grade import load_rubric
from tests.app.contested_producers import CAPTIONER, make_annotation, make_caption
from tests.app.dashboard.browser import SERVE_COMMAND, open_tab, serve
from tests.app.segment_lanes import SEGMENTER, make_segments

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


pytestmark = pytest.mark.slow
_CAPTION = "lift the lid"


@pytest.fixture
def judged(tmp_path: Path, demo_samples: Path) -> Iterator[tuple[Workspace, str]]:
    """An episode whose caption a judge accepted but for one criterion, with two segments of a segmenter."""
    rubric = load_rubric("caption")
    judge = Producer(
        annotator="grade", version="1", model="j", columns=(*GRADE_COLUMNS, *rubric.verdict_columns),
        kind="model", subject_kind="annotation", after=("caption",),
    )  # fmt: skip
    with open_workspace(str(tmp_path / "w"), Settings()) as opened:
        opened.ingest(demo_samples / "video", limit=1, quiet=True)
        (episode,) = opened.stores.tables.episodes.read()
        draft = make_caption(episode, CAPTIONER, _CAPTION)
        caption = replace(draft, value={**draft.value, "slots": {"action": "lift", "object": "the lid"}})
        rulings: list[dict[str, Any]] = [
            {"criterion": name, "verdict": "MET", "category": category}
            for name, category in rubric.categories
        ]
        last = rulings[-1]
        last.update(verdict="UNSURE", reason="the hand hides it")
        grade = make_annotation(episode, judge, caption.annotation_id, "annotation")
        log = opened.stores.annotations
        for producer in (CAPTIONER, judge, SEGMENTER):
            log.add_producer(producer)
        parts = make_segments(episode, SEGMENTER, "subtask", (0.0, 2.0, "reach"), (2.0, 4.0, "lift"))
        log.append([caption, replace(grade, value=make_grade_value(rulings)), *parts])
        opened.sync()
        opened.tag("odd", where="true")
        yield opened, episode.episode_id


def _open(page: Page, address: str, episode_id: str) -> None:
    page.goto(f"{address}/episode?episode={episode_id}")
    page.locator(".player .camera video").first.wait_for()


def _column(workspace: Workspace, name: str) -> Any:
    workspace.stores.catch_up()
    return workspace.stores.tables.episodes.read_columns([name], "").to_pylist()[0][name]


def _words(criterion: str | None) -> str:
    return str(criterion).lower().replace("_", " ")


def test_what_is_ruled_beside_the_picture_counts_is_kept_and_can_be_undone(
    browser: Browser, judged: tuple[Workspace, str]
) -> None:
    workspace, episode_id = judged
    with serve(workspace) as address, open_tab(browser, address) as page:
        page.set_viewport_size({"width": 1280, "height": 720})
        _open(page, address, episode_id)
        _check_what_is_in_sight(page, 720)
        first = page.locator(".criterion").first
        # What the judge was not sure of stands first, with its reason.
        expect(first.locator(".criterion-reason")).to_contain_text("the hand hides it")
        criterion = first.get_attribute("data-criterion")
        rows = page.locator(f"[data-criterion='{criterion}']")
        rows.locator(".criterion-line").click()
        rows.locator(".choice.unmet").click()
        undo = page.locator(".judge .undo")
        expect(undo).to_have_text(f"Undo: {_words(criterion)}: not met")
        page.get_by_role("button", name="Failure", exact=True).click()
        expect(undo).to_have_text("Undo: outcome: failure")
        assert _column(workspace, "person_success") is False
        page.reload()
        expect(rows.locator(".sign.unmet.ruled")).to_have_attribute("aria-label", "not met")
        expect(page.locator(".outcome .choice", has_text="Failure")).to_have_attribute("aria-pressed", "true")
        _tick_and_edit_a_slot_and_undo(page, workspace)
        expect(undo).to_have_text("Undo: outcome: failure")
        page.locator(".judge .edit").fill("open the lid")
        page.keyboard.press("Enter")
        expect(undo).to_have_text("Undo: new text")
        assert _column(workspace, "caption") == "open the lid"
        page.locator(".timeline").focus()
        page.keyboard.press("1")
        expect(undo).to_have_text("Undo: no tag odd")
        assert _column(workspace, "tags") in (None, [])
        page.keyboard.press("u")
        expect(undo).to_have_text("Undo: new text")
        page.keyboard.press("u")
        expect(page.locator(".judge .edit")).to_have_value(_CAPTION)
        assert _column(workspace, "tags") == ["odd"]
        assert _column(workspace, "caption") == _CAPTION
        page.keyboard.press("u")
        expect(undo).to_have_text(f"Undo: {_words(criterion)}: not met")
        assert _column(workspace, "person_success") is None


def test_instruction_and_first_caption_are_written_beside_the_picture(
    browser: Browser, judged: tuple[Workspace, str], demo_samples: Path
) -> None:
    workspace, known = judged
    workspace.ingest(demo_samples / "video", limit=2, quiet=True)
    (episode_id,) = workspace.stores.tables.episodes.ids() - {known}
    before = workspace.episodes[episode_id].instruction
    with serve(workspace) as address, open_tab(browser, address) as page:
        _open(page, address, episode_id)
        undo, caption = page.locator(".judge .undo"), page.get_by_label("Caption", exact=True)
        for label, text in (("Instruction", "shut the box"), ("Caption", "shuts the box")):
            page.get_by_label(label, exact=True).fill(text)
            page.keyboard.press("Enter")
            expect(undo).to_have_text("Undo: new instruction" if label == "Instruction" else "Undo: new text")
        for label, text, done in (("New tag", "dim", "tag dim"), ("New note", "it slips", "note")):
            page.get_by_label(label, exact=True).fill(text)
            page.keyboard.press("Enter")
            expect(undo).to_have_text(f"Undo: {done}")
        workspace.stores.catch_up()
        assert workspace.episodes[episode_id].instruction == "shut the box"
        assert len(workspace.episodes.where("acceptable AND caption = 'shuts the box'")) == 1
        assert len(workspace.episodes.where("tagged('dim') AND array_has(notes, 'it slips')")) == 1
        page.reload()
        expect(caption).to_have_value("shuts the box")
        undo.click()
        expect(caption).to_have_value("")
        undo.click()
        expect(page.get_by_label("Instruction", exact=True)).to_have_value(before)


def _check_what_is_in_sight(page: Page, height: float) -> None:
    for selector in (".cameras", ".transport", ".judge .outcome", ".judge .edit", ".criterion >> nth=0"):
        box = page.locator(selector).bounding_box()
        assert box and box["y"] > 0 and box["y"] + box["height"] <= height, selector


def _tick_and_edit_a_slot_and_undo(page: Page, workspace: Workspace) -> None:
    page.locator(".judge .guideline summary").click()
    expect(page.locator(".judge .guideline pre")).to_contain_text("a finger wide is open at the end: failure")
    undo = page.locator(".judge .undo")
    page.locator(".timeline").focus()
    page.keyboard.press("x")
    expect(undo).to_have_text("Undo: tick")
    page.keyboard.press("u")
    expect(undo).to_have_text("Undo: outcome: failure")
    page.locator(".judge .slots summary").click()
    page.get_by_label("slot object").fill("the red lid")
    page.keyboard.press("Enter")
    expect(undo).to_have_text("Undo: new text")
    (edited,) = (row.answer for row in workspace.review.answers() if row.answer.question == "text")
    assert edited.slots == {"action": "lift", "object": "the red lid"}
    undo.click()


def _spans(workspace: Workspace) -> list[tuple[float, float, str]]:
    workspace.stores.catch_up()
    columns = ["start_seconds", "stop_seconds", "text", "annotator"]
    rows = workspace.stores.tables.segments.scan(columns, "annotator = 'segment'").to_pylist()
    return sorted(
        (round(row["start_seconds"], 1), round(row["stop_seconds"], 1), row["text"]) for row in rows
    )


def test_a_boundary_is_dragged_and_a_text_edited_and_both_outlive_a_new_segmenter(
    browser: Browser, judged: tuple[Workspace, str]
) -> None:
    workspace, episode_id = judged
    (episode,) = workspace.stores.tables.episodes.read()
    with serve(workspace) as address, open_tab(browser, address) as page:
        _open(page, address, episode_id)
        track = page.locator("[data-lane^=segment] .lane-track")
        track.scroll_into_view_if_needed()
        box = track.bounding_box()
        assert box is not None
        second = box["width"] / episode.duration_seconds
        page.mouse.move(box["x"] + 2 * second, box["y"] + 8)
        page.mouse.down()
        page.mouse.move(box["x"] + 3 * second, box["y"] + 8, steps=3)
        page.mouse.up()
        undo = page.locator(".judge .undo")
        expect(undo).to_have_text("Undo: change of segments")
        assert _spans(workspace) == [(0.0, 3.0, "reach"), (3.0, 4.0, "lift")]
        page.locator(".timeline").focus()
        page.keyboard.press("Home")
        page.get_by_role("button", name="Edit this text").first.click()
        page.locator(".segment-text").fill("reach the lid")
        page.keyboard.press("Enter")
        expect(page.locator(".lane .segment", has_text="reach the lid")).to_be_visible()
        newer = replace(SEGMENTER, version="2")
        workspace.stores.annotations.add_producer(newer)
        workspace.stores.annotations.append(make_segments(episode, newer, "subtask", (0.0, 4.0, "all")))
        workspace.sync()
        assert _spans(workspace) == [(0.0, 3.0, "reach the lid"), (3.0, 4.0, "lift")]
        undo.click()
        expect(page.locator(".lane .segment", has_text="reach the lid")).to_have_count(0)
        assert _spans(workspace) == [(0.0, 3.0, "reach"), (3.0, 4.0, "lift")]
        undo.click()
        expect(page.locator(".lane .segment", has_text="all")).to_be_visible()
        assert _spans(workspace) == [(0.0, 4.0, "all")]


def test_what_is_written_and_not_stored_yet_outlives_every_draw(
    browser: Browser, judged: tuple[Workspace, str]
) -> None:
    workspace, episode_id = judged
    command = SERVE_COMMAND.replace("Settings()", "Settings(app_password='open sesame')")
    with serve(workspace, command) as address, open_tab(browser, address, "http") as page:
        page.goto(f"{address}/episode?episode={episode_id}")
        page.get_by_label("Password").fill("open sesame")
        page.keyboard.press("Enter")
        lines = page.locator(".criterion-line")
        lines.first.click()
        criterion = str(page.locator(".criterion").first.get_attribute("data-criterion"))
        reason = page.get_by_label(f"Reason for {criterion}")
        reason.fill("it slips")
        lines.nth(1).click()
        lines.first.click()
        expect(reason).to_have_value("it slips")
        # Nobody knows yet who writes: nothing is stored, and nothing is lost.
        note = page.get_by_label("New note")
        note.fill("it slips")
        page.keyboard.press("Enter")
        expect(page.get_by_label("Your name")).to_be_focused()
        expect(note).to_have_value("it slips")
        page.get_by_label("Your name").fill("Gil")
        note.press("Enter")
        expect(page.locator(".judge .undo")).to_have_text("Undo: note")
        expect(note).to_have_value("")
        expect(reason).to_have_value("it slips")
        page.locator(".criterion").first.locator(".choice.unmet").click()
        expect(page.locator(".judge .undo")).to_have_text(f"Undo: {_words(criterion)}: not met")
        # The field has the person's words alone, which a second click stores again.
        page.locator(f"[data-criterion='{criterion}'] .choice.unsure").click()
        expect(page.locator(".judge .undo")).to_have_text(f"Undo: {_words(criterion)}: cannot tell")
    ruled = [row.answer for row in workspace.review.answers(person="Gil") if row.answer.question == criterion]
    assert {(answer.verdict, answer.reason) for answer in ruled} == {("unsure", "it slips")}
    assert _column(workspace, "notes") == ["it slips"]
