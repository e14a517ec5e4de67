"""A plug-in that cannot be imported is one line that names its package, and leaves names and commands alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from ares import registry
from ares.errors import ModelError, PluginError
from ares.registry import Registry, plugin_faults

ROOT = Path(__file__).resolve().parents[2]
GROUPS = {f"ares.{group.kind}s": group for group in vars(registry).values() if isinstance(group, Registry)}

# Modules of a package, each broken in its own way, and what the error says of it.
BROKEN = {
    "missing_library": ("import surely_not_installed", "No module named 'surely_not_installed'"),
    "wrong_syntax": ("def f(:", "SyntaxError"),
    "no_factory": ("x = 1", "AttributeError"),
    "ends_the_process": ("raise SystemExit(7)", "SystemExit: 7"),
}


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installed package whose plug-ins cannot be imported, one of every kind for every reason."""
    folder = tmp_path_factory.mktemp("guest")
    info = folder / "broken_guest-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-guest\nVersion: 1.0\n")
    (folder / "broken_guest").mkdir()
    (folder / "broken_guest" / "__init__.py").touch()
    for name, (text, _) in BROKEN.items():
        (folder / "broken_guest" / f"{name}.py").write_text(text + "\n")
    (info / "entry_points.txt").write_text(
        "".join(
            f"[ares.{kind}s]\n" + "".join(f"{name} = broken_guest.{name}:factory\n" for name in BROKEN)
            for kind in ("annotator", "ingester", "exporter", "ranker", "encoder")
        )
    )
    return folder


def ares(guest: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ARES_")}
    environ |= {"PYTHONPATH": str(guest)}
    command = [sys.executable, "-m", "ares_app.cli.main", *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True)


@pytest.mark.slow
def test_broken_plugins_leave_every_command_alone(guest: Path, tmp_path: Path, demo_samples: Path) -> None:
    """They are in the list of names; what has nothing to do with them works."""
    listed = ares(guest, "annotate", "--help").stdout
    assert all(name in listed for name in BROKEN) and "--layout" in listed
    workspace = ["-w", str(tmp_path / "ws"), "--json"]
    ingested = ares(guest, "ingest", str(demo_samples / "video"), "--limit", "2", *workspace)
    document = json.loads(ingested.stdout)
    assert (ingested.returncode, document["kept"]) == (0, 2)
    warnings = " ".join(row["reason"] for row in document["warnings"])
    assert "ingester 'wrong_syntax' of broken-guest cannot be imported" in warnings
    run = ares(guest, "annotate", "motion", "missing_library", *workspace)
    motion, broken = json.loads(run.stdout)
    assert (run.returncode, motion["kept"], broken["failed"]) == (1, 2, 2)
    reason = "annotator 'missing_library' of broken-guest cannot be imported"
    assert broken["failures"][0]["reason"] == reason
    search = ares(guest, "search", "x", "--by", "no_factory", *workspace)
    line = "ares search: ranker 'no_factory' of broken-guest cannot be imported: AttributeError"
    assert search.returncode == 2 and search.stderr.startswith(line) and search.stderr.count("\n") == 1


def test_a_broken_plugin_is_one_line_that_names_its_package(guest: Path) -> None:
    program = (
        "from ares.registry import annotators\n"
        "from ares.errors import PluginError\n"
        f"for name in {[*BROKEN]!r}:\n"
        "    try: annotators.get(name)\n"
        "    except PluginError as error: print(error)\n"
    )
    environ = {**os.environ, "PYTHONPATH": str(guest)}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True)
    for line, name in zip(done.stdout.splitlines(), BROKEN, strict=True):
        assert f"annotator {name!r} of broken-guest cannot be imported" in line
        assert BROKEN[name][1] in line


def test_errors_of_ares_and_ctrl_c_are_no_faults() -> None:
    for error in (ModelError("no reply"), KeyboardInterrupt()):
        with pytest.raises(type(error)), plugin_faults("annotator 'x'"):
            raise error
    with (
        pytest.raises(PluginError, match="annotator 'x' raised SystemExit: 3"),
        plugin_faults("annotator 'x'"),
    ):
        raise SystemExit(3)


def test_the_registry_lists_every_group_with_its_protocol_and_folders() -> None:
    entry_points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert GROUPS.keys() == entry_points.keys()
    for name, group in GROUPS.items():
        module, _, protocol = group.protocol.partition(":")
        assert not protocol or hasattr(import_module(module), protocol), name
        assert find_spec(module) and all((ROOT / folder).exists() for folder in group.folders), name
        values = [value.partition(":")[0].removeprefix("ares_") for value in entry_points[name].values()]
        files = [f"{value.replace('.', '/')}.py" for value in values]
        assert not [file for file in files if not file.startswith(group.folders)], name
