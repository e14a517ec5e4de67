"""Nothing is written to a URL, or to a local folder that is called like one: one line says so, before any work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli.main import main
from ares.errors import RequestError
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace

URL = "s3://lab/x"
COMMANDS = (
    f"export all {URL} --format lerobot",
    f"export all {URL} --format parquet",
    f"export all d --write-plan {URL}",
    f"set lock all {URL}.json",
    "set create new --where true --dedupe --reasons gs://lab/x.csv",
    f"set rebuild card.json --sources . --export {URL}",
    f"check SAMPLES --write-baseline {URL}",
    f"check SAMPLES --fix {URL}",
    f"ingest SAMPLES --dry-run --write-options hf://{URL}",
    f"review export {URL}.csv",
    f"app --export-dir {URL}",
)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[Workspace]:
    """One episode in a set."""
    with open_workspace(str(tmp_path_factory.mktemp("urls") / "w"), Settings()) as opened:
        opened.ingest(demo_samples / "video", limit=1, quiet=True)
        opened.sets.create("all", where="true")
        yield opened


@pytest.mark.parametrize("command", COMMANDS)
def test_a_url_is_refused_in_one_line_and_nothing_is_made(
    command: str,
    workspace: Workspace,
    demo_samples: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    words = command.replace("SAMPLES", str(demo_samples / "rlds")).split()
    own = [] if words[0] == "check" else ["-w", workspace.path]
    assert main([*words, *own]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and "nothing is written to a URL yet" in captured.err, captured.err
    assert not list(tmp_path.iterdir())


def test_python_refuses_it_too(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stored = workspace.sets["all"]
    for url in (URL, Path(URL)):
        for attempt in (
            lambda url=url: workspace.export(stored, url),
            lambda url=url: stored.write_lock(url),
            lambda url=url: workspace.review.export_file(url),
        ):
            with pytest.raises(RequestError, match="nothing is written to a URL yet"):
                attempt()
    assert not list(tmp_path.iterdir())
