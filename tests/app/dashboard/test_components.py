"""The scripts of the page's components: each is joined from modules into one that a browser accepts."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from importlib.machinery import PathFinder
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import ares_app.dashboard
import ares_app.dashboard.components
from ares_app.dashboard.components import bundle_javascript_modules

FOLDER = Path(ares_app.dashboard.components.__file__).with_name("components")
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/index.js"))
assert NAMES, f"no components in {FOLDER}"


@pytest.mark.parametrize("name", NAMES)
def test_a_component_is_one_module_without_imports_and_without_a_name_for_two_things(name: str) -> None:
    code = bundle_javascript_modules(FOLDER / name / "index.js")
    assert re.findall(r"^export .*", code, re.MULTILINE) == ["export default function (component) {"]
    assert not re.findall(r"^import .*", code, re.MULTILINE)
    defined = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", code, re.MULTILINE)
    assert [defined_name for defined_name, count in Counter(defined).items() if count > 1] == []
    assert {"h", "mount"} <= set(defined)


def test_a_module_that_two_others_import_is_joined_once_and_before_both(tmp_path: Path) -> None:
    (tmp_path / "base.js").write_text("export const base = 1;\n")
    for name in ("first", "second"):
        text = f'import {{\n  base,\n}} from "./base.js";\n\nexport const {name} = base + 1;\n'
        (tmp_path / f"{name}.js").write_text(text)
    imports = "".join(f'import {{ {name} }} from "./{name}.js";\n' for name in ("first", "second"))
    (tmp_path / "index.js").write_text(f"{imports}export default first + second;\n")
    lines = [line for line in bundle_javascript_modules(tmp_path / "index.js").splitlines() if line]
    assert lines == [
        "const base = 1;",
        "const first = base + 1;",
        "const second = base + 1;",
        "export default first + second;",
    ]


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
@pytest.mark.parametrize(
    "name", [NAMES[0], *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES[1:])]
)
def test_node_accepts_a_joined_component(name: str, tmp_path: Path) -> None:
    script = tmp_path / "component.mjs"
    script.write_text(bundle_javascript_modules(FOLDER / name / "index.js"))
    subprocess.run(["node", "--check", script], check=True)


def test_a_click_on_what_is_gone_sends_nothing() -> None:
    """A callback may come after its component, or its field, has left the page."""
    page = AppTest.from_string(
        "import streamlit as st\n"
        "from ares_app.dashboard.components import sent_value\n"
        "from ares_app.dashboard.fields import entered_text\n"
        "st.text(repr([sent_value('gone', 'opened'), entered_text('gone', 'as it was')]))"
    ).run()
    assert [text.value for text in page.text] == ["[None, 'as it was']"]


def test_no_page_reads_a_field_that_may_be_gone_by_its_key_alone() -> None:
    reads = [
        f"{path.name}: {line.strip()}"
        for path in Path("app/dashboard").rglob("*.py")
        for line in path.read_text().splitlines()
        if "st.session_state[" in line and "] = " not in line
    ]
    assert reads == []


def test_no_module_has_the_name_of_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streamlit puts the folder of the entry script first on the path."""
    folder = Path(ares_app.dashboard.__file__).parent
    monkeypatch.setattr(sys, "path", [path for path in sys.path if Path(path).resolve() != folder])
    names = {path.stem for path in folder.glob("*.py")} - {"__init__", "main"}
    names |= {path.parent.name for path in folder.glob("*/__init__.py")}
    assert names and not names & sys.stdlib_module_names
    assert [name for name in names if PathFinder.find_spec(name)] == []
