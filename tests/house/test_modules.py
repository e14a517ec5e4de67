"""Rules that a linter does not hold: module sentences, parameters, and heavy imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator

from scripts.house_numbers import long_signatures
from tests.house.imports import ROOT, SOURCES, Function, file_name

ALL = SOURCES + sorted(
    path for folder in ("tests", "benchmarks", "scripts") for path in (ROOT / folder).rglob("*.py")
)

# Doors of Python, which people call with keywords: what they make of them is one request.
PYTHON_DOORS = ("ares/__init__.py", "ares/workspace/")
HEAVY = {
    "av", "bson", "cv2", "duckdb", "h5py", "lance", "mcap", "mcap_ros2", "numpy", "open_clip", "openai",
    "pandas", "pyarrow", "pymongo", "ray", "rich", "sqlglot", "streamlit", "tensorflow_datasets", "torch",
    "torchvision", "transformers", "umap",
}  # fmt: skip


def _imported_at_once(body: list[ast.stmt]) -> Iterator[str]:
    """Modules that importing the file imports: not those in functions, nor those for the type checker."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield from _imported_at_once(node.orelse)
        elif not isinstance(node, Function):
            inner = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.stmt)]
            yield from _imported_at_once(inner)


def test_a_module_opens_with_a_sentence() -> None:
    openings = {
        file_name(path): (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0]
        for path in ALL
    }
    assert not {
        name: text for name, text in openings.items() if len(text) < 20 or not text.endswith((".", ":"))
    }


def test_a_function_takes_few_parameters() -> None:
    """More of them are one request, made once and passed on."""
    assert not [name for name in long_signatures() if not name.startswith(PYTHON_DOORS)]


def test_heavy_libraries_are_imported_where_they_are_used() -> None:
    elsewhere = [path for path in SOURCES if not path.is_relative_to(ROOT / "app" / "dashboard")]
    at_once = {
        file_name(path): {name.split(".")[0] for name in _imported_at_once(ast.parse(path.read_text()).body)}
        for path in elsewhere
    }
    assert not {name: tops & HEAVY for name, tops in at_once.items() if tops & HEAVY}


def test_the_command_line_starts_without_heavy_libraries() -> None:
    """`import ares`, and the arguments of every command, load none of them, and no model code."""
    program = (
        "import sys, ares, ares_app.cli.main as main\n"
        "for name in main.COMMANDS: main.build_parser(name)\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not set(ran.stdout.split()) & (HEAVY | {"pydantic", "yaml", "annotators"})
