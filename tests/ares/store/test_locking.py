"""One writer at a time, by a file lock and by a lease in MongoDB: waiting, killed writers, lost leases."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path

import pytest

from ares.annotation import Annotation
from ares.errors import StoreError
from ares.store.folder_lock import WorkspaceBusy, lock_folder
from ares.store.log import mongo as mongo_lease
from ares.store.log.mongo import MongoAnnotationStore

Lock = Callable[..., AbstractContextManager[None]]


@pytest.fixture(params=["folder", "mongo"])
def workspace_lock(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Lock, str]]:
    """What locks a workspace in this process, and the code with which another process does."""
    if request.param == "folder":
        code = (
            "from functools import partial\nfrom pathlib import Path\nfrom ares.store.folder_lock import lock_folder\n"
            f"lock = partial(lock_folder, Path({str(tmp_path)!r}))\n"
        )
        yield partial(lock_folder, tmp_path), code
        return
    uri, workspace = request.getfixturevalue("mongo_uri"), uuid.uuid4().hex
    with closing(MongoAnnotationStore(uri, workspace)) as store:
        code = (
            "from ares.store.log.mongo import MongoAnnotationStore\n"
            f"lock = MongoAnnotationStore({uri!r}, {workspace!r}).write_lease\n"
        )
        yield store.write_lease, code
        store._server._client.drop_database(f"ares_{workspace[:12]}")


def _and_set(event: threading.Event) -> Callable[[str], None]:
    """Writes a line on standard error, and tells so."""

    def write(text: str) -> None:
        print(text, file=sys.stderr)
        event.set()

    return write


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _lock_elsewhere(code: str) -> subprocess.Popen[str]:
    script = f"{code}with lock('ares ingest'):\n    print('locked', flush=True)\n    input()\n"
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    return process


@pytest.mark.slow
def test_the_second_waits_and_says_for_whom(
    workspace_lock: tuple[Lock, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, code = workspace_lock
    monkeypatch.setattr(mongo_lease, "_POLL_SECONDS", 0.05)
    with _lock_elsewhere(code) as other:
        with (
            pytest.raises(WorkspaceBusy, match=rf"^ares ingest \(process {other.pid} on "),
            lock("ares annotate", False),
        ):
            raise AssertionError
        said = threading.Event()
        monkeypatch.setattr("ares.console.write_stderr", _and_set(said))
        ender = threading.Thread(target=lambda: said.wait(300) and other.communicate("\n"))
        ender.start()
        with lock("ares annotate"):
            ended = other.wait(timeout=300)
        ender.join()
    assert ended == 0
    (message,) = capsys.readouterr().err.splitlines()
    assert message.startswith(f"waiting: ares ingest (process {other.pid} on ")
    with lock("ares doctor", False):
        pass


@pytest.mark.slow
def test_a_killed_holder_is_waited_for_by_nobody(
    workspace_lock: tuple[Lock, str], capsys: pytest.CaptureFixture[str]
) -> None:
    lock, code = workspace_lock
    with _lock_elsewhere(code) as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        with lock("ares annotate"):
            pass
    assert capsys.readouterr().err == "", "who waits says so"


def test_a_lease_that_another_took_stops_its_old_holder(
    mongo_uri: str, make_annotation: Callable[..., Annotation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder slept past its lease, as a suspended machine does; it must not write beside the new one."""
    monkeypatch.setattr(mongo_lease, "_RENEW_SECONDS", 0.2)
    workspace = uuid.uuid4().hex
    with (
        closing(MongoAnnotationStore(mongo_uri, workspace)) as sleeper,
        closing(MongoAnnotationStore(mongo_uri, workspace)) as other,
    ):
        with sleeper.write_lease("sleeper"):
            sleeper.append([make_annotation("episode1")])
            renew, has_run_out, is_taken = sleeper._lease._try_acquire, threading.Event(), threading.Event()

            def renew_or_wait(token: str, job_name: str) -> bool:
                if has_run_out.is_set():
                    return not is_taken.wait(300)
                renewed = renew(token, job_name)
                has_run_out.set()
                return renewed

            monkeypatch.setattr(mongo_lease, "_LEASE_SECONDS", -1.0)
            sleeper._lease._try_acquire = renew_or_wait  # type: ignore[method-assign]
            assert has_run_out.wait(300)  # renewed once more, as one that has run out
            monkeypatch.setattr(mongo_lease, "_LEASE_SECONDS", 600.0)
            with other.write_lease("ares annotate"):
                is_taken.set()
                _wait_for(lambda: bool(sleeper._lease._new_owner))
                with pytest.raises(StoreError, match=r"^another job took over the workspace: ares annotate"):
                    sleeper.append([make_annotation("episode2")])
        sleeper.append([make_annotation("episode3")])
        assert [annotation.episode_id for _, annotation in sleeper.read()] == ["episode1", "episode3"]
        sleeper._server._client.drop_database(f"ares_{workspace[:12]}")


def test_a_folder_that_is_locked_is_refused_to_whom_does_not_wait(tmp_path: Path) -> None:
    with lock_folder(tmp_path, "ares ingest"):
        holder = rf"^ares ingest \(process {os.getpid()} on "
        with pytest.raises(WorkspaceBusy, match=holder), lock_folder(tmp_path, "ares annotate", wait=False):
            raise AssertionError
    with lock_folder(tmp_path, "ares annotate", wait=False):
        pass


def test_a_network_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def time_out(*_: object) -> int:
        raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), str(tmp_path))

    monkeypatch.setattr(os, "open", time_out)
    with (
        pytest.raises(StoreError, match=r"a file cannot be used.*timed out"),
        lock_folder(tmp_path, "ares ingest"),
    ):
        pass
