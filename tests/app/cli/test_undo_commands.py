"""`ares remove`, `tag`, `undo`, `failures` and the changes of `set`, as typed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.cli.main import main
from ares.errors import RequestError
from ares.workspace import Workspace
from tests.ares.curation.conftest import curated, curated_folder, ids, open_curated

__all__ = ["curated", "curated_folder", "ids", "open_curated"]


@pytest.fixture
def ares(curated: Workspace, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command on the workspace. Returns its exit status, standard output and standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main([*arguments, "-w", curated.location])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def test_a_removal_says_what_goes_asks_and_is_taken_back(ares: Any, ids: list[str]) -> None:
    status, out, err = ares("remove", *ids[:2])
    assert (status, out) == (2, "") and "give --yes" in err and "set good@1 has 2 of them" in err
    status, out, _ = ares("remove", ids[0][:6], ids[1], "--yes", "--note", "blurred")
    assert status == 0 and "removed 2 episodes; `ares undo 1` brings them back" in out
    assert "10 episodes, 2 more are removed" in ares("status")[1]
    assert "was removed" in ares("show", ids[0])[2]
    assert "2 of them removed" in ares("set", "list")[1]
    listed = json.loads(ares("undo", "--list", "--json")[1])
    assert [(item["number"], item["kind"], item["counts"]) for item in listed] == [(1, "remove", True)]
    status, out, _ = ares("undo")
    assert status == 0 and "took back action 1" in out and "`ares undo 2` does it again" in out
    assert "12 episodes\n" in ares("status")[1]


def test_the_answer_no_removes_nothing(ares: Any, ids: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    status, _, err = ares("remove", ids[0])
    assert status == 1 and "remove them? [y/N]" in err and "nothing was removed" in err
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert ares("remove", ids[0])[0] == 0


def test_tags_are_added_listed_shown_and_removed(ares: Any, ids: list[str]) -> None:
    assert "tag blurred added to 5 episodes" in ares("tag", "add", "blurred", "--set", "good")[1]
    assert ares("tag", "list", "--output", "csv")[1].splitlines()[1].startswith("blurred,5,")
    assert "tags         blurred" in ares("show", ids[0])[1]
    assert "tag blurred removed from 5 episodes" in ares("tag", "remove", "blurred")[1]
    assert ares("tag", "list")[1] == "no tags\n"
    assert "give ids, --where" in ares("tag", "add", "x")[2]


def test_sets_are_renamed_noted_and_deleted(ares: Any) -> None:
    assert "renamed good to train@1" in ares("set", "rename", "good", "train")[1]
    assert "noted of train@1" in ares("set", "note", "train", "for the paper")[1]
    assert "for the paper" in ares("set", "list")[1]
    assert ares("set", "delete", "train")[0] == 2
    assert "deleted train@1; `ares undo 3`" in ares("set", "delete", "train", "--yes")[1]


def test_failures_are_listed_and_cleared(ares: Any) -> None:
    assert len(ares("failures", "list", "--output", "jsonl")[1].splitlines()) == 12
    assert "cleared 12 failures" in ares("failures", "clear", "--annotator", "grade", "--yes")[1]
    assert ares("failures", "list")[1] == "no failures\n"
    assert "no failure matches" in ares("failures", "clear", "--yes")[2]


def test_a_purge_says_what_is_kept(ares: Any, ids: list[str]) -> None:
    status, out, _ = ares("remove", "--purge", ids[0], "--yes")
    assert status == 0 and "deleted 1 episode for good" in out and "a hash of each identity is kept" in out
    assert "a purge cannot be taken back" in ares("undo", "1")[2]
    assert "is not the number of an action" in _usage_error(ares, "undo", "x")


def _usage_error(ares: Any, *arguments: str) -> str:
    try:
        return str(ares(*arguments)[2])
    except SystemExit:
        return "is not the number of an action"


def test_nothing_is_removed_without_a_selection(ares: Any) -> None:
    assert "no episodes are named" in ares("remove", "--yes")[2]
    assert "no episode is selected" in ares("remove", "--where", "num_steps < 0", "--yes")[2]


def test_user_vectors_are_listed_and_deleted(ares: Any, curated: Workspace, ids: list[str]) -> None:
    curated.add_vectors("mine", {id: [1.0, float(number)] for number, id in enumerate(ids)})
    assert "vectors of your own: mine; `ws.remove_vectors(NAME)` of Python deletes them" in ares("status")[1]
    assert json.loads(ares("status", "--json")[1])["tables"]["vectors/mine"]["own"] is True
    assert curated.remove_vectors("mine", ids[:2]) == 2
    assert curated.remove_vectors("mine") == len(ids) - 2
    with pytest.raises(RequestError, match="no vectors of your own 'mine': there are: none"):
        curated.remove_vectors("mine")
    assert "mine" not in ares("status")[1] and ares("doctor")[0] == 0
    # A space without vectors takes those of another length.
    assert curated.add_vectors("mine", {ids[0]: [1.0, 2.0, 3.0]}) == 1
    assert curated.remove_vectors("mine", where=f"episode_id = '{ids[0]}'") == 1
