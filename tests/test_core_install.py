"""The wheel without extras, in a separate virtual environment: what works, and what is answered in one line."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from ares.imports import PACKAGES
from tests.command_server import CommandServer
from tests.conftest import ROOT

pytestmark = pytest.mark.slow
SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
CORE = ROOT / ".cache" / f"core-{sys.version_info.major}.{sys.version_info.minor}"
INSTALL = f"uv pip install --python {CORE / 'bin' / 'python'}"  # uv makes it without pip
Ares = Callable[..., "subprocess.CompletedProcess[str]"]


def _digest(paths: list[Path]) -> str:
    digest = hashlib.sha256(str(ROOT).encode())
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _uv(*arguments: str) -> None:
    """Run uv; the test is skipped where the package index cannot be reached."""
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists():
        pytest.skip(f"no uv at {uv}: scripts/setup.sh installs it")
    done = subprocess.run([uv, *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode and ("error sending request" in done.stderr or "dns error" in done.stderr):
        pytest.skip(f"the package index cannot be reached: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def core() -> Path:
    """A virtual environment with the wheel and what it requires without extras; kept between runs."""
    CORE.parent.mkdir(exist_ok=True)
    stamp, python = CORE / "installed", str(CORE / "bin" / "python")
    pins = ROOT / "requirements-dev.lock"
    sources = [
        path
        for name in ("ares", "ingest", "annotators", "app")
        for path in sorted((ROOT / name).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    ]
    current = _digest([ROOT / "pyproject.toml", pins, *sources])
    with FileLock(f"{CORE}.lock"):
        if not (stamp.exists() and stamp.read_text() == current):
            _uv("venv", "--quiet", "--clear", "--python", sys.executable, str(CORE))
            reinstalled = ("--reinstall-package", "ares-curation", ".")
            _uv("pip", "install", "--quiet", "--python", python, "-c", str(pins), *reinstalled)
            stamp.write_text(current)
    return CORE


@pytest.fixture(scope="session")
def ares(core: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ares]:
    """Runs commands of that environment in a folder outside the clone, all in one process."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("ARES_", "PYTHON"))}
    server = CommandServer(core / "bin" / "python", tmp_path_factory.mktemp("outside"), environ=environ)
    yield lambda folder, *arguments: server.run(*arguments, folder=folder)
    server.close()


@pytest.fixture(scope="session")
def folder(ares: Ares, demo_samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the workspace `ws` of the demo's samples, and the set `all` in it."""
    folder = tmp_path_factory.mktemp("core")
    for arguments in (
        ("ingest", str(demo_samples / "rlds"), "-w", "ws", "--rate", "10"),
        ("ingest", str(demo_samples / "video"), "-w", "ws", "--rate", "10"),
        ("set", "create", "all", "--where", "num_steps > 10", "-w", "ws"),
    ):
        done = ares(folder, *arguments)
        assert done.returncode == 0, done.stderr
    return folder


def test_the_core_has_no_torch_no_page_and_no_samples(core: Path) -> None:
    site = core / SITE
    absent = (
        *("lancedb", "torch", "open_clip", "transformers", "streamlit", "pymongo", "mcap", "mcap_protobuf"),
        *("mcap_ros2", "zstandard", "ray", "nvidia", "app", "ingest", "annotators", "tests"),
        *("ares_app/demo/samples", "ares_app/demo/models"),
    )
    assert (site / "lance").is_dir() and (site / "ares_app" / "demo" / "run.py").is_file()
    assert not [name for name in absent if (site / name).exists()]


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (("status",), "episodes"),
        (("search", "drawer"), "drawer"),
        (("search", "drawer", "--by", "captions", "--where", "success"), "drawer"),
        (("set", "show", "all"), "24"),
        (("annotate", "motion"), "24"),
        (("export", "all", "lerobot", "--format", "lerobot"), "24"),
        (("export", "all", "parquet", "--format", "parquet"), "24"),
        (("doctor",), "hold"),
    ],
    ids=lambda part: "_".join(part) if isinstance(part, tuple) else "",
)
def test_the_core_does(arguments: tuple[str, ...], answer: str, folder: Path, ares: Ares) -> None:
    done = ares(folder, *arguments, "-w", "ws")
    assert done.returncode == 0, done.stderr
    assert answer in done.stdout
    assert "Traceback" not in done.stderr


