"""What an interrupted action has left in the log alone is completed by the next command, or named by it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ares.curation import choose_shown_producers, create_set, purge, undo
from ares.doctor import run_checks
from ares.errors import StoreError
from ares.jobs import EpisodeSelection
from ares.store import EpisodeTable, read_history
from ares.store.lance.segments import SegmentTable
from ares.store.sync import apply
from ares.workspace import Workspace
from ares_app.cli.main import main
from tests.ares.curation.conftest import CAPTION
from tests.ares.curation.test_removal import rows
from tests.thinning import some_by_day

Open = Callable[[], Workspace]
_ALL = "num_steps > 0"
# Where an action stops: before the tables are changed, in the middle, and before their state is saved.
_STEPS = (
    "read_history",
    "write_changes",
    "refresh_texts",
    "forget_restored_episodes",
    "refresh_conflicts",
    "save_applied_state",
)


@contextmanager
def interrupted(monkeypatch: pytest.MonkeyPatch, step: str, owner: Any = apply) -> Iterator[None]:
    """Within the block a function that brings the tables up to date ends the command instead."""

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, stop)
        with pytest.raises(KeyboardInterrupt):
            yield


def kinds(workspace: Workspace) -> list[str]:
    return [action.kind for action in read_history(workspace.stores.annotations).actions]


@pytest.mark.parametrize("step", some_by_day(_STEPS))
def test_a_reader_after_an_interrupted_undo_shows_all_that_came_back(
    open_curated: Open, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    first = open_curated()
    before = rows(first)
    first.remove(where=_ALL)
    with interrupted(monkeypatch, step):
        first.undo()
    again = open_curated()
    assert rows(again) == before
    assert again.sets.create("all", where=_ALL).episodes == 12
    assert run_checks(again.stores) == []


_REMOVAL_STEPS = [
    (EpisodeTable, "delete"),
    (SegmentTable, "delete_episodes"),
    (apply, "move_out_removed_episodes"),
    (apply, "save_applied_state"),
]


@pytest.mark.parametrize(("owner", "step"), some_by_day(_REMOVAL_STEPS, 2, rows=True))
def test_a_reader_after_an_interrupted_removal_shows_none_of_the_removed(
    open_curated: Open, monkeypatch: pytest.MonkeyPatch, owner: Any, step: str
) -> None:
    first = open_curated()
    with interrupted(monkeypatch, step, owner):
        first.remove(where="episode_id < '8'")
    again = open_curated()
    left = [row["episode_id"] for row in rows(again)]
    assert 0 < len(left) < 12 and min(left) >= "8" and again.stores.tables.segments.count() == len(left)
    assert run_checks(again.stores) == []


@pytest.mark.slow
@pytest.mark.parametrize("step", ["write_changes", "refresh_conflicts"])
@pytest.mark.parametrize("number", [2, None])
def test_the_same_undo_again_takes_back_nothing_else(
    open_curated: Open, monkeypatch: pytest.MonkeyPatch, number: int | None, step: str
) -> None:
    """Also where the rows were there already, and what follows from them was not."""
    first = open_curated()
    first.tag("odd", where=_ALL)
    first.remove(where=_ALL)
    with interrupted(monkeypatch, step):
        first.undo(number)
    again = open_curated()
    assert again.undo(number).undone.number == 2
    assert kinds(again) == ["tag", "remove", "undo"] and len(again.episodes) == 12
    assert again.undo().undone.number == 1, "a new undo is one"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tag", "untag", "note"])
def test_the_same_action_again_is_recorded_once(
    open_curated: Open, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    first = open_curated()
    with interrupted(monkeypatch, "refresh_texts"):
        getattr(first, name)("odd", where=_ALL)
    again = open_curated()
    getattr(again, name)("odd", where=_ALL)
    assert kinds(again) == [name]
    getattr(again, name)("odd", where=_ALL + " AND episode_id > '8'")
    assert kinds(again) == [name, name], "another selection is another action"


def test_the_same_removal_again_is_answered(
    open_curated: Open, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = open_curated()
    with interrupted(monkeypatch, "move_out_removed_episodes"):
        first.remove(where=_ALL)
    line = ["remove", "--where", _ALL, "--yes", "-w", first.path, "--json"]
    assert main(line) == 0
    answer = capsys.readouterr()
    assert json.loads(answer.out)["action"]["number"] == 1 and "completed action 1" in answer.err
    assert main(line) == 2, "a new removal has nothing to remove"
    assert kinds(open_curated()) == ["remove"]


@pytest.mark.slow
@pytest.mark.parametrize(("step", "is_same"), [("delete_rows_of", False), ("erase_deleted_table_rows", True)])
def test_a_purge_is_completed_by_the_next_command_and_by_the_same_one(
    open_curated: Open,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    step: str,
    is_same: bool,
) -> None:
    first, line = open_curated(), ["remove", "--purge", "--where", _ALL, "--yes"]

    def stop(*_: object, **__: object) -> None:
        raise StoreError("the disk failed")

    with monkeypatch.context() as patch:
        patch.setattr(purge, step, stop)
        assert main([*line, "-w", first.path]) == 2
    capsys.readouterr()
    following = line if is_same else ["set", "list"]
    assert main([*following, "-w", first.path]) == 0
    answer = capsys.readouterr()
    assert "completed a purge of 12 episodes" in answer.err
    assert ("already done: action 1 deleted 12 episodes for good" in answer.out) == is_same
    assert kinds(open_curated()) == ["purge"]
    assert main(["doctor", "-w", first.path]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("selection", [["--where", _ALL], ["IDS"]])
def test_a_purge_given_again_is_already_done(
    open_curated: Open, tmp_path: Path, capsys: pytest.CaptureFixture[str], selection: list[str]
) -> None:
    first, listed = open_curated(), tmp_path / "ids.txt"
    listed.write_text("\n".join(first.stores.tables.episodes.ids()))
    line = ["remove", "--purge", *(str(listed) if word == "IDS" else word for word in selection), "--yes"]
    assert main([*line, "-w", first.path]) == 0
    capsys.readouterr()
    assert main([*line, "-w", first.path]) == 0
    assert "already done: action 1 deleted 12 episodes for good" in capsys.readouterr().out
    assert main(["remove", "--purge", "--where", "num_steps > 1", "--yes", "-w", first.path]) == 2
    assert kinds(open_curated()) == ["purge"]


def test_an_open_workspace_completes_what_another_command_left(
    open_curated: Open, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, reader = open_curated(), open_curated()
    assert len(reader.episodes) == 12
    monkeypatch.setattr("ares.store.stores.time.monotonic", lambda: 1e9)  # more than a second later
    with interrupted(monkeypatch, "move_out_removed_episodes"):
        first.remove(where=_ALL)
    assert len(reader.episodes) == 0
    assert "completed action 1, which an interrupted command left" in capsys.readouterr().err


def test_an_open_workspace_is_read_while_the_log_cannot_be_reached(
    open_curated: Open, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = open_curated()
    assert len(reader.episodes) == 12

    def fail() -> None:
        raise StoreError("the server does not answer")

    monkeypatch.setattr("ares.store.stores.time.monotonic", lambda: 1e9)
    monkeypatch.setattr(reader.stores.annotations, "position", fail)
    assert len(reader.episodes) == 12
    said = capsys.readouterr().err
    assert said.count("the tables may lack something: the server does not answer") == 1


@pytest.mark.slow
@pytest.mark.parametrize("step", ["write_changes", "refresh_conflicts"])
def test_a_choice_of_producers_is_followed_by_the_next_reader(
    open_curated: Open, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    first = open_curated()
    with interrupted(monkeypatch, step):
        choose_shown_producers(first.stores, {"caption": CAPTION.maker_id})
    again = open_curated()
    assert len(again.episodes) == 12 and again.stores.find_lag() is None
    assert run_checks(again.stores) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", some_by_day([["search", "zebra"], ["search", "--where", _ALL], ["status"]])
)
def test_a_reader_that_cannot_complete_it_says_so(
    open_curated: Open,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
) -> None:
    first = open_curated()
    first.remove(where=_ALL)
    with interrupted(monkeypatch, "write_changes"):
        first.undo()

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(apply, "write_changes", full)
        assert main([*command, "-w", first.path, "-q"]) == 1
        assert "do not show action 2" in capsys.readouterr().err
        for line in (["set", "create", "x", "--where", _ALL], ["tag", "add", "x", "--where", _ALL], ["undo"]):
            assert main([*line, "-w", first.path]) == 2
            assert "do not show" in capsys.readouterr().err
    assert main([*command, "-w", first.path, "-q"]) == 0
    assert kinds(open_curated()) == ["remove", "undo"]


@pytest.mark.slow
@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_disk_that_fails_during_an_action_is_told_and_whether_the_action_is_recorded(
    open_curated: Open,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_recorded: bool,
) -> None:
    first = open_curated()

    def fail(*_: object, **__: object) -> None:
        raise StoreError("the disk failed")

    with monkeypatch.context() as patch:
        if is_recorded:
            patch.setattr(apply, "move_out_removed_episodes", fail)
        else:
            patch.setattr(type(first.stores.annotations), "put_documents", fail)
        assert main(["remove", "--where", _ALL, "--yes", "-w", first.path]) == 2
    error = capsys.readouterr().err
    assert "the disk failed" in error
    assert ("action 1 is recorded, and the next command completes it" in error) == is_recorded
    again = open_curated()
    assert kinds(again) == ["remove"] * is_recorded and len(again.episodes) == 12 * (not is_recorded)


@pytest.mark.slow
def test_what_a_running_job_will_show_is_named_and_not_frozen(
    open_curated: Open, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    writer, person = open_curated(), open_curated()
    with writer.stores.write_lock("ares annotate"):
        person.remove(where="episode_id < '8'")
        assert main(["status", "-w", writer.path]) == 0
        assert "do not show action 1 yet, as ares annotate" in capsys.readouterr().err
        with pytest.raises(StoreError, match="do not show everything"):
            create_set(person.stores, "x", EpisodeSelection(where=_ALL))
        writer.sync()
    capsys.readouterr()
    assert main(["status", "-w", writer.path]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "act",
    [
        lambda workspace: workspace.tag("odd", where=_ALL),
        lambda workspace: workspace.remove(where=_ALL),
        lambda workspace: workspace.sets.create("x", where=_ALL),
        lambda workspace: workspace.sets.rename("good", "better"),
        lambda workspace: choose_shown_producers(
            workspace.stores, {"caption": CAPTION.maker_id, "embed": "newest"}
        ),
        lambda workspace: undo(workspace.stores),
    ],
)
def test_an_action_is_stored_whole_or_not_at_all(
    open_curated: Open, monkeypatch: pytest.MonkeyPatch, act: Callable[[Workspace], Any]
) -> None:
    """Whatever write of the log is the last: nothing that the doctor finds, and the same again does it."""
    from ares.store.log.sqlite import SqliteAnnotationStore

    for count in range(1, 20):
        workspace = open_curated()
        if not kinds(workspace):
            workspace.note("first", where=_ALL)
        before, left = _log(workspace), [count]

        def counted(name: str, left: list[int] = left) -> Callable[..., Any]:
            real = getattr(SqliteAnnotationStore, name)

            def write(*arguments: Any) -> Any:
                left[0] -= 1
                if left[0] == 0:
                    raise KeyboardInterrupt
                return real(*arguments)

            return write

        with monkeypatch.context() as patch:
            for name in ("put_documents", "claim_document", "drop_documents"):
                patch.setattr(SqliteAnnotationStore, name, counted(name))
            try:
                act(workspace)
            except KeyboardInterrupt:
                if len(kinds(workspace)) == 1:
                    assert _log(open_curated()) == before
                    continue
            break  # it was done, or it was recorded and the tables were to follow
    assert count > 1
    assert len(open_curated().episodes) in (0, 12)  # a reader completes what was recorded
    assert run_checks(open_curated().stores) == []


def _log(workspace: Workspace) -> str:
    log = workspace.stores.annotations
    return str([(name, list(log.find_documents(name))) for name in log.collections()])
