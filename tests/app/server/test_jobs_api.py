"""Jobs by the HTTP API: planned, started, stopped and resumed; paths outside of the allowed folders are refused."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from ares.errors import StoreError
from ares.settings import Price, Settings, settings_environment, settings_from_environment
from ares.workspace import open_workspace
from ares_app.server.api import make_api
from ares_app.server.command_words import describe_plan
from ares_app.server.jobs import (
    Job,
    JobProgress,
    clean_jobs,
    find_job_path,
    list_all_jobs,
    name_person,
    read_job,
    start_command,
    start_module_process,
    write_job,
)
from ares_app.server.routes import build_changes_route


@pytest.fixture
def client(tmp_path: Path, demo_samples: Path) -> Iterator[TestClient]:
    """An empty workspace whose pages may read the samples."""
    settings = Settings(source_dirs=(str(demo_samples),))
    with (
        open_workspace(str(tmp_path / "w"), settings, create=True) as own,
        TestClient(make_api(own)) as opened,
    ):
        yield opened


def wait(client: TestClient, job_id: str) -> dict[str, Any]:
    """The job, once it has ended."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        (job,) = [job for job in client.get("/jobs").json()["jobs"] if job["id"] == job_id]
        if job["state"] != "running":
            return dict(job)
        time.sleep(0.05)
    pytest.fail(f"{job} does not end")


def test_a_dataset_is_planned_ingested_and_annotated(client: TestClient) -> None:
    ingest = {"command": "ingest", "person": "Ada", "source": "video", "dataset": "films"}
    plan = wait(client, client.post("/jobs", json={**ingest, "plan": True}).json()["id"])
    assert plan["report"]["document"]["episodes"] == 12
    (row,) = describe_plan(plan["report"]["document"])
    assert (row["dataset"], row["episodes"]) == ("films", 12)
    assert client.get("/episodes").json()["total"] == 0
    started = client.post(f"/jobs/{plan['id']}/resume", params={"person": "Ben"}).json()
    assert (started["state"], started["person"]) == ("running", "Ben")
    job = wait(client, started["id"])
    assert (job["state"], job["step"], job["done"], job["total"]) == ("finished", "ingest films", 12, 12)
    assert client.get("/episodes", params={"where": "dataset = 'films'"}).json()["total"] == 12
    where = "instruction <> '--budget=0 $(touch /tmp/x)'"  # is a value, and never an option
    motion = {"command": "annotate", "person": "Ada", "names": ["motion"], "where": where, "limit": 2}
    job = wait(client, client.post("/jobs", json=motion).json()["id"])
    assert job["report"]["status"] == 0 and job["report"]["document"]
    assert f"--where={where}" in job["words"]
    assert client.delete(f"/jobs/{started['id']}", params={"person": "Ada"}).status_code == 200
    for wrong in ("0" * 16, "..%2f..%2fx", "x"):
        assert client.delete(f"/jobs/{wrong}", params={"person": "Ada"}).status_code == 404


def test_the_time_left_is_measured_by_the_first_items(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("ares_app.server.jobs.time.monotonic", lambda: now[0])
    path = tmp_path / "job.json"
    job = Job(words=("annotate", "x"), started="")
    progress = JobProgress(path, job)
    said = []
    for step, second, done in (
        ("a", 0, 0),
        ("a", 2, 10),
        ("a", 3, 20),
        ("a", 3.1, 40),
        ("b", 4, 0),
        ("b", 90, 5),
    ):
        now[0] = 100.0 + second
        progress.tell(step, done, 100)
        said.append((progress.job.step, progress.job.done, progress.job.left_seconds))
    # Ten in two seconds, twenty in three; nothing is known of the next step before its first item.
    assert said == [
        ("a", 0, None), ("a", 10, 18.0), ("a", 20, 12.0), ("a", 40, pytest.approx(4.65)), ("b", 0, None),
        ("b", 5, 86 / 5 * 95),
    ]  # fmt: skip
    assert read_job(path), "the page reads it from the file"


def test_words_that_the_parser_refuses_are_a_failure_with_its_line(tmp_path: Path) -> None:
    """Such as those of a job of an earlier version that is resumed."""
    with open_workspace(str(tmp_path / "w"), Settings()) as own, TestClient(make_api(own)) as client:
        start_command(own.stores, ["set", "create", "new", "--near"], "Ada")
        (job,) = client.get("/jobs").json()["jobs"]
        job = wait(client, job["id"])
    assert (job["state"], job["reason"]) == ("failed", "the command failed")
    assert job["detail"].startswith("ares set create: no option '--near'")


@pytest.mark.slow
def test_what_a_plug_in_prints_does_not_hide_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "site" / "noisy-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: noisy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ares.annotators]\nnoisy = noisy:make\n")
    lines = ("loading", "[1, 2]", "{'weights': None}", '{"loss": [')
    (info.parent / "noisy.py").write_text(
        "".join(f"print({line!r})\n" for line in lines)
        + "from ares.registry import annotators\n"
        + "def make(options, stores): return annotators.get('motion')(options, stores)\n"
    )
    monkeypatch.syspath_prepend(info.parent)
    with open_workspace(str(tmp_path / "w"), Settings()) as own, TestClient(make_api(own)) as client:
        start_command(own.stores, ["annotate", "noisy"], "Ada")
        (job,) = client.get("/jobs").json()["jobs"]
        job = wait(client, job["id"])
    assert (job["state"], job["report"]["document"]["annotator"]) == ("finished", "noisy")


