"""mkdocs builds the whole manual, strict, and no page asks for anything of the network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ares
from scripts import docs_site
from scripts.reference_tables import REFERENCE


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    docs_site.build(folder)
    return folder


def test_every_page_of_the_manual_is_built_and_in_the_menu(site: Path) -> None:
    pages = [page.relative_to(docs_site.ROOT / "docs") for page in (docs_site.ROOT / "docs").rglob("*.md")]
    built = (site / "docs" / page.with_suffix(".html") for page in pages if page.name != "README.md")
    assert not [page for page in built if not page.exists()]
    listed = {f"{name}.md" for names in REFERENCE.values() for name in names}
    assert {str(page) for page in pages if len(page.parts) == 1} == {"README.md", "tutorial.md", *listed}
    assert sum(page.parts[0] != "why" for page in pages) <= 45
    assert (site / "index.html").exists()


def test_no_page_loads_anything_of_another_host(site: Path) -> None:
    loaded = re.compile(r'<(?:script|img|iframe)[^>]+src="(?:https?:)?//|<link[^>]+href="(?:https?:)?//')
    assert not [page for page in site.rglob("*.html") if loaded.search(page.read_text(encoding="utf-8"))]


def test_the_reference_has_every_public_name_and_every_option(site: Path) -> None:
    lines = "\n".join(docs_site.reference_lines())
    assert not [name for name in dir(ares) if name != "__version__" and f"## ares.{name}\n" not in lines]
    assert "### ares.Workspace.search\n" in lines and "### ares.Episodes.where\n" in lines
    assert "ares.Workspace.search" in (site / "docs" / "reference.html").read_text(encoding="utf-8")
    commands = (site / "docs" / "commands.html").read_text(encoding="utf-8")
    assert all(option in commands for option in ("--settle SECONDS", "--min-precision P", "--at-least P"))


def test_a_link_that_leads_nowhere_stops_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "README.md").write_text("# A\n\n[gone](docs/gone.md)\n")
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(docs_site, "ROOT", tmp_path)
    monkeypatch.setattr(docs_site, "_COPIED", ("README.md", "docs"))
    with pytest.raises(RuntimeError, match=r"docs/gone\.md"):
        docs_site.build(tmp_path / "site")
