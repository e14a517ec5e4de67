"""Every recipe of CONTRIBUTING.md works: its code is taken from the page, installed and run on the samples."""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ares
from ares_app.dashboard import cached_reads, views
from ares_app.dashboard.navigation import make_page_function
from ares_app.dashboard.page_list import PAGES, PageEntry
from tests.command_server import CommandServer

PAGE = (Path(__file__).resolve().parent.parent / "CONTRIBUTING.md").read_text()
RECIPES = dict(re.findall(r"^## To add an? (\w+)\n(.*?)(?=^## )", PAGE, flags=re.M | re.S))
PLUGINS = ("ranker",)
# Their files stand on separate pages, which tests/guests/test_mine.py runs.
WITH_PAGES = ("ingester", "annotator", "exporter")

# Runs `ares` with arguments in a separate process; returns the document that it prints with --json.
Ares = Callable[..., Any]


def _blocks(recipe: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", RECIPES[recipe], flags=re.M | re.S)


def _files(recipe: str) -> dict[str, str]:
    """Text of each file by its path, which is in its first line."""
    blocks = [block for block in _blocks(recipe, "python") if re.match(r"# \S+\.py\n", block)]
    return {block.partition("\n")[0].removeprefix("# "): block for block in blocks}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of installed packages with the package of all recipes."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "mine").mkdir()
    (folder / "mine" / "__init__.py").touch()
    info = folder / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    for recipe in PLUGINS:
        for path, text in _files(recipe).items():
            (folder / path).write_text(text)
    tables = "".join(block for recipe in PLUGINS for block in _blocks(recipe, "toml"))
    groups = re.sub(r'project\.entry-points\."(.*?)"', r"\1", tables).replace('"', "")
    (info / "entry_points.txt").write_text(groups)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the workspace is."""
    return tmp_path_factory.mktemp("recipes") / "workspace"


@pytest.fixture(scope="module")
def run_ares(site: Path, folder: Path) -> Iterator[Ares]:
    """Runs `ares` as a user does who has installed the package; one process runs all commands."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ARES_")}
    environ = inherited | {"PYTHONPATH": str(site), "ARES_WORKSPACE": str(folder)}
    server = CommandServer(sys.executable, folder.parent, environ=environ)

    def run(*arguments: str) -> Any:
        done = server.run(*arguments, "--json")
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout)

    yield run
    server.close()


@pytest.fixture(scope="module")
def workspace(run_ares: Ares, demo_samples: Path, folder: Path) -> ares.Workspace:
    """A workspace with five episodes of the sample."""
    status = run_ares("ingest", str(demo_samples / "rlds"), "--rate", "10", "--limit", "5")
    assert status["kept"] == 5
    return ares.open(folder)


def _states(workspace: ares.Workspace) -> dict[str, NDArray[np.float32]]:
    """(T, S) states of the sample by episode_id."""
    tables = workspace.stores.tables
    read = tables.trajectories.read(sorted(tables.episodes.ids("format = 'rlds'")))
    return {id: trajectory.state.values for id, trajectory in read if trajectory.state is not None}


def _column(workspace: ares.Workspace, name: str) -> dict[str, float]:
    """The values of a column of the sample by episode_id."""
    rows = workspace.stores.tables.episodes.read_columns(["episode_id", name], "format = 'rlds'").to_pylist()
    return {row["episode_id"]: row[name] for row in rows}


def test_every_kind_has_a_recipe_that_names_a_complete_file() -> None:
    assert {*PLUGINS, *WITH_PAGES, "page"} <= RECIPES.keys()
    assert not [
        kind for kind in WITH_PAGES if f"(docs/plug-ins.md#how-do-i-write-an-{kind})" not in RECIPES[kind]
    ]
    for recipe in (*PLUGINS, "page"):
        (text,) = _files(recipe).values()
        assert ast.get_docstring(ast.parse(text)), recipe
        assert len(text.splitlines()) <= 65, recipe


def test_the_ranker_finds_by_what_it_compares(run_ares: Ares, workspace: ares.Workspace) -> None:
    robots = {episode.episode_id: episode.robot for episode in workspace.episodes.where("format = 'rlds'")}
    word = next(iter(robots.values())).split()[0]
    hits = run_ares("search", f"{word} nothing", "--by", "robot", "--where", "format = 'rlds'")
    assert {hit["episode_id"] for hit in hits} == {
        id for id, robot in robots.items() if word in robot.split()
    }
    assert run_ares("search", "nothing", "--by", "robot") == []


def test_the_page_is_drawn(
    workspace: ares.Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file lies among the pages, and its line is in the list of pages."""
    from streamlit.testing.v1 import AppTest

    ((name, text),) = _files("page").items()
    (tmp_path / name).write_text(text)
    monkeypatch.setattr(views, "__path__", [*views.__path__, str(tmp_path)])
    (line,) = (block for block in _blocks("page", "python") if "PageEntry" in block)
    ((page, entry),) = eval(f"{{{line}}}", {"PageEntry": PageEntry}).items()
    monkeypatch.setitem(PAGES, page, entry)
    cached_reads.use_workspace(workspace)
    script = f"from ares_app.dashboard.navigation import make_page_function\nmake_page_function({page!r})()"
    app = AppTest.from_string(script, default_timeout=300).run()
    assert not app.exception and not app.error
    longest = max(len(values) for values in _states(workspace).values()) / 10
    assert app.dataframe[0].value["seconds"].max() == pytest.approx(longest)
    assert make_page_function(page).__name__ == page == Path(name).stem
