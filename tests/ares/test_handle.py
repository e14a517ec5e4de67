"""The handle: opening, closing, its verbs with typed reports, and what a type checker says of a misspelt argument."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ares
from ares.curation import Sets
from ares.errors import RequestError
from ares.jobs import AnnotateRequest, EpisodeSelection
from ares.registry import operations
from ares.settings import Settings
from ares.store import reset_applied_sequence
from ares.workspace import Workspace, open_workspace
from tests.workspaces import copy_workspace

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Path:
    folder = tmp_path_factory.mktemp("handle") / "ws"
    with open_workspace(folder, Settings()) as workspace:
        workspace.ingest(demo_samples / "rlds", rate_hz=10, quiet=True)
    return folder


@pytest.fixture
def ws(folder: Path, tmp_path: Path) -> Iterator[Workspace]:
    with open_workspace(copy_workspace(folder, tmp_path / "workspace"), Settings()) as workspace:
        yield workspace


def test_a_typing_error_makes_no_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "typo", str(tmp_path / "typo")):
        with pytest.raises(RequestError, match=r"there is no workspace at .*typo'.*create=True"):
            ares.open(path)
    assert not list(tmp_path.iterdir())
    with ares.open(tmp_path / "new", create=True) as workspace:
        assert (tmp_path / "new" / "workspace.json").is_file() and "0 episodes" in repr(workspace)


def test_the_index_is_left_to_the_job_that_writes(video_ws: Workspace) -> None:
    with open_workspace(video_ws.path, Settings()) as page:
        reset_applied_sequence(video_ws.stores.tables)
        with video_ws.stores.write_lock("a job"):
            assert page.sync() == 0
            assert video_ws.sync() == 12
            reset_applied_sequence(video_ws.stores.tables)
        assert page.sync() == 12
        assert page.sync() == 0


def test_a_job_waits_for_a_store_that_is_away_and_a_page_does_not(ws: Workspace) -> None:
    log = ws.stores.annotations
    with ws.stores.write_lock("a job"):
        assert log.retry_seconds > 0
    assert log.retry_seconds == 0
    with pytest.raises(KeyError), ws.stores.write_lock("a job"):
        raise KeyError
    assert log.retry_seconds == 0


def test_a_closed_workspace_says_so(ws: Workspace) -> None:
    ws.close()
    ws.close()
    assert repr(ws) == f"Workspace({ws.path!r}: closed)"
    with pytest.raises(RequestError, match="the workspace is closed"):
        ws.status()


def test_the_repr_says_what_is_inside(ws: Workspace) -> None:
    assert repr(ws) == f"Workspace({ws.path!r}: 12 episodes, 1 dataset)"
    ws.sets.create("short", where="num_steps < 50")
    assert repr(ws).endswith("1 dataset, sets: short)")
    assert ws._repr_html_().count("<img") == 6


def test_reports_are_the_documents_of_the_commands(ws: Workspace, demo_samples: Path) -> None:
    report = ws.ingest(demo_samples / "video", limit=4, quiet=True)
    assert (report.planned, report.kept, report.failed) == (4, 4, 0)
    assert list(report.to_json())[:4] == ["planned", "kept", "already", "failed"]
    (motion,) = ws.annotate("motion", quiet=True)
    assert (motion.annotator, motion.kept, motion.cost.usd) == ("motion", 16, 0.0)
    (estimate,) = ws.estimate("motion")
    assert (estimate.planned, estimate.already) == (16, 16)
    status = ws.status()
    assert status.annotations["motion"].done == status.episodes == 16
    assert [producer.current for producer in ws.producers()["motion"]] == [True]


def test_sets_from_filters_hits_views_and_files(ws: Workspace, tmp_path: Path) -> None:
    hits = ws.search("drawer", by="captions")
    assert hits and all(hit.episode.episode_id == hit.episode_id for hit in hits)
    by_hits, by_view = ws.sets.create("a", hits), ws.sets.create("a", ws.episodes.take(3))
    assert (by_hits.label, by_view.label, by_view.episodes) == ("a@1", "a@2", 3)
    assert sorted(by_view.ids()) == sorted(ws.episodes.take(3).ids())
    assert set(by_hits.members.ids()) == {hit.episode_id for hit in hits}
    (tmp_path / "ids.txt").write_text("\n".join(ws.episodes.take(3).ids()))
    assert ws.sets.create("a", tmp_path / "ids.txt").label == "a@2"
    diff = ws.sets.diff("a@1", "a@2")
    assert repr(diff) == f"SetDiff(added={diff.added}, removed={diff.removed}, common={diff.common})"
    assert list(ws.sets) == ["a"] and "a" in ws.sets and len(Sets(ws.stores.annotations).versions("a")) == 2
    with pytest.raises(RequestError, match="the set would be empty"):
        ws.sets.create("b", [])


def test_what_is_removed_or_tagged_comes_back(ws: Workspace) -> None:
    assert ws.remove(ws.episodes.take(2), note="blurred").count == 2
    assert len(ws.episodes) == 10
    ws.undo()
    assert len(ws.episodes) == 12
    assert not len(ws.episodes.where("tagged('short')"))
    ws.tag("short", where="num_steps < 50")
    tagged = ws.episodes.where("array_has(tags, 'short')")
    (use,) = [use for use in ws.tags if use.tag == "short"]
    assert 0 < len(tagged) == use.episodes == len(ws.episodes.where("num_steps < 50"))
    ws.untag("short", tagged.take(1))
    assert len(tagged) == len(ws.episodes.where("num_steps < 50")) - 1
    with pytest.raises(RequestError, match="nothing says which episodes: give ids, where"):
        ws.remove()


@pytest.mark.parametrize(
    "ids", [[], (), iter(()), np.array([], str)], ids=["list", "tuple", "iterator", "array"]
)
def test_a_list_without_any_id_selects_nothing_whatever_else_is_given(
    ws: Workspace, ids: Iterable[str]
) -> None:
    with pytest.raises(RequestError, match="no episode is selected: the list of episodes is empty"):
        ws.remove(ids, where="num_steps > 0")
    with pytest.raises(RequestError, match="the set would be empty: the list of episodes is empty"):
        ws.sets.create("none", ids, where="num_steps > 0")
    with pytest.raises(RequestError, match="the set would be empty: the list of segments is empty"):
        ws.sets.create_spans("none", (), where="verb = 'pick'")
    assert len(ws.episodes) == 12


def test_a_recipe_goes_with_a_list_alone(ws: Workspace) -> None:
    with pytest.raises(RequestError, match="a recipe goes with a list of ids alone: leave out where"):
        ws.sets.create("some", ws.episodes.take(3), {"by": "hand"}, where="num_steps > 10000")
    with pytest.raises(RequestError, match="a recipe goes with a list of ids alone: give ids"):
        ws.sets.create("some", recipe={"by": "hand"})


def test_one_selection_serves_a_set_a_tag_and_a_note(ws: Workspace) -> None:
    selection = EpisodeSelection(search="drawer", by="captions", limit=3)
    found = {hit.episode_id for hit in ws.search("drawer", by="captions", limit=3)}
    made = ws.sets.create("found", selection)
    assert set(made.ids()) == found
    assert made.recipe == {"where": "", "search": "drawer", "ids": 0, "limit": 3, "by": "captions"}
    recipe = {"search": "drawer", "limit": 3, "by": "captions"}
    for action in (ws.tag("found", selection), ws.note("look again", selection)):
        assert (action.count, action.details["recipe"]) == (len(found), recipe)
    with pytest.raises(RequestError, match="a selection has all conditions: leave out where"):
        ws.tag("found", selection, where="success")
    with pytest.raises(RequestError, match="a set is selected as a whole"):
        ws.tag("found", set="found", search="drawer")


def test_an_export_is_reported_and_its_folder_complete(ws: Workspace, tmp_path: Path) -> None:
    ws.sets.create("short", where="num_steps < 50")
    report = ws.export("short", tmp_path / "out", format="parquet", quiet=True)
    assert report.episodes == ws.sets["short"].episodes and (tmp_path / "out" / "manifest.json").is_file()
    with pytest.raises(RequestError, match="no exporter 'rlsd'"):
        ws.export("short", tmp_path / "bad", format="rlsd")
    with pytest.raises(RequestError, match="no task 'title': there are: instruction, caption"):
        ws.export("short", tmp_path / "bad", task="title")  # type: ignore[arg-type]
    with pytest.raises(RequestError, match="the rate of an export is a positive number"):
        ws.export("short", tmp_path / "bad", fps=0)
    assert not (tmp_path / "bad").exists()


@pytest.mark.parametrize("other", [{"ids": ("a",)}, {"set": "train"}, {"search": "drawer"}])
def test_a_request_of_a_run_takes_no_list_set_or_search(other: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=f"annotators run over a filter: got .*{next(iter(other))}"):
        AnnotateRequest(names=("motion",), selection=EpisodeSelection(where="success", **other))


def test_a_run_that_cannot_be_meant_is_refused_by_its_quote_too(ws: Workspace) -> None:
    for verb in (ws.annotate, ws.estimate):
        with pytest.raises(RequestError, match="no annotator is named"):
            verb()
        with pytest.raises(RequestError, match="annotators are named one by one: got a list"):
            verb(["motion", "embed"])  # type: ignore[arg-type]
        with pytest.raises(RequestError, match="a reason goes with a retry: got the reason 'server'"):
            verb("motion", reason="server")
        with pytest.raises(RequestError, match="wrong number of memory_gb: -1; give a number above 0"):
            verb("motion", per_worker={"memory_gb": -1})
        with pytest.raises(RequestError, match="a model goes with one annotator: got caption grade"):
            verb("caption", "grade", model="hf:x")


def test_a_missing_package_is_one_clear_line(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "_entries", lambda: ())
    monkeypatch.setattr(operations, "_loaded", {})
    with pytest.raises(RequestError, match="no operation 'ingest'"):
        ws.ingest("data")


@pytest.mark.slow
def test_dashboards_run_beside_a_notebook_and_end_with_their_close(ws: Workspace) -> None:
    from urllib.error import URLError
    from urllib.request import urlopen

    first, second = (ares.app(ws, port=0, open_browser=False) for _ in range(2))
    try:
        for dashboard in (first, second):
            with urlopen(f"{dashboard.url}/api/health", timeout=300) as answer:
                assert answer.status == 200
            assert dashboard.url in dashboard._repr_html_() and len(ws.episodes) == 12
        with pytest.raises(RequestError, match="cannot listen on"):
            ares.app(ws, port=int(first.url.rpartition(":")[2]), open_browser=False)
        first.close()
        with pytest.raises(URLError):
            urlopen(f"{first.url}/api/health", timeout=300)
        with urlopen(f"{second.url}/api/health", timeout=300) as answer:
            assert answer.status == 200
    finally:
        first.close()
        second.close()


@pytest.mark.slow
def test_a_dashboard_ends_with_the_program_that_opened_it(ws: Workspace) -> None:
    from urllib.error import URLError
    from urllib.request import urlopen

    program = "import ares, sys; print(ares.app(ares.open(sys.argv[1]), port=0, open_browser=False).url)"
    done = subprocess.run(
        [sys.executable, "-c", program, ws.path], capture_output=True, text=True, check=True
    )
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            urlopen(f"{done.stdout.strip()}/api/health", timeout=300).close()
        except URLError:
            return
        time.sleep(0.05)
    pytest.fail("the dashboard goes on")


def test_packages_say_that_they_are_typed() -> None:
    assert all((ROOT / package / "py.typed").is_file() for package in ("ares", "ingest", "annotators", "app"))
