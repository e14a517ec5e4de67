"""The pages, drawn without a browser on a real workspace."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import ares
from ares.contract import DatasetKey, read_contracts, write_contracts
from ares.curation import FailureSelection, list_failures
from ares.errors import RequestError
from ares.jobs import FailureLog
from ares.reports import check_stored_episode
from ares.review import InstructionAudit, read_audits
from ares.review.instruction_audit import AUDITS
from ares.settings import Settings
from ares.store import Stores
from ares.workspace import Workspace, open_workspace
from ares_app.cli.main import main
from ares_app.dashboard import cached_reads
from ares_app.dashboard.annotation_rows import make_finding_lanes
from ares_app.dashboard.failed_work import make_failure_rows
from ares_app.dashboard.results import find_neighbours, read_page
from ares_app.dashboard.user_limits import UserLimits
from ares_app.dashboard.view_state import ColumnFilter, ViewState, view_filter_sql
from ares_app.dashboard.views import quality
from ares_app.dashboard.views.quality import list_bins
from tests.app.cli.motion_dataset import RATE_HZ, random_motions, write_motions
from tests.app.contested_producers import CAPTIONER, OTHER_CAPTIONER, make_caption
from tests.app.drawn import commands, component_data, draw, tables
from tests.app.job_waiting import wait_for_job
from tests.ares.review.audited_world import fill_audited_world


def _markdown(app: AppTest) -> str:
    return "\n".join(element.value for element in app.markdown)


def test_behind_a_password_whoever_was_sent_here_says_a_name_and_measures_with_it(
    displayed: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached_reads, "page_limits", lambda: UserLimits(needs_login=True))
    app = draw("review")
    assert [field.label for field in app.text_input] == ["Your name"] and not app.button
    opened: list[dict[str, list[str]]] = []
    monkeypatch.setattr("ares_app.dashboard.navigation.open_page", lambda name, params: opened.append(params))
    draw("review", {"person": "Gil"}).button(key="review.measure").click().run()
    assert opened == [{"person": ["Gil"]}]
    monkeypatch.setattr(quality, "draw_table", lambda *given: given[1] == "quality.truth" and given[3](0))
    draw("quality", {"person": "Gil"})
    assert opened[1]["person"] == ["Gil"]
    (queue,) = (queue for queue in displayed.review.queues() if queue.name == opened[1]["queue"][0])
    assert queue.person == "Gil"
    (shown,) = component_data(draw("review", opened[1]), "review")
    assert shown["question"] == "Is the text true?" and shown["progress"].startswith("you: 0; ")


def test_a_click_on_a_card_opens_its_episode_without_drawing_browse_again(
    displayed: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ares_app.dashboard.views import browse, episode

    drawn: list[str] = []

    def recorded(name: str, render: Callable[[], None]) -> Callable[[], None]:
        def draw() -> None:
            drawn.append(name)
            render()

        return draw

    monkeypatch.setattr(browse, "render", recorded("browse", browse.render))
    monkeypatch.setattr(episode, "render", recorded("episode", episode.render))
    app = AppTest.from_file(str(Path("app/dashboard/main.py").resolve()), default_timeout=300).run()
    episode_id = min(displayed.stores.tables.episodes.ids())
    app.session_state["pages.next"] = ("episode", {"episode": [episode_id]})
    app.run()
    assert drawn == ["browse", "episode"]


def test_the_map_says_what_to_run_until_it_is_drawn_and_then_shows_what_the_filters_leave(
    displayed: Workspace, mapped: Workspace
) -> None:
    cached_reads.clear_caches()
    assert "annotate embed map" in commands(draw("map"))[0]
    cached_reads.use_workspace(mapped)
    app = draw("map", {"f.success": "true"})
    assert "**2 episodes on the map**" in _markdown(app)
    shown = " ".join(str(component.proto) for component in app.get("bidi_component"))
    assert re.search(r"positions.{0,400}", shown) and re.search(r'\\?"count\\?": ?2\b', shown), shown[:2000]
    cached_reads.use_workspace(displayed)


def test_filters_of_the_url_select_and_show_as_chips(displayed: Workspace) -> None:
    app = draw("browse", {"f.dataset": "metaworld_sawyer", "f.success": "true"})
    assert "6 of 25 episodes" in _markdown(app)
    chips = [button for button in app.button if str(button.key).startswith("browse.chip")]
    assert [chip.label for chip in chips] == [
        "dataset\\: metaworld\\_sawyer",
        "outcome \\(success or failure\\)\\: success",
    ]
    app.button(key="browse.chip.filter.success").click().run()
    assert "12 of 25 episodes" in _markdown(app)


def test_a_search_of_the_url_ranks_the_filtered_episodes(displayed: Workspace) -> None:
    app = draw("browse", {"q": "drawer", "f.dataset": "video"})
    assert app.text_input(key="browse.text").value == "drawer"
    # Drawn again, a field does not overwrite what a user has done since.
    assert not app.run().text_input(key="browse.text").proto.set_value
    assert "of 25 episodes" in _markdown(app)
    app.slider(key="browse.score").set_value(0.0).run()
    assert app.query_params["cut"] == "0" and "12 of 25 episodes" in _markdown(app)
    app.text_input(key="browse.text").set_value("").run()
    assert "12 of 25 episodes" in _markdown(app)
    assert "q" not in app.query_params


def test_one_episode_is_compared_as_its_two_newest_captioners_describe_it(
    displayed: Workspace, contested: Workspace
) -> None:
    second = sorted(contested.stores.tables.episodes.read(), key=lambda episode: episode.key)[1]
    newest = replace(CAPTIONER, version="3")
    contested.stores.annotations.add_producer(newest)
    contested.stores.annotations.append([make_caption(second, newest, "open the drawer")])
    contested.sync()
    cached_reads.use_workspace(contested)
    app = draw("compare", {"a": second.episode_id})
    sides = [choice.value for choice in app.selectbox]
    cached_reads.use_workspace(displayed)
    assert sides == [newest.maker_id, OTHER_CAPTIONER.maker_id]


def test_the_filter_takes_sets_tags_and_columns_that_people_set(displayed: Workspace) -> None:
    displayed.sets.create("first-two", displayed.episodes.take(2))
    action = displayed.episodes.take(3).set_values("my_score", 0.5)
    app = draw("browse", {"where": "in_set('first-two') AND my_score > 0.4 AND NOT tagged('nothing')"})
    assert "2 of 25 episodes" in _markdown(app)
    app = draw("browse", {"where": "in_set('none')"})
    assert [error.value.split("\n")[0] for error in app.error] == ["**no set \\'none\\'**"]
    displayed.undo(action.number)
    displayed.sets.delete("first-two")


def test_neighbours_follow_the_episode_where_others_were_excluded(displayed: Workspace) -> None:
    view = ViewState(filters={"dataset": ColumnFilter(column="dataset", values=("metaworld_sawyer",))})
    ids = read_page(view).ids
    known = find_neighbours(view, ids[4], 4)
    assert known.before == tuple(zip(ids[:4], range(4), strict=True))
    assert known.after == tuple(zip(ids[5:], range(5, len(ids)), strict=True))
    assert (known.position, known.count, known.begins, known.ends) == (4, len(ids), True, True)
    assert find_neighbours(view, ids[0], 0).before == ()
    assert find_neighbours(view, ids[-1], len(ids) - 1).after == ()
    excluded = displayed.remove(ids=[ids[1]])
    try:
        assert find_neighbours(view, ids[4], 4).after[0] == (ids[5], 4)
        # Of an episode that was excluded itself: those that stood beside it.
        gone = find_neighbours(view, ids[1], 1)
        assert (gone.before[-1], gone.after[0], gone.is_listed) == ((ids[0], 0), (ids[2], 1), False)
    finally:
        displayed.undo(excluded.number)


def test_an_episode_shows_its_tags_and_notes_and_can_be_selected(displayed: Workspace) -> None:
    episode_id = min(displayed.stores.tables.episodes.ids("grade = 'acceptable'"))
    tagged = displayed.tag("blurred", ids=[episode_id])
    noted = displayed.note("the gripper *slips*", ids=[episode_id])
    try:
        app = draw("episode", {"episode": episode_id})
        (shown,) = component_data(app, "player")
        assert ["blurred", True] in shown["judge"]["tags"]
        assert shown["judge"]["notes"] == ["the gripper *slips*"]
        app.toggle(key=f"episode.select.{episode_id}").set_value(True).run()
        assert "**1 selected**" in _markdown(app)
        app.toggle(key=f"episode.select.{episode_id}").set_value(False).run()
        assert "selected**" not in _markdown(app)
    finally:
        displayed.undo(noted.number)
        displayed.undo(tagged.number)


def test_an_episode_shows_its_grade_and_what_made_it(displayed: Workspace) -> None:
    episode_id = min(displayed.stores.tables.episodes.ids("grade = 'not_acceptable'"))
    app = draw("episode", {"episode": episode_id})
    (shown,) = component_data(app, "player")
    assert shown["judge"]["text"]["badge"]["text"] == "not acceptable"
    table = tables(app)[0]
    assert list(table["annotation"]) == ["quality", "caption", "grade", "motion"]
    assert list(table["made by"])[1:3] == ["hand, version 1", "hand, version 1"]


def test_two_that_are_compared_have_their_cameras_and_events_on_one_clock(displayed: Workspace) -> None:
    ids = displayed.stores.tables.episodes.ids("dataset = 'metaworld_sawyer' AND gripper_events > 0")
    first, second, *_ = sorted(ids)
    (pair,) = component_data(draw("compare", {"a": first, "b": second}), "player")
    names = ["A image", "A wrist_image", "B image", "B wrist_image"]
    assert [camera["name"] for camera in pair["cameras"]] == names
    assert {tick["label"][:2] for tick in pair["ticks"]} == {"A:", "B:"} and pair["judge"] is None


def test_a_set_made_from_a_view_holds_its_episodes_and_is_listed(displayed: Workspace) -> None:
    app = draw("browse", {"f.grade": "acceptable"})
    app.text_input(key="set_form.name").set_value("good")
    next(button for button in app.button if button.label == "Make the set").click().run()
    assert not app.exception
    assert set(displayed.sets.ids(displayed.sets["good"])) == displayed.stores.tables.episodes.ids(
        "grade = 'acceptable'"
    )
    listed = draw("sets", {"set": "good@1"})
    assert "good@1" in tables(listed)[0]["set"]
    assert "ares export good@1" in commands(listed)[0]


def _draw_action(label: str, action: str) -> AppTest:
    """The page Sets with the form of an action open."""
    app = draw("sets", {"set": label})
    return app.button_group(key=f"sets.action.{label}").set_value(action).run()


def test_two_sets_are_compared_by_their_members(displayed: Workspace) -> None:
    ids = sorted(displayed.stores.tables.episodes.ids())
    first, second = displayed.sets.create("left", ids[:9], {}), displayed.sets.create("right", ids[5:], {})
    app = _draw_action(first.label, "compare")
    app.selectbox(key=f"sets.compare.{first.label}").set_value(second.label).run()
    assert f"**4** episodes in both, **5** only in left@1, **{len(ids) - 9}** only in right" in _markdown(app)


def test_an_export_has_the_task_that_is_chosen_and_instructions_by_default(
    displayed: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(
        "ares_app.dashboard.views.sets.start_command", lambda *given: started.append(given[1])
    )
    label = displayed.sets.create("tasks", where="grade IS NOT NULL").label
    app = draw("sets", {"set": label})
    assert app.selectbox(key="sets.task").value == "instruction" and "--task" not in commands(app)[0]
    app.selectbox(key="sets.task").set_value("caption").run()
    app.text_input(key="sets.compose.signals").set_value("torque,force").run()
    app.button(key="sets.export").click().run()
    assert {"--task=caption", "--signals=torque,force"} <= {*shlex.split(commands(app)[0])} & {*started[0]}


@pytest.mark.parametrize(
    ("action", "entered", "made"),
    [
        ("rules", {"sets.compose.by.rules": "task", "sets.compose.cap": 1}, ["even-balanced"]),
        pytest.param(
            *("split", {"sets.compose.val": 0.5, "sets.compose.train": 0.5}, ["even-train", "even-val"]),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_page_makes_the_request_of_the_command_that_it_shows(
    displayed: Workspace,
    monkeypatch: pytest.MonkeyPatch,
    action: str,
    entered: dict[str, object],
    made: list[str],
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(
        "ares_app.dashboard.views.sets.start_command", lambda *given: started.append(given[1])
    )
    ids = sorted(displayed.stores.tables.episodes.ids())
    label = displayed.sets.create("even", ids[::3], {}).label
    app = _draw_action(label, action)
    for key, value in entered.items():
        field: Any = next(field for field in app.main if getattr(field, "key", "") == key)
        field.set_value(value)
    app.run()
    (line,) = [line for line in commands(app) if line.startswith("ares set ")]
    app.button(key="sets.make").click().run()
    program, *words = shlex.split(line)
    # A composition also writes the reasons that the page draws.
    given = [word for word in started[0] if not word.startswith("--reasons=")]
    assert [*given, "--workspace", displayed.path] == words and not app.exception
    assert main([*words, "--json"]) == 0 and program == "ares"
    assert {name for name in displayed.sets if name != "even"} >= {*made}


def test_no_name_that_is_typed_becomes_an_option(
    displayed: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr("ares_app.dashboard.views.sets.start_command", lambda *made: started.append(made[1]))
    label = displayed.sets.create("typed", sorted(displayed.stores.tables.episodes.ids())[:3], {}).label
    app = _draw_action(label, "rules")
    app.text_input(key=f"sets.compose.name.{label}.balanced").set_value("--ids=/etc/passwd").run()
    app.button(key="sets.make").click().run()
    assert not started and "let it begin with another sign" in app.error[0].value
    app.text_input(key=f"sets.compose.name.{label}.balanced").set_value("fine").run()
    app.text_input(key="sets.compose.by.rules").set_value("--ids=/etc/passwd").run()
    app.button(key="sets.make").click().run()
    assert "--balance=--ids=/etc/passwd" in started[0]


def test_what_is_typed_into_one_form_of_a_set_is_not_in_another_and_a_wrong_share_is_one_line(
    displayed: Workspace,
) -> None:
    label = displayed.sets.create("shared", sorted(displayed.stores.tables.episodes.ids())[:3], {}).label
    app = _draw_action(label, "rules")
    app.text_input(key="sets.compose.by.rules").set_value("task").run()
    app.text_input(key="sets.compose.shares").set_value("video=half").run()
    app.button(key="sets.count").click().run()
    assert [error.value.split("\n")[0] for error in app.error] == ["**\\'video\\=half\\' are no shares**"]
    app.button_group(key=f"sets.action.{label}").set_value("split").run()
    assert not [line for line in commands(app) if "task" in line] and not app.exception


@pytest.mark.slow
def test_a_set_composed_on_the_page_has_a_reason_for_each_episode(displayed: Workspace) -> None:
    ids = sorted(displayed.stores.tables.episodes.ids())
    label = displayed.sets.create("odd", ids[1::2], {}).label
    app = _draw_action(label, "rules")
    app.text_input(key="sets.compose.by.rules").set_value("task")
    app.number_input(key="sets.compose.cap").set_value(1).run()
    assert not [text for text in app.caption if " kept, " in text.value]
    app.button(key="sets.count").click().run()
    (counted,) = [text.value for text in app.caption if " kept, " in text.value]
    app.button(key="sets.make").click().run()
    job = wait_for_job(displayed.stores, "set", label)
    assert job.report is not None, (job.reason, job.detail)
    app = _draw_action(label, "rules")
    composed = displayed.sets["odd-balanced"]
    assert counted.startswith(f"{composed.episodes} kept")
    assert f"odd\\-balanced@1 has {composed.episodes} episodes" in app.success[0].value
    reasons = next(table for table in tables(app) if "reason" in table)
    assert set(reasons["episode id"]) == set(ids[1::2])
    assert reasons["reason"].count("kept") == composed.episodes < len(ids[1::2])
    app.text_input(key="sets.compose.shares").set_value("video=.5").run()
    app.button(key="sets.make").click().run()
    assert "the shares sum to 0" in wait_for_job(displayed.stores, "set", label).reason


def test_a_failure_says_its_reason_on_its_episode_and_leads_there_from_quality(displayed: Workspace) -> None:
    captioned = sorted(displayed.stores.tables.episodes.ids("caption IS NOT NULL"))
    (maker_id,) = (
        key
        for key, producer in displayed.stores.annotations.producers().items()
        if producer.annotator == "grade"
    )
    (caption,) = (
        annotation for annotation in displayed.stores.annotations.find_annotations(captioned[:1])
        if annotation.name == "caption"
    )  # fmt: skip
    reason, log = (
        f"no reply of the judge {captioned[0]}",
        FailureLog(displayed.stores.annotations, f"grade/{maker_id}"),
    )
    log.record({caption.annotation_id: RequestError(reason, "after 30 s")}, ())
    try:
        app = draw("episode", {"episode": captioned[0]})
        assert [reason in warning.value and "after 30 s" in warning.value for warning in app.warning] == [
            True
        ]
        assert app.button(key="retry.grade").label == "Try grade again"
        assert not draw("episode", {"episode": captioned[1]}).warning
        assert reason in str(tables(draw("quality")))
        failures = list(list_failures(displayed.stores, FailureSelection(work="grade", texts=[reason])))
        rows = make_failure_rows(displayed.stores, failures)
        assert [row["episode"] for row in rows] == captioned[:1]
    finally:
        log.record({}, [caption.annotation_id])


def test_quality_counts_what_is_stored_and_what_is_missing(displayed: Workspace) -> None:
    app = draw("quality")
    assert app.metric[0].value == "25"
    counts = next(table for table in tables(app) if "annotation" in table)
    assert dict(zip(counts["annotation"], counts["done"], strict=True)) == {
        "caption": 12,
        "grade": 12,
        "motion": 25,
    }
    sources = next(table for table in tables(app) if "declared" in table)
    assert dict(zip(sources["dataset"], sources["kept"], strict=True)) == displayed.status().datasets


@pytest.mark.parametrize("column", ["num_steps", "duration_seconds", "path_length", "num_cameras"])
def test_a_bar_of_a_number_opens_as_many_episodes_as_it_says(displayed: Workspace, column: str) -> None:
    (facet,) = cached_reads.read_facets("", only=column)
    opened = 0
    for part in list_bins(facet):
        view = ViewState().with_filter(ColumnFilter(column=column, low=part.low, high=part.high))
        count = len(displayed.episodes.where(view_filter_sql(view, displayed.episodes.columns)))
        assert part.episodes == count, part
        opened += count
    assert opened == len(displayed.episodes.where(f"{column} IS NOT NULL"))


def test_quality_counts_the_episodes_of_the_filters_by_any_name(displayed: Workspace) -> None:
    app = draw("quality", {"where": "dataset = 'metaworld_sawyer'", "group": "dataset"})
    tiles = {metric.label: metric.value for metric in app.metric}
    assert tiles["episodes"] == str(len(displayed.episodes.where("dataset = 'metaworld_sawyer'")))
    groups = tables(app)[0]
    assert (groups["dataset"], groups["episodes"]) == (["metaworld_sawyer"], [int(tiles["episodes"])])
    refused = draw("quality", {"group": "nothing of this kind"})
    assert "no episode has a" in refused.error[0].value
    assert any(choice.label == "Number" for choice in refused.selectbox), "the rest of the page is there"


def test_a_bar_or_a_row_of_quality_that_is_gone_is_one_line(
    displayed: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = {"part": [{"group": "gone", "outcome": "success", "value": "gone"}]}
    monkeypatch.setattr(quality, "sent_value", lambda *_: sent)
    monkeypatch.setattr(f"{quality.__name__}.st.vega_lite_chart", lambda *_, on_select, **__: on_select())
    monkeypatch.setattr(quality, "draw_table", lambda *given: given[1] == "quality.truth" and given[3](0))
    monkeypatch.setattr(cached_reads, "draw_measurement", lambda *_: displayed.review.measure("gone"))
    said = [error.value for error in draw("quality").error]
    assert ["not drawn any more" in text for text in said] == [True, True, False]
    assert "gone" in said[2]


@pytest.mark.parametrize(
    ("where", "tile"),
    [
        ("grade IS NULL", ":gray[unknown]"),
        ("grade = 'unsure'", ":gray[unknown]"),
        ("grade = 'acceptable'", "100 %"),
    ],
)
def test_what_no_judge_has_decided_is_unknown_and_grey(displayed: Workspace, where: str, tile: str) -> None:
    app = draw("quality", {"where": where})
    assert {metric.label: metric.value for metric in app.metric}["captions accepted"] == tile


def test_the_worst_episodes_have_an_order_and_their_value(displayed: Workspace) -> None:
    worst = displayed.stores.tables.episodes.read_columns(["episode_id", "quality_findings"]).to_pylist()
    most = max(row["quality_findings"] or 0 for row in worst)
    browse = draw("browse", {"sort": "-quality_findings"})
    (order,) = [choice for choice in browse.selectbox if choice.label == "Sort by"]
    assert order.value == "quality_findings" and order.options[:2] == ["Sort: source order", "Sort: dataset"]
    (grid,) = component_data(browse, "grid")
    assert [card["value"] for card in grid["cards"][:2]] == [f"number of findings: {most}"] * 2
    order.select("duration_seconds").run()
    assert dict(browse.query_params) == {"sort": "duration_seconds"}


def test_quality_names_what_the_instruction_audit_says_and_asks_people_about_one_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Stores] = []

    def read_counted(stores: Stores) -> list[InstructionAudit]:
        reads.append(stores)
        return read_audits(stores)

    monkeypatch.setattr("ares.review.read_audits", read_counted)
    with open_workspace(str(tmp_path / "ws"), Settings()) as workspace:
        cached_reads.use_workspace(workspace)
        planted = next(iter(fill_audited_world(workspace.stores)))
        assert draw("quality").button(key="jobs.open.instructions")
        workspace.review.audit_instructions()
        cached_reads.clear_caches()  # as the end of a job does
        alike = draw("quality", {"f.dataset": "alike"})
        assert any("cannot tell here" in caption.value for caption in alike.caption)
        # The audit of another dataset names an episode, too.
        documents: dict[str, Any] = dict(workspace.stores.annotations.find_documents(AUDITS))
        (row,) = documents["known"]["findings"]
        other = next(iter(workspace.stores.tables.episodes.read(where="dataset = 'alike'")))
        named = {**row, "episode_id": other.episode_id, "instruction": other.instruction}
        document = {**documents["alike"], "verdict": "judged", "findings": [named]}
        workspace.stores.annotations.put_documents(AUDITS, {"alike": document})
        cached_reads.clear_caches()
        app = draw("quality", {"f.dataset": "known"})
        findings = next(table for table in tables(app) if "finding" in table)
        assert findings["finding"] == ["another instruction fits better: known"] and findings["episodes"] == [
            1
        ]
        before = len(reads)
        draw("quality", {"f.dataset": "known"})
        assert len(reads) == before, "nothing has changed since the last draw"
        quality._ask_about_instructions("known")
        (queue,) = workspace.review.queues()
        item = workspace.review.queue(queue.name).next("Ada")
        assert (queue.name, queue.question, queue.items) == ("instructions-1", "instruction", 1)
        assert item is not None and item.subject_id == planted


def _draw_signals(dataset: str) -> AppTest:
    """What the page Quality shows of the signals of a dataset once that is opened."""
    script = f"from ares_app.dashboard.dataset_signals import draw_dataset_signals\ndraw_dataset_signals({dataset!r})\n"
    app = AppTest.from_string(script, default_timeout=300).run()
    assert not app.exception, app.exception
    return app


def test_the_meaning_of_signals_is_on_the_page_with_who_said_it(tmp_path: Path) -> None:
    with ares.open(tmp_path / "workspace", create=True) as workspace:
        workspace.ingest(write_motions(tmp_path / "arms", random_motions(5)))
        cached_reads.use_workspace(workspace)
        episode = next(workspace.stores.tables.episodes.read())
        key = DatasetKey(episode.format, episode.dataset, episode.version)
        stored = read_contracts(workspace.stores.annotations, key)
        signal = next(signal for signal in stored.contracts[0].signals if "unit" in signal.estimates)
        stated = stored._replace(stated={signal.name: {"unit": "deg"}})
        write_contracts(workspace.stores.annotations, key, stated)

        app = _draw_signals(episode.dataset)
        columns = next(table for table in tables(app) if "said by" in table)
        names = ("signal", "property", "value", "said by")
        rows = list(zip(*(columns[name] for name in names), strict=True))
        assert [row for row in rows if row[3] == "spec"] == [(signal.name, "unit", "deg", "spec")]
        assert any(row[3].startswith("inferred") for row in rows)


def test_a_planted_fault_is_on_the_page_of_its_dataset_and_a_lane_of_its_episode(tmp_path: Path) -> None:
    motions = random_motions(5)
    motions[2][60, 1] = np.nan
    with ares.open(tmp_path / "workspace", create=True) as workspace:
        workspace.ingest(write_motions(tmp_path / "faulty", motions))
        cached_reads.use_workspace(workspace)
        app = _draw_signals("faulty")
        findings, worst, _ = tables(app)
        assert findings["finding"] == ["A001 not finite"] and worst["faults"] == [2]
        (lag,) = [
            float(match[1]) for text in app.caption if (match := re.search(r"after ([\d.]+) s", text.value))
        ]
        assert abs(lag - 3 / RATE_HZ) < 1 / RATE_HZ

        health = cached_reads.read_health("faulty")
        episode = workspace.stores.tables.episodes.get_episode(health.worst[0].episode_id)
        trajectory = workspace.stores.tables.trajectories.get(episode.episode_id)
        findings_of_episode = check_stored_episode(episode, trajectory, health.typical)
        (lane,) = make_finding_lanes(findings_of_episode, episode.duration_seconds)
        assert isinstance(lane, dict)
        assert (lane["label"], lane["name"], lane["severity"]) == ("Not finite", "A001", "fault")
        assert [span[0] for span in lane["spans"]] == [2.0, 2.1]
        draw("episode", {"episode": episode.episode_id})
        facets = {facet.column: facet for facet in cached_reads.read_facets("")}
        assert facets["quality_codes"].counts == (("A001 not-finite", 1),)


@pytest.mark.parametrize("page", ["browse", "jobs", "map"])
def test_a_command_for_the_workspace_can_be_typed(tmp_path: Path, page: str) -> None:
    """Its path has what Markdown and a shell read otherwise."""
    path = str(tmp_path / "2026-11-29_my 'lab'")
    with open_workspace(path, Settings()) as empty:
        cached_reads.use_workspace(empty)
        (command,) = commands(draw(page))
    assert shlex.split(command)[-2:] == ["--workspace", path]
