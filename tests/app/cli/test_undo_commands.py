"""`ares remove`, `tag`, `undo`, `failures` and the changes of `set`, as typed."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from ares.workspace import Workspace
from tests.ares.curation.conftest import curated, curated_folder, ids, open_curated
from tests.workspaces import CommandResult

Run = Callable[..., CommandResult]
__all__ = ["curated", "curated_folder", "ids", "open_curated"]


@pytest.fixture
def ares(curated: Workspace, run_ares: Run) -> Run:
    """Runs a command on the workspace."""
    return lambda *arguments: run_ares(*arguments, "-w", curated.location)


def test_a_removal_says_what_goes_asks_and_is_taken_back(ares: Run, ids: list[str]) -> None:
    asked = ares("remove", *ids[:2])
    assert (asked.status, asked.out) == (2, "")
    assert "give --yes" in asked.err and "set good@1 has 2 of them" in asked.err
    done = ares("remove", ids[0][:6], ids[1], "--yes", "--note", "blurred")
    assert done.status == 0 and "removed 2 episodes; `ares undo 1` brings them back" in done.out
    assert "10 episodes, 2 more are removed" in ares("status").out
    assert "was removed" in ares("show", ids[0]).err
    assert "2 of them removed" in ares("set", "list").out
    listed = ares("undo", "--list", "--json").json
    assert [(item["number"], item["kind"], item["counts"]) for item in listed] == [(1, "remove", True)]
    done = ares("undo")
    assert done.status == 0 and "took back action 1" in done.out and "`ares undo 2` does it again" in done.out
    assert "12 episodes\n" in ares("status").out


def test_the_answer_no_removes_nothing(ares: Run, ids: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    done = ares("remove", ids[0])
    assert done.status == 1 and "remove them? [y/N]" in done.err and "nothing was removed" in done.err
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert ares("remove", ids[0]).status == 0


def test_tags_are_added_listed_shown_and_removed(ares: Run, ids: list[str]) -> None:
    assert "tag blurred added to 5 episodes" in ares("tag", "add", "blurred", "--where", "in_set('good')").out
    assert ares("tag", "list", "--output", "csv").out.splitlines()[1].startswith("blurred,5,")
    assert "tags         blurred" in ares("show", ids[0]).out
    assert "tag blurred removed from 5 episodes" in ares("tag", "remove", "blurred").out
    assert ares("tag", "list").out == "no tags\n"
    assert "give ids, a file of ids or --where" in ares("tag", "add", "x").err


def test_sets_are_renamed_noted_and_deleted(ares: Run) -> None:
    assert "renamed good to train@1" in ares("set", "rename", "good", "train").out
    assert "noted of train@1" in ares("set", "note", "train", "for the paper").out
    assert "for the paper" in ares("set", "list").out
    assert ares("set", "delete", "train").status == 2
    assert "deleted train@1; `ares undo 3`" in ares("set", "delete", "train", "--yes").out


def test_failures_are_listed_and_accepted(ares: Run) -> None:
    assert len(ares("failures", "list", "--output", "jsonl").out.splitlines()) == 12
    assert "accepted 12 failures" in ares("failures", "accept", "--annotator", "grade", "--yes").out


def test_a_purge_says_what_is_kept(ares: Run, ids: list[str]) -> None:
    done = ares("remove", "--purge", ids[0], "--yes")
    assert done.status == 0 and "deleted 1 episode for good" in done.out
    assert "a hash of each identity is kept" in done.out
    assert "a purge cannot be taken back" in ares("undo", "1").err
    assert "is not the number of an action" in ares("undo", "x").err


def test_nothing_is_removed_without_a_selection(ares: Run) -> None:
    assert "no episodes are named" in ares("remove", "--yes").err
    assert "no episode is selected" in ares("remove", "--where", "num_steps < 0", "--yes").err