def test_the_core_shows_an_episode_and_those_like_it(folder: Path, ares: Ares) -> None:
    episode_id = re.findall(r"\b[0-9a-f]{16}\b", ares(folder, "search", "drawer", "-w", "ws").stdout)[0]
    assert episode_id in ares(folder, "show", episode_id, "-w", "ws").stdout
    assert ares(folder, "search", "--like", episode_id, "-w", "ws").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("annotate", "caption"), f"torch is not installed: {INSTALL} 'ares-curation[models]'"),
        (("annotate", "embed"), f"is not installed: {INSTALL} 'ares-curation[models]'"),
        (("annotate", "grade"), f"torch is not installed: {INSTALL} 'ares-curation[models]'"),
        (("annotate", "motion", "--engine", "ray"), f"ray is not installed: {INSTALL} 'ares-curation[ray]'"),
        (("app", "--no-browser"), f"is not installed: {INSTALL} 'ares-curation[app]'"),
        (("status", "-w", "s3://bucket/ws"), f"s3fs is not installed: {INSTALL} 'ares-curation[s3]'"),
        (("ingest", "gs://bucket/data"), f"gcsfs is not installed: {INSTALL} 'ares-curation[gs]'"),
    ],
    ids=lambda part: "_".join(part[:2]) if isinstance(part, tuple) else "",
)
def test_what_needs_an_extra_is_answered_in_one_line(
    arguments: tuple[str, ...], line: str, folder: Path, ares: Ares
) -> None:
    workspace = () if "-w" in arguments else ("-w", "ws")
    done = ares(folder, *arguments, *workspace)
    assert done.returncode == 2
    assert done.stderr.startswith(f"ares {arguments[0]}: ") and done.stderr.endswith(f"{line}\n")
    assert done.stderr.count("\n") == 1


def test_recordings_without_their_extra_cost_themselves_alone(
    ares: Ares, demo_samples: Path, tmp_path: Path
) -> None:
    """A dataset of another format beside them is read; alone they are answered in one line."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "one.mcap").write_bytes(b"\x89MCAP0\r\n")
    line = f"mcap is not installed: {INSTALL} 'ares-curation[mcap]'"
    done = ares(tmp_path, "ingest", "runs", "-w", "ws")
    assert (done.returncode, done.stderr) == (2, f"ares ingest: {line}\n")
    shutil.copytree(demo_samples / "rlds", tmp_path / "runs" / "rlds")
    done = ares(tmp_path, "ingest", "runs", "--rate", "10", "-w", "ws", "--json")
    report = json.loads(done.stdout)
    assert (report["kept"], report["failed"]) == (12, 1)
    assert line in done.stderr and "Traceback" not in done.stderr


def test_mongodb_without_its_client_is_answered_in_one_line(
    folder: Path, core: Path, demo_samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARES_MONGO_URI", "mongodb://127.0.0.1:9")
    command = [str(core / "bin" / "ares"), "ingest", str(demo_samples / "rlds"), "-w", "mongo"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    line = "'ares-curation[mongo]'\n"
    # A slow start says before how long it has taken.
    assert done.returncode == 2 and done.stderr.endswith(line) and "Traceback" not in done.stderr


@pytest.mark.nightly
def test_frames_are_searched_by_the_stored_text_encoder_or_need_models(
    folder: Path, ares: Ares, demo_samples: Path, tmp_path: Path
) -> None:
    """The vectors were made on another machine, which stored the text encoder; without it the model is needed."""
    from ares.settings import Settings
    from ares.workspace import open_workspace
    from ares_app.demo import make_demo_settings

    path = str(tmp_path / "ws")
    assert ares(folder, "ingest", str(demo_samples / "rlds"), "-w", path).returncode == 0
    workspace = open_workspace(path, make_demo_settings(Settings()))
    workspace.annotate("embed", quiet=True)
    workspace.close()
    assert "drawer" in ares(folder, "search", "drawer", "-w", path).stdout
    shutil.rmtree(tmp_path / "ws" / "text-encoders")
    done = ares(folder, "search", "door", "-w", path)
    assert done.returncode == 2
    assert done.stderr.endswith(f"is not installed: {INSTALL} 'ares-curation[models]'\n")
    assert done.stderr.count("\n") == 1
    assert "drawer" in ares(folder, "search", "drawer", "--by", "captions", "-w", path).stdout


def test_the_demo_of_a_wheel_says_where_its_samples_are(folder: Path, ares: Ares) -> None:
    done = ares(folder, "demo", "--no-serve")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "clone the repository" in done.stderr
    assert not (folder / "ares-demo").exists()


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("distributions")
    _uv("build", "--quiet", "--out-dir", str(folder))
    return folder


@pytest.mark.nightly
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"], ids=["wheel", "sdist"])
def test_it_installs_clean_with_the_newest_libraries(
    version: str, kind: str, distributions: Path, demo_samples: Path, tmp_path: Path
) -> None:
    """Nothing of others is replaced: four names of ours, and a user may have files named as our folders."""
    (built,) = distributions.glob(kind)
    python = tmp_path / "env" / "bin" / "python"
    _uv("venv", "--quiet", "--python", version, str(tmp_path / "env"))
    _uv("pip", "install", "--quiet", "--python", str(python), str(built))
    _uv("pip", "check", "--python", str(python))
    (site,) = (tmp_path / "env" / "lib").glob("*/site-packages")
    (record,) = site.glob("ares_curation-*.dist-info/RECORD")
    tops = {line.partition("/")[0] for line in record.read_text().splitlines()}
    assert tops == {*PACKAGES, record.parent.name, ".."}  # ".." leads to bin/ares
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < 1.2e9
    for name in ("app.py", "ingest.py", "annotators.py"):
        (tmp_path / name).write_text("raise SystemExit('a file of the user was imported')")
    cells = f"import ares; print(ares.open('ws', create=True).ingest({str(demo_samples / 'video')!r}).kept)"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ran = subprocess.run([python, "-c", cells], cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert ran.stdout == "12\n", ran.stderr
