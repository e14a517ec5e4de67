#!/usr/bin/env python3
"""Counts the product files and functions that one command enters: `scripts/journey.py [--json | --list JOURNEY]`.

Every journey runs in a separate process, so that nothing is loaded or cached before it. Doors (`__init__.py`),
bodies of modules and classes, comprehensions and lambdas do not count. All ingesters are asked whether a folder is
theirs: the modules that define them count as one. Threads that a compiled library starts are not seen. A busy machine
changes nothing: no time passes for the product, so that no line of progress comes, and DuckDB runs in one thread.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("ares", "ingest", "annotators", "app")
_DEMO = ROOT / "app" / "demo"
_STORED = ROOT / "tests" / "fixtures" / "workspace_v1.tar.xz"
# An episode that is copied into the stored workspace, with two captions.
_EPISODE = "24f7e10eddd65841"
_SEARCH = ("search", "close the drawer")
# Commands by journey; "ingest" and "annotate motion" follow each other in a new workspace.
_WRITING = {
    "ingest": ("ingest", str(_DEMO / "samples" / "video"), "--limit", "1"),
    "annotate motion": ("annotate", "motion"),
}
_READING = {
    "export": ("export", "accepted", "exported", "--format", "lerobot"),
    "text search": _SEARCH,
    "search --where": ("search", "--where", "success"),
    "show": ("show", _EPISODE),
}
_PAGES = ("open an episode", "Browse")
JOURNEYS = (*_WRITING, *_READING, *_PAGES)
# The functions of each product file that were entered.
Entered = dict[str, list[str]]


def main() -> None:
    """Print the table, or what one journey enters."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="files and functions of every journey as JSON")
    parser.add_argument("--list", metavar="JOURNEY", choices=JOURNEYS, help="the files that it enters")
    parser.add_argument("--enter", nargs=2, metavar=("JOURNEY", "FILE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.enter:
        _enter_journey(*args.enter)
    elif args.list:
        for name, functions in sorted(measure_journeys()[args.list].items()):
            print(f"{name}  {len(functions)}")
    else:
        counts = {journey: count_entered(entered) for journey, entered in measure_journeys().items()}
        print(json.dumps(counts, indent=1) if args.json else _format_table(counts))


def measure_journeys() -> dict[str, Entered]:
    """What every journey enters, in the order of `JOURNEYS`; two of them run at a time.

    Raises:
        RuntimeError: A journey failed; the message has its output.
    """
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as threads:
        (Path(folder) / "ares.toml").touch()  # not the one of whoever runs this
        written = threads.submit(_measure_writing, Path(folder) / "written")
        prepared = _unpack_workspace(Path(folder) / "prepared")
        reading = {
            journey: threads.submit(_measure_copy, journey, prepared, Path(folder) / journey)
            for journey in (*_READING, *_PAGES)
        }
        return {**written.result(), **{journey: future.result() for journey, future in reading.items()}}


def count_entered(entered: Entered) -> dict[str, int]:
    """Files and functions of a journey; the modules of the ingesters count as one file."""
    sources = entered.keys() & _ingester_files()
    files = len(entered) - max(0, len(sources) - 1)
    return {"files": files, "functions": sum(map(len, entered.values()))}


def _format_table(counts: dict[str, dict[str, int]]) -> str:
    rows = [("journey", "files", "functions")]
    rows += [(name, str(count["files"]), str(count["functions"])) for name, count in counts.items()]
    return "\n".join(f"{name:<18}{files:>6}{functions:>11}" for name, files, functions in rows)


def _measure_writing(folder: Path) -> dict[str, Entered]:
    folder.mkdir()
    return {journey: _measure_journey(journey, folder) for journey in _WRITING}


def _unpack_workspace(folder: Path) -> Path:
    """The stored workspace, brought to today's layout and with the text encoder of its vectors beside them."""
    with tarfile.open(_STORED) as archive:
        archive.extractall(folder, filter="data")
    _run_python(folder, "-m", "ares", *_SEARCH, "-q", "-w", "workspace")
    return folder


def _measure_copy(journey: str, prepared: Path, folder: Path) -> Entered:
    shutil.copytree(prepared, folder)
    return _measure_journey(journey, folder)


def _measure_journey(journey: str, folder: Path) -> Entered:
    file = folder / "entered.json"
    _run_python(folder, str(Path(__file__).resolve()), "--enter", journey, str(file))
    entered: Entered = json.loads(file.read_text())
    return entered


def _run_python(folder: Path, *arguments: str) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ARES_")}
    ours = {
        "PYTHONPATH": str(ROOT),
        "ARES_CONFIG": str(folder.parent / "ares.toml"),
        "ARES_EMBED_MODEL": f"local-dir:{_DEMO / 'models' / 'reference-clip'}",
    }
    ran = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=inherited | ours, capture_output=True, text=True
    )
    if ran.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with {ran.returncode}: {ran.stdout}{ran.stderr}")


def _enter_journey(journey: str, file: str) -> None:
    """Make one journey in this process and write what it enters into a file."""
    sys.path[0] = str(ROOT)
    if hasattr(os, "sched_setaffinity"):  # one core, so one worker: jobs run in this process
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    _stop_clock()
    _use_one_database_thread()
    codes: list[CodeType] = []
    if journey in _PAGES:
        _enter_page(journey, codes)
    else:
        _enter_command(({**_WRITING, **_READING})[journey], codes)
    Path(file).write_text(json.dumps(_product_functions(codes)))


def _stop_clock() -> None:
    """Let no time pass for the product: what it does after some seconds depends on how busy the machine is."""
    monotonic, stopped_at = time.monotonic, time.monotonic()

    def read() -> float:
        return stopped_at if _product_file(sys._getframe(1).f_code) else monotonic()

    time.monotonic = read
    threading.Timer.run = lambda timer: None  # type: ignore[assignment, method-assign]


def _use_one_database_thread() -> None:
    """Let DuckDB read in the thread that asks: others are not seen, and which of them reads is chance."""
    import duckdb

    connect = duckdb.connect

    def connect_to_one(*args: Any, **options: Any) -> Any:
        options["config"] = {**options.get("config", {}), "threads": 1}
        return connect(*args, **options)

    duckdb.connect = connect_to_one


def _enter_command(words: tuple[str, ...], codes: list[CodeType]) -> None:
    sys.argv = ["ares", *words, "-q", "-w", "workspace"]
    with _record_calls(codes):
        from ares.__main__ import main as run_ares

        status = run_ares()
    if status:
        sys.exit(status)


def _enter_page(journey: str, codes: list[CodeType]) -> None:
    """Draw Browse in a process that has just opened its workspace, or an episode of it after Browse."""
    from streamlit.testing.v1 import AppTest

    import ares
    from ares_app.dashboard import cached_reads

    cached_reads.use_workspace(ares.open("workspace"))
    app = AppTest.from_file(str(ROOT / "app" / "dashboard" / "main.py"), default_timeout=60)
    if journey != "Browse":
        app.run()
        app.session_state["pages.next"] = ("episode", {"episode": [_EPISODE]})
    with _record_calls(codes):
        app.run()
    if app.exception or app.error:
        sys.exit(f"{journey}: {[*app.exception, *app.error]}")


@contextmanager
def _record_calls(codes: list[CodeType]) -> Iterator[None]:
    """Append the code of every Python function that this and new threads enter, once each."""
    entered: dict[int, CodeType] = {}

    def record(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            entered[id(frame.f_code)] = frame.f_code

    _set_profile(record)
    try:
        yield
    finally:
        _set_profile(None)
        codes.extend(list(entered.values()))


def _set_profile(record: Callable[[FrameType, str, object], None] | None) -> None:
    threading.setprofile(record)
    sys.setprofile(record)


def _product_functions(codes: list[CodeType]) -> Entered:
    """Names of the functions by file, in order; two of one name, such as of a property, count as two."""
    functions: dict[str, set[tuple[str, int]]] = {}
    for code in codes:
        name = _product_file(code)
        if name and not name.endswith("/__init__.py") and _is_function(code):
            functions.setdefault(name, set()).add((code.co_qualname, code.co_firstlineno))
    return {name: [function for function, _ in sorted(lines)] for name, lines in sorted(functions.items())}


def _product_file(code: CodeType) -> str:
    """The file of code relative to the repository, "" for code that is not of the product."""
    with suppress(ValueError):
        name = Path(code.co_filename).resolve().relative_to(ROOT).as_posix()
        return name if name.partition("/")[0] in PACKAGES else ""
    return ""


def _is_function(code: CodeType) -> bool:
    """Whether it is the code of a named function: bodies of modules and classes have no fast locals."""
    return bool(code.co_flags & inspect.CO_OPTIMIZED) and not code.co_name.startswith("<")


def _ingester_files() -> set[str]:
    """The modules that define the ingesters, as pyproject.toml enters them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    targets = project["entry-points"]["ares.ingesters"].values()
    return {target.partition(":")[0].removeprefix("ares_").replace(".", "/") + ".py" for target in targets}


if __name__ == "__main__":
    main()
