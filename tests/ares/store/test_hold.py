"""One writer at a time, by a lock of the folder and by a lease in MongoDB: waiting, killed holders, lost leases."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest

from ares.annotation import Annotation
from ares.errors import StoreError
from ares.store import lease
from ares.store.hold import Busy, hold_folder
from ares.store.mongo import MongoStore

Hold = Callable[..., AbstractContextManager[None]]


@pytest.fixture(params=["folder", "mongo"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Hold, str]]:
    """How this process holds a workspace, and the code with which another does."""
    if request.param == "folder":
        code = f"from pathlib import Path\nfrom ares.store.hold import hold_folder\nplace = Path({str(tmp_path)!r})\n"
        yield (
            lambda *asked: hold_folder(tmp_path, *asked),
            f"{code}hold = lambda who: hold_folder(place, who)\n",
        )
        return
    uri, workspace = request.getfixturevalue("mongo_uri"), uuid.uuid4().hex
    with closing(MongoStore(uri, workspace)) as store:
        code = f"from ares.store.mongo import MongoStore\nhold = MongoStore({uri!r}, {workspace!r}).hold\n"
        yield store.hold, code
        store._server._client.drop_database(f"ares_{workspace[:12]}")


def _held_elsewhere(code: str) -> subprocess.Popen[str]:
    script = f"{code}with hold('ares ingest'):\n    print('held', flush=True)\n    input()\n"
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_the_second_waits_and_says_for_whom(
    place: tuple[Hold, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, code = place
    monkeypatch.setattr(lease, "_LOOK_SECONDS", 0.05)
    with _held_elsewhere(code) as other:
        with (
            pytest.raises(Busy, match=rf"^ares ingest \(process {other.pid} on "),
            hold("ares annotate", False),
        ):
            raise AssertionError
        ender = threading.Timer(0.5, lambda: other.communicate("\n"))
        ender.start()
        with hold("ares annotate"):
            ended = other.wait(timeout=5)
        ender.join()
    assert ended == 0
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith(f"waiting: ares ingest (process {other.pid} on ")
    with hold("again", False):
        pass


def test_a_killed_holder_is_waited_for_by_nobody(
    place: tuple[Hold, str], capsys: pytest.CaptureFixture[str]
) -> None:
    hold, code = place
    with _held_elsewhere(code) as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        started = time.monotonic()
        with hold("ares annotate"):
            assert time.monotonic() - started < 1
    assert capsys.readouterr().err == ""


def test_a_lease_that_another_took_stops_its_old_holder(
    mongo_uri: str, make_fact: Callable[..., Annotation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder slept past its lease, as a suspended machine does; it must not write beside the new one."""
    monkeypatch.setattr(lease, "_RENEW_SECONDS", 0.2)
    workspace = uuid.uuid4().hex
    with (
        closing(MongoStore(mongo_uri, workspace)) as sleeper,
        closing(MongoStore(mongo_uri, workspace)) as other,
    ):
        with sleeper.hold("sleeper"):
            sleeper.append([make_fact("episode1")])
            monkeypatch.setattr(lease, "_SECONDS", -1.0)
            time.sleep(0.3)  # renewed once more, as one that has run out
            monkeypatch.setattr(lease, "_SECONDS", 60.0)
            sleeper._lease._try = lambda token, who: False  # type: ignore[method-assign]
            with other.hold("ares annotate"):
                time.sleep(0.5)
                with pytest.raises(StoreError, match=r"^another job took over the workspace: ares annotate"):
                    sleeper.append([make_fact("episode2")])
        sleeper.append([make_fact("episode3")])
        assert [fact.episode_id for _, fact in sleeper.read()] == ["episode1", "episode3"]
        sleeper._server._client.drop_database(f"ares_{workspace[:12]}")
