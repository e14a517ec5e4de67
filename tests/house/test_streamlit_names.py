"""Only public modules of Streamlit are used, also by tests: a release may change any other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house.imports import imported_names

ROOT = Path(__file__).parents[2]
_PUBLIC = frozenset({
    "streamlit", "streamlit.components.v2.types", "streamlit.config", "streamlit.delta_generator", "streamlit.logger",
    "streamlit.navigation.page", "streamlit.testing.v1",
})  # fmt: skip
# Its protocol, which tests/app/server/test_message_order.py pins by bytes of the wire.
_PROTOCOL = frozenset({"streamlit.proto.BackMsg_pb2"})
# The name of a logger.
_LOGGERS = frozenset({"streamlit.runtime.caching.cache_data_api"})


def test_modules_of_streamlit_are_public_and_no_private_attribute_is_used() -> None:
    assert not sorted(fault for path in _sources() for fault in _faults(path))


def _sources() -> Iterator[Path]:
    for folder in ("app", "tests", "scripts", "benchmarks"):
        yield from (path for path in (ROOT / folder).rglob("*.py") if path != Path(__file__))


def _faults(path: Path) -> Iterator[str]:
    text = path.read_text()
    if "streamlit" not in text:
        return
    tree = ast.parse(text)
    names = {name for name, _ in imported_names(tree)} | set(_named_in_texts(tree))
    yield from (
        f"{path.name}: {name}"
        for name in names
        if name.split(".")[0] == "streamlit" and name not in _PUBLIC | _PROTOCOL | _LOGGERS
    )
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and node.attr.startswith("_")
            and ast.unparse(node).startswith("st.")
        ):
            yield f"{path.name}: {ast.unparse(node)}"


def _named_in_texts(tree: ast.AST) -> Iterator[str]:
    """Modules in texts such as that of `monkeypatch.setattr`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and str(node.value).startswith("streamlit."):
            yield str(node.value)
