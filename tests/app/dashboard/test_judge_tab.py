"""The second tab of the page "Review": what judges say, in bars that open exactly the episodes that they count."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from app.dashboard import cached_reads, judge_tab
from app.dashboard.view_state import view_filter_sql, view_from_params
from ares.review import QueueRequest, count_judgements, list_judged_questions
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.app.drawn import draw
from tests.ares.review.audited_world import fill_audited_world


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[dict[str, Any]]]:
    """What is drawn as bars, by the end of its key."""
    drawn: dict[str, list[dict[str, Any]]] = {}

    def keep(rows: list[dict[str, Any]], name: str, measure: str, key: str) -> None:
        drawn[key.removeprefix("review.judge.")] = rows

    monkeypatch.setattr(judge_tab, "draw_bars", keep)
    return drawn


def _count_of_link(workspace: Workspace, href: str) -> int:
    """How many episodes the page "Browse" shows at an address."""
    page, _, query = href.partition("?")
    assert page == "./"
    view = view_from_params(parse_qs(query))
    return workspace.stores.tables.episodes.count(view_filter_sql(view, cached_reads.filter_columns()))


def _counted_parts(rows: list[dict[str, Any]]) -> Iterator[tuple[int, str]]:
    for row in rows:
        for part in row["parts"]:
            yield int(part["label"].partition(" ")[0].replace(",", "")), part["href"]


def test_each_part_of_a_bar_opens_as_many_episodes_as_it_counts(
    displayed: Workspace, bars: dict[str, list[dict[str, Any]]]
) -> None:
    app = draw("review", {"tab": "judges"})
    assert not app.error
    assert "What judges accept" in [element.value for element in app.subheader]
    accepted = displayed.stores.tables.episodes.count("grade = 'acceptable'")
    (whole,) = (row for row in bars["all"] if row["name"] == "acceptable")
    assert next(_counted_parts([whole]))[0] == accepted > 0
    hrefs = {part["tone"]: part["href"] for part in whole["parts"]}
    assert (hrefs["good"], hrefs["bad"]) == ("./?f.grade=acceptable", "./?f.grade=not_acceptable")
    parts = [
        part for key in ("all", "dataset", "grade_maker", "ingested") for part in _counted_parts(bars[key])
    ]
    assert {href for count, href in parts if count} and len(parts) > 9
    assert [(count, href) for count, href in parts if _count_of_link(displayed, href) != count] == []
    # The links name the group, also where all episodes of the workspace are in it.
    for column in ("dataset", "grade_maker", "ingested"):
        assert all(f"f.{column}=" in href for _, href in _counted_parts(bars[column]))
    # Below, the question that was chosen last alone is counted: here the first.
    assert sum(count for count, _ in _counted_parts(bars["dataset"])) == sum(
        count for count, _ in _counted_parts([whole])
    )


def test_a_set_is_certified_by_a_form_which_says_how_many_answers_are_missing(displayed: Workspace) -> None:
    app = draw("review", {"tab": "judges"})
    app.number_input(key="review.certify.precision").set_value(0.9)
    app.text_input(key="review.certify.where").set_value("num_steps > 0")
    next(button for button in app.button if button.label == "Certify").click().run()
    assert not app.exception
    (said,) = (error.value for error in app.error)
    assert "is not shown yet" in said and "0 answers tested it" in said and "58 more random answers" in said
    assert "certified" not in displayed.sets


def test_the_share_is_of_the_decided_with_its_interval(displayed: Workspace) -> None:
    stores = displayed.stores
    for count in count_judgements(stores, list_judged_questions(stores)):
        decided = count.accepted + count.refused
        assert count.total == decided + sum(count.undecided.values())
        if count.share is not None:
            assert count.share.low <= count.share.share == count.accepted / decided <= count.share.high
    assert count_judgements(stores, list_judged_questions(stores), "no_such_column") == []


def test_a_tab_that_does_not_exist_is_said_and_the_questions_stand_first(displayed: Workspace) -> None:
    assert "there is no tab" in draw("review", {"tab": "jury"}).error[0].value
    assert "Nothing to review yet" in [element.value for element in draw("review").header]


def test_the_audit_of_instructions_stands_among_the_judges_that_people_measure(
    tmp_path: Path, bars: dict[str, list[dict[str, Any]]]
) -> None:
    with open_workspace(str(tmp_path / "ws"), Settings()) as audited:
        fill_audited_world(audited.stores)
        audited.review.audit_instructions()
        queue = audited.review.create(QueueRequest(name="all", question="instruction", person="Ada"))
        item = audited.review.queue(queue.name).next("Ada")
        assert item is not None
        dataset = item.stratum.partition("/")[0]
        audited.review.queue(queue.name).answer(item, "Ada", "met")
        audited.sync()
        cached_reads.use_workspace(audited)
        draw("review", {"tab": "judges"})
        (row,) = bars["coverage"]
        assert row["name"] == f"instruction, {dataset}, instruction audit 2, look"
