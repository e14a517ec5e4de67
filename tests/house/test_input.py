"""Files of datasets are opened by `ares.input` alone: no reader opens, parses or unpacks them in another way."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.house.imports import ROOT, SOURCES, file_name

READERS = ("ingest/", "ares/media/", "ares/formats/")
# Functions that open a file by its path, or unpack bytes without a limit.
CALLS = {
    "av.open", "cv2.imdecode", "cv2.imread", "cv2.VideoCapture", "h5py.File", "Image.open", "json.load", "json.loads",
    "np.fromfile", "np.load", "np.memmap", "open", "open_file", "pickle.load", "pickle.loads", "pq.ParquetFile",
    "pq.read_metadata", "pq.read_schema", "pq.read_table", "sqlite3.connect", "yaml.load", "yaml.safe_load",
    "zipfile.ZipFile", "zlib.decompress", "zstandard.decompress",
}  # fmt: skip
METHODS_WITHOUT_ARGUMENTS = {"read_bytes", "read_text"}
# A file that the user wrote for ARES; the packets of one video that a reader has checked.
ALLOWED = {
    ("ingest/spec.py", "yaml.safe_load"),
    ("ingest/spec.py", "read_text"),
    ("ares/media/copies.py", "av.open"),
}


def _writes(call: ast.Call) -> bool:
    modes = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    return any(isinstance(mode, str) and mode.startswith("w") for mode in modes)


def _opens(call: ast.Call) -> str:
    """Name of the function of a call that opens, parses or unpacks a file; "" for any other call."""
    name = ast.unparse(call.func)
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name in CALLS:
        return "" if _writes(call) else name
    if method in METHODS_WITHOUT_ARGUMENTS and not call.args:
        return method
    reads = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    return "Path.open" if method == "open" and reads in (["r"], ["rb"]) else ""


def _unallowed_calls(path: Path) -> list[str]:
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    return [
        f"{file_name(path)}:{call.lineno}: {name}"
        for call in calls
        if (name := _opens(call)) and (file_name(path), name) not in ALLOWED
    ]


def test_readers_open_files_through_one_package() -> None:
    readers = [path for path in SOURCES if str(path.relative_to(ROOT)).startswith(READERS)]
    assert not [call for path in readers for call in _unallowed_calls(path)]


def test_no_text_of_a_dataset_is_a_format_string() -> None:
    """`str.format` reaches attributes and takes any width; templates of datasets go through `check_path_template`."""
    formats = [
        f"{file_name(path)}:{node.lineno}"
        for path in SOURCES
        if str(path.relative_to(ROOT)).startswith(READERS)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format"
        if not (isinstance(node.func.value, ast.Constant) or ast.unparse(node.func.value).isupper())
    ]
    assert not formats
