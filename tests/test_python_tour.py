"""The Python of the manual runs: the tour in one go on the sample, and every other block is valid Python."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
# In "write an annotator" the blocks are parts of one file.
PAGES = sorted(
    {ROOT / "README.md", *(ROOT / "docs").glob("*.md")} - {ROOT / "docs" / "write-an-annotator.md"}
)
# Pages of reference, or about something that is not done in Python.
_WITHOUT_PYTHON = {
    *(
        "api.md",
        "architecture.md",
        "command-line.md",
        "check-codes.md",
        "check-codes-trainer.md",
        "formats.md",
        "measures.md",
        "specs.md",
    ),
    *(
        "servers-and-clusters.md",
        "vector-index.md",
        "jobs.md",
        "models.md",
        "pages.md",
        "people.md",
        "dashboard-jobs-of-a-lab.md",
    ),
}
SHOWN_IN_PYTHON = sorted({path.name for path in (ROOT / "docs").glob("*.md")} - _WITHOUT_PYTHON)


def _blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.M | re.S)


def test_the_tour_runs_in_one_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "app").symlink_to(ROOT / "app")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in _blocks(ROOT / "docs" / "python.md"):
        exec(block, names)
    printed = capsys.readouterr().out
    assert "Workspace('curation': 12 episodes, 1 dataset)" in printed
    assert "all promises between the stores hold" in printed
    assert names["frames"].shape == (2, 192, 192, 3) and names["export"].episodes == 3


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_python_that_is_shown_is_python(page: Path) -> None:
    for block in _blocks(page):
        ast.parse(block)


@pytest.mark.parametrize("name", SHOWN_IN_PYTHON)
def test_a_page_shows_python_beside_its_commands(name: str) -> None:
    assert _blocks(ROOT / "docs" / name), f"docs/{name} has no Python"
