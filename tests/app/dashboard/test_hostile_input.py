"""Whatever an address or a text box of a page contains: no file of the server is touched, and nothing breaks."""

from __future__ import annotations

import ast
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from streamlit.testing.v1 import AppTest

from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_app.dashboard import cached_reads
from ares_app.dashboard.cached_reads import forget_slow_filters
from ares_app.dashboard.page_list import PAGES
from ares_app.dashboard.user_limits import UserLimits
from tests.app.dashboard.file_watch import outside, watch_files
from tests.app.drawn import draw
from tests.conftest import ROOT
from tests.thinning import some_by_day
from tests.workspaces import copy_workspace

_DASHBOARD = ROOT / "app" / "dashboard"
_FILTERS = ("f.dataset", "f.num_steps", "f.no_such_column", "f.dataset) OR (1=1")
_EXISTS, _MISSING = "aaaa.png", "bbbb.png"


@pytest.fixture(scope="module")
def outside_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a picture that no page may open."""
    folder = tmp_path_factory.mktemp("outside")
    Image.new("RGB", (16, 16)).save(folder / _EXISTS)
    return folder


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory, mapped_folder: Path) -> Iterator[Workspace]:
    """Four episodes with a set, a map and vectors of frames, so that a search by an image gets as far as the image."""
    folder = copy_workspace(mapped_folder, tmp_path_factory.mktemp("hostile") / "ws")
    with open_workspace(str(folder), Settings(embed_model="hash:16")) as opened:
        opened.annotate("embed", quiet=True)
        opened.sets.create("all", where="true")
        yield opened


@pytest.fixture
def shown(embedded: Workspace) -> Iterator[Workspace]:
    cached_reads.use_workspace(embedded, UserLimits(query_seconds=60))
    yield embedded
    forget_slow_filters()


def _hostile_texts(folder: Path) -> list[str]:
    return [
        str(folder / _EXISTS),
        str(folder / _MISSING),
        f"../../../../../../../../..{folder}/{_EXISTS}",
        f"file://{folder}/{_EXISTS}",
        "http://127.0.0.1:9/x.png",
        "s3://bucket/x.png",
        r"\\server\share\x.png",
        f"{folder}/{_EXISTS}\x00.png",
        f"0123456789abcdef/..{folder}/{_EXISTS}@1",
        f"upload:../..{folder}/{_EXISTS}",
        "x" * 19_000,
        "\u202e\ud7ff\U0001f4a5é%00%2e%2e%2f",
        "' OR 1=1; DROP TABLE episodes --",
        f"read_csv('{folder}/{_EXISTS}') IS NOT NULL",
        "<script>alert(1)</script>{{7*7}}${7*7}%s%n",
        "nan", "9" * 100, "~range:1e400..nan",
    ]  # fmt: skip


def _visible(app: AppTest) -> str:
    """All text of a page, with the same word for the file that exists and the one that does not."""
    texts = [str(element) for element in app.main] + [str(element) for element in app.sidebar]
    return "\n".join(texts).replace(_EXISTS[:4], "cccc").replace(_MISSING[:4], "cccc")


def _check(app: AppTest, events: list[tuple[str, str]], folder: Path, workspace: Workspace) -> None:
    touched = [event for event in events if folder.name in event[1]]
    assert not touched, "a page touched a file that a user named"
    interpreter = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.base_prefix).resolve()]
    script = Path(app._script_path).parent  # which AppTest writes
    allowed = [ROOT, Path(workspace.location), *interpreter, script, *map(Path, ("/proc", "/sys", "/dev"))]
    scratch = f"{tempfile.gettempdir()}/ares-scratch-"
    foreign = [
        event for event in outside(events, allowed) if not event[1].startswith((scratch, "/etc/localtime"))
    ]
    assert not foreign
    assert not [event for event in events if event[0].startswith(("socket.", "subprocess.", "urllib."))]


# Parameters that a page looks something up by; of all others it only parses the value.
_LOOKED_UP = {
    "browse": ("q", "like", "image", "by", "where", "sort", "f.dataset", "f.no_such_column"),
    "episode": ("episode", "t"),
    "sets": ("set",),
}
_CASES = [(page, name) for page, names in _LOOKED_UP.items() for name in names]


def _base(page: str, workspace: Workspace) -> dict[str, str]:
    return {"episode": min(workspace.stores.tables.episodes.ids())} if page == "episode" else {}


@pytest.mark.parametrize(("page", "name"), some_by_day(_CASES, 5, rows=True))
def test_no_parameter_of_a_page_reaches_a_file(
    page: str, name: str, shown: Workspace, outside_folder: Path
) -> None:
    base, pages = _base(page, shown), []
    for text in _hostile_texts(outside_folder):
        with watch_files() as events:
            app = draw(page, {**base, name: text})
        _check(app, events, outside_folder, shown)
        pages.append(_visible(app))
    assert pages[0] == pages[1], "a page tells whether a file exists"


@pytest.mark.parametrize("page", some_by_day(PAGES))
def test_all_parameters_of_a_page_together_reach_no_file(
    page: str, shown: Workspace, outside_folder: Path
) -> None:
    names = {*PAGES[page].parameters, *_FILTERS} - set(_LOOKED_UP.get(page, ()))
    for text in _hostile_texts(outside_folder)[::2]:
        with watch_files() as events:
            app = draw(page, {**_base(page, shown), **dict.fromkeys(names, text[:900])})
        _check(app, events, outside_folder, shown)


_SUBMITS = ("Export", "Make the set", "Make a queue")
# Fields of commands that a job runs; what is typed there is no option of them.
_OF_JOBS = "sets.compose."


@pytest.mark.parametrize("page", some_by_day(PAGES, kept=("sets",)))
def test_no_text_typed_on_a_page_reaches_a_file(
    page: str, shown: Workspace, outside_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, jobs = _base(page, shown), list[list[str]]()
    drawn = draw(page, base)
    keys = [element.key for element in (*drawn.text_input, *drawn.text_area)]
    assert bool(keys) == (page in ("browse", "sets", "review"))
    for text in _hostile_texts(outside_folder)[:10:2]:
        for key in keys:
            with watch_files() as events:
                app = draw(page, base)
                inputs = {element.key: element for element in (*app.text_input, *app.text_area)}
                inputs[key].set_value(text)
                is_of_job = key.startswith(_OF_JOBS)
                labels = ("Make it",) if is_of_job else _SUBMITS
                submits = [button for button in app.button if button.label in labels]
                with monkeypatch.context() as patched:
                    patched.setattr(
                        "ares_app.dashboard.views.sets.start_command", lambda *made: jobs.append(made[1])
                    )
                    (submits[0].click() if submits else app).run()
            _check(app, events, outside_folder, shown)
            typed = [word for words in jobs for word in words[2:] if word.startswith("-")]
            assert all(word == "--dedupe" or "=" in word for word in typed), "a typed text became an option"


def test_only_one_module_reads_the_address_and_it_knows_every_parameter() -> None:
    """A new parameter is in `PAGES`, and so in the test above, or reading it raises KeyError."""
    readers = [path.name for path in _DASHBOARD.rglob("*.py") if _reads_address(path)]
    assert readers == ["address.py"]


def _reads_address(path: Path) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr == "query_params"
        for node in ast.walk(ast.parse(path.read_text()))
    )


def test_an_address_beyond_the_limits_is_one_line(shown: Workspace) -> None:
    app = draw("browse", {"q": "x" * 30_000})
    assert [error.value.split("\n")[0] for error in app.error] == ["**the address is too long**"]


def test_a_search_by_a_frame_works_and_loads_the_model_once(
    shown: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[object] = []
    monkeypatch.setattr(cached_reads, "_loaded", set())
    monkeypatch.setattr(cached_reads, "load_encoder", loaded.append)
    episode_id = min(shown.stores.tables.episodes.ids())
    for second in (1.0, 2.0):
        app = draw("browse", {"image": f"{episode_id}/front@{second}"})
        assert not app.error
        assert "of 4 episodes" in "\n".join(element.value for element in app.markdown)
    assert len(loaded) == 1
