"""Counts by group: they add up, each filter selects its group again, and views narrow what is counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from ares.episode import Record
from ares.errors import RequestError
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace

_OPERATORS = ["Ada", "Bob", 'O\'Neil "Bo"', "50% \\ {a}", "Zoë", 7, True, None, ["Ada", "Bob"], ""]
_TASKS = ["open the drawer", "it's done; DROP TABLE episodes", ""]


def _open(folder: Path, make_record: Callable[..., Record]) -> Workspace:
    opened = open_workspace(str(folder / "ws"), Settings())
    records = [
        make_record(
            number,
            instruction=_TASKS[number % 3],
            success=[True, False, None, True][number % 4],
            metadata={
                **({} if number % 11 == 10 else {"operator": _OPERATORS[number % len(_OPERATORS)]}),
                "recorded_at": f"2026-11-{1 + number % 3:02d}T10:00:00Z",
                "note": {"weather": "rain"},
            },
        )
        for number in range(60)
    ]
    opened.stores.tables.episodes.add(records)
    return opened


@pytest.fixture(scope="module")
def workspace(
    tmp_path_factory: pytest.TempPathFactory, make_record: Callable[..., Record]
) -> Iterator[Workspace]:
    with _open(tmp_path_factory.mktemp("groups"), make_record) as opened:
        yield opened


@pytest.mark.parametrize(
    "by", ["task", "operator", "day", "dataset", "success", "num_steps", "robot", "scene_id"]
)
def test_each_group_is_selected_again_by_its_filter(workspace: Workspace, by: str) -> None:
    if by == "scene_id":
        with pytest.raises(RequestError, match="no episode has a 'scene_id'"):
            workspace.episodes.count_by(by)
        return
    groups = workspace.episodes.count_by(by)
    assert sum(group.episodes for group in groups) == len(workspace.episodes)
    for group in groups:
        assert len(workspace.episodes.where(group.where)) == group.episodes, group


def test_what_is_counted_adds_up(workspace: Workspace) -> None:
    groups = workspace.episodes.count_by("task")
    assert groups.statistics is not None
    total = groups.statistics.total
    for name in ("episodes", "successes", "failures", "acceptable", "graded", "reviewed"):
        assert sum(getattr(group, name) for group in groups) == getattr(total, name)
    assert (total.successes, total.failures) == (30, 15)
    seconds = sum(workspace.episodes.to_arrow(["duration_seconds"])["duration_seconds"].to_pylist())
    assert math.isclose(total.hours, seconds / 3600)
    low, high = total.success_interval
    assert low < 2 / 3 < high
    assert total.success_share == 2 / 3


def test_groups_are_those_of_the_view(workspace: Workspace) -> None:
    view = workspace.episodes.where("success")
    assert sum(group.episodes for group in view.count_by("task")) == len(view)
    assert sum(group.episodes for group in view.take(7).count_by("task")) == 7
    assert sum(group.episodes for group in view.sample(5).where("num_steps > 0").count_by("day")) == 5
    nothing = workspace.episodes.where("num_steps < 0").count_by("operator")
    assert not nothing and nothing.statistics is not None
    assert nothing.statistics.total.to_json()["success_share"] is None


def test_the_largest_group_comes_first_and_one_without_a_value_is_said(workspace: Workspace) -> None:
    groups = workspace.episodes.count_by("operator")
    assert [group.episodes for group in groups] == sorted((group.episodes for group in groups), reverse=True)
    assert None in {group.value for group in groups}
    assert "(none)" in repr(groups)


@pytest.mark.parametrize(("by", "words"), [("tsk", "did you mean 'task'"), ("duration_seconds", "float64")])
def test_a_name_that_makes_no_groups_is_refused(workspace: Workspace, by: str, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        workspace.episodes.count_by(by)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["success", "num_steps > 3", "instruction = ''", ""]), st.sampled_from(["task", "day"])
)
def test_groups_are_counted_as_by_hand(workspace: Workspace, where: str, by: str) -> None:
    view = workspace.episodes.where(where) if where else workspace.episodes
    expected: dict[str | None, int] = {}
    for episode in view:
        text = episode.instruction if by == "task" else str(episode.metadata["recorded_at"])[:10]
        expected[text or None] = expected.get(text or None, 0) + 1
    assert {group.value: group.episodes for group in view.count_by(by)} == expected


def test_an_episode_that_ended_partial_or_aborted_is_known_and_no_success(
    tmp_path: Path, make_record: Callable[..., Record]
) -> None:
    workspace = _open(tmp_path, make_record)
    first, second, *_ = sorted(workspace.stores.tables.episodes.ids("success"))
    before = workspace.episodes.count_by("task").statistics
    for episode_id, outcome in ((first, "partial"), (second, "aborted")):
        workspace.correct(episode_id, outcome=outcome, person="Ada")
    workspace.sync()
    after = workspace.episodes.count_by("task").statistics
    assert before is not None and after is not None
    assert (after.total.others, after.total.known) == (2, before.total.known)
    assert after.total.success_share == 28 / 45
    workspace.close()
