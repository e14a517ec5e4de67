"""Search and Browse show one episode of each content; no column is printed twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_app.cli.main import main
from ares_app.dashboard import cached_reads
from ares_app.dashboard.results import read_page, read_shown_filter
from ares_app.dashboard.view_state import ColumnFilter, ViewState, view_from_params, view_to_params
from tests.ares.curation.test_composition import draw_course, make_record


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """Six episodes of dataset a; two copies of each of the first three in b; one episode of b alone."""
    with open_workspace(str(tmp_path_factory.mktemp("copied") / "w"), Settings()) as workspace:
        records = [make_record(f"{number}", draw_course(number)) for number in range(6)]
        for number in range(3):
            for turn in "xy":
                record = make_record(f"{number}{turn}", draw_course(number), dataset="b")
                content = replace(record.episode, content_hash=f"a/{number}")
                records.append(replace(record, episode=content))
        records.append(make_record("last", draw_course(9), dataset="b"))
        workspace.stores.tables.episodes.add(records)
        assert workspace.stores.tables.episodes.mark_duplicates() == 6
        yield workspace


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ([], 7),
        (["--copies"], 13),
        (["--where", "dataset = 'a'"], 6),
        (["--where", "dataset = 'b'"], 4),
        (["--where", "dataset = 'b'", "--copies"], 7),
        (["--where", "dataset = 'b' OR key = '0'"], 4),
        (["--where", "duplicate_of IS NOT NULL"], 6),
        (["push", "--by", "captions"], 7),
        (["push", "--by", "captions", "--copies"], 13),
        (["push", "--by", "captions", "--where", "dataset = 'b'"], 4),
        (["push", "--by", "captions", "--min-score", "0.1"], 7),
    ],
)
def test_search_shows_one_episode_of_each_content(
    copied: Workspace, capsys: pytest.CaptureFixture[str], options: list[str], count: int
) -> None:
    assert main(["search", *options, "--json", "--columns", "content_hash", "-w", str(copied.path)]) == 0
    out, err = capsys.readouterr()
    hits = json.loads(out)
    assert len(hits) == count
    has_note = "one episode of each content; --copies shows all" in err
    if "--copies" not in options and "duplicate_of" not in str(options):
        assert len({hit["content_hash"] for hit in hits}) == count
        assert has_note == (options != ["--where", "dataset = 'a'"])
    else:
        assert not has_note


def test_python_searches_show_one_of_each_content_too(copied: Workspace) -> None:
    assert len(copied.search("push", by="captions", limit=50)) == 7
    assert len(copied.search("push", by="captions", limit=50, copies=True)) == 13


@pytest.mark.parametrize(
    "action", [["search"], ["search", "push", "--by", "captions"], ["set", "show", "all"]]
)
def test_no_column_is_printed_twice(
    copied: Workspace, capsys: pytest.CaptureFixture[str], action: list[str]
) -> None:
    copied.sets.create("all", where="true")
    names = "episode_id,key,split,dataset,dataset,instruction,num_steps"
    assert main([*action, "--columns", names, "-w", str(copied.path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    header, row = lines[0].split(), lines[1].split()
    assert len(set(header)) == len(header) and header[-1] == "num_steps"
    assert not {"episode_id", "key", "split"} & (
        set(header) - {"source"} - ({"key"} if "source" in header else set())
    )
    assert sum(len(cell) == 16 for cell in row) == 1, "the id stands in one column"
    assert main([*action, "--columns", names, "--output", "csv", "-w", str(copied.path)]) == 0
    fields = capsys.readouterr().out.splitlines()[0].split(",")
    assert len(set(fields)) == len(fields)
    if action == ["search"]:
        assert fields == ["episode_id", "key", "split", "dataset", "instruction", "num_steps"]


@pytest.mark.parametrize("text", ["", "push"])
def test_browse_shows_one_episode_of_each_content(copied: Workspace, text: str) -> None:
    cached_reads.use_workspace(copied)
    view = ViewState(text=text, by="captions" if text else "")
    page = read_page(view)
    assert (len(page.ids), page.matching, page.total) == (7, 7, 13)
    everything = replace(view, copies=True)
    assert len(read_page(everything).ids) == 13
    assert view_from_params(view_to_params(everything)) == everything
    of_b = view.with_filter(ColumnFilter(column="dataset", values=("b",)))
    assert len(read_page(of_b).ids) == 4
    assert copied.stores.tables.episodes.count(read_shown_filter(of_b)) == 4