def test_old_jobs_and_their_files_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_workspace(str(tmp_path / "w"), Settings(job_days=3)) as workspace:
        stores, folder = workspace.stores, workspace.stores.folder / "jobs"
        for days, state in ((0, "finished"), (2, "failed"), (9, "finished")):
            words = ("check", str(days))
            file = find_job_path(stores, words)
            write_job(file, Job(words=words, started="2026-01-01"), state=state)
            file.with_suffix(".log").touch()
            reasons = folder / f"{days}.csv"
            reasons.touch()
            for path in (file, reasons):
                os.utime(path, times=(time.time() - 86_400 * days,) * 2)
        clean_jobs(stores)
        assert {job.words[-1] for job in list_all_jobs(stores)} == {"0", "2"}
        assert {path.stem for path in folder.glob("*.csv")} == {"0", "2"}
        assert len(list(folder.glob("*.log"))) == 2
        monkeypatch.setattr("ares_app.server.jobs._MAX_KEPT", 1)
        clean_jobs(stores)
        assert [job.words[-1] for job in list_all_jobs(stores)] == ["0"]


def test_a_job_works_in_the_name_of_who_started_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "say_who.py").write_text("from ares.settings import user_name\nprint(user_name(), end='')\n")
    monkeypatch.syspath_prepend(tmp_path)
    variables = name_person("Zoë\x00")
    process = start_module_process("say_who", [], None, stdout=subprocess.PIPE, variables=variables)
    assert process.communicate(timeout=60)[0].decode() == "Zoë"


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(
            workspace="/w", mongo_uri="mongodb://h", price=Price(usd_per_mtok_in=2.5, usd_per_mtok_out=1e-07),
            media_cache_bytes=0, export_dirs=("/a b", "/c"), source_dirs=("/d",), query_seconds=0.1,
            trusted_proxies=("10.0.0.0/8", "::1"), follow_links=True, failure_kinds=("dropped", "other"),
        ),
    ],
)  # fmt: skip
def test_a_job_has_the_settings_of_the_server_that_starts_it(settings: Settings) -> None:
    assert settings_from_environment(settings_environment(settings)) == settings


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"command": "ingest", "source": "/etc"}, "outside of the allowed folders"),
        ({"command": "ingest", "source": "../../../.."}, "outside of the allowed folders"),
        ({"command": "ingest", "source": "nothing"}, "no such file"),
        ({"command": "ingest", "source": "a" * 300}, "no such file"),
        ({"command": "ingest", "source": "a\0b"}, "cannot be stored"),
        ({"command": "annotate", "names": ["--help"]}, "--help"),
        ({"command": "annotate", "names": []}, "no annotator is named"),
        ({"command": "remove"}, "command"),
        ({"command": "check", "workspace": "/tmp"}, "workspace"),
        ({"command": "check", "person": ""}, "person"),
    ],
)
def test_what_may_not_be_started_is_refused_in_one_line(
    client: TestClient, job: dict[str, Any], words: str
) -> None:
    answer = client.post("/jobs", json={"person": "Ada", **job})
    assert answer.status_code == 400
    assert words in f"{answer.json()['reason']} {answer.json()['detail']}"
    assert client.get("/jobs").json() == {"jobs": []}


def test_a_folder_that_is_not_allowed_is_refused_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "out").symlink_to("/etc")
    for folders, source, words in (
        ((), "/", "ARES_SOURCE_DIRS"),
        ((str(tmp_path / "data"),), "out", "outside of the allowed folders"),
    ):
        with (
            open_workspace(str(tmp_path / "w"), Settings(source_dirs=folders), create=True) as own,
            TestClient(make_api(own)) as client,
        ):
            answer = client.post("/jobs", json={"command": "ingest", "person": "Ada", "source": source})
            assert words in answer.json()["reason"] + answer.json()["detail"]


@pytest.mark.slow
def test_a_socket_gets_each_change_once_also_after_the_store_has_failed() -> None:
    states: list[dict[str, int] | None] = [{"version": 1}, {"version": 1}, None, {"version": 2}]

    def read() -> dict[str, int]:
        state = states.pop(0) if len(states) > 1 else states[0]
        if state is None:
            raise StoreError("the store does not answer", "")
        return state

    with (
        TestClient(Starlette(routes=[build_changes_route(read)])) as client,
        client.websocket_connect("/api/changes") as socket,
    ):
        socket.send_text("a page says nothing here")
        assert socket.receive_json() == {"version": 1}
        assert socket.receive_json() == {"version": 2}
