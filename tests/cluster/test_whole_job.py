"""A whole job on a cluster whose workers, machine and driver are killed in turn ends as the same job on one machine.

It takes some minutes, so it runs where it is asked for: ARES_TEST_CLUSTER=1 make test ARGS="tests/cluster -s"
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from annotators.base import Options
from ares.doctor import run_checks
from ares.settings import Price, Settings
from ares.store import read_spending
from ares.workspace import Workspace, open_workspace
from tests.annotators.runs import annotate
from tests.annotators.served.scripted_server import LoggedCall, ScriptedServer
from tests.cluster.two_machines import TwoMachines
from tests.conftest import ROOT
from tests.ingesting import ingest_paths

pytestmark = pytest.mark.skipif(
    os.environ.get("ARES_TEST_CLUSTER") != "1", reason="takes minutes: set ARES_TEST_CLUSTER=1"
)

# The command line, with writes so frequent that a kill falls between them.
PROGRAM = """
import sys
from annotators.runner import writer
writer._SECONDS_PER_WRITE = 0.5
from app.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
ANNOTATORS = ["motion", "embed", "caption", "grade"]
SAMPLES = ROOT / "app/demo/samples"
CAPTIONER, JUDGE = "Some/Vlm-7B", "Other/Judge-9B"
CALLS_BEFORE_MACHINE, CALLS_BEFORE_DRIVER = 12, 40
# Stored at another time, or by another process, in each run.
TIMES = {"ingested", "created"}


def settings(server: ScriptedServer, mongo_uri: str = "") -> Settings:
    """Models behind the server, prices, and an embedding of 2,048 numbers that needs no model."""
    return Settings(
        price=Price(usd_per_mtok_in=1.0, usd_per_mtok_out=10.0),
        embed_model="hash:2048",
        caption_model=f"openai:{CAPTIONER}@{server.url}",
        judge_model=f"openai:{JUDGE}@{server.url}",
        mongo_uri=mongo_uri,
    )


def make_database(uri: str) -> str:
    """The URI of a new database and of a user of it with a password."""
    name, server = f"cluster_{uuid.uuid4().hex[:8]}", uri.removeprefix("mongodb://")
    with MongoClient[Any](uri) as client:
        client[name].command("createUser", "ares", pwd="not a secret", roles=["dbOwner"])
    return f"mongodb://ares:not%20a%20secret@{server}/{name}?authSource={name}"


def facts(ws: Workspace) -> Counter[tuple[str, ...]]:
    """All annotations, without their cost: a call that a kill has cost is asked again, and has other tokens."""
    ids = sorted(ws.stores.tables.episodes.ids())
    found = ws.stores.annotations.find_annotations(ids)
    return Counter((a.annotation_id, a.subject, a.name, json.dumps(a.value, sort_keys=True)) for a in found)


def rows(ws: Workspace) -> dict[str, Counter[str]]:
    """The rows of every table; those of vectors hold their numbers."""
    connection = ws.stores.tables.connection
    tables: dict[str, Counter[str]] = {}
    for name in connection.table_names():
        if name == "index_state":  # positions in the log, which follow the writes
            continue
        table = connection.newest_version(name)
        columns = sorted(set(table.schema.names) - TIMES)
        tables[name] = Counter(str(row) for row in table.to_table(columns=columns).to_pylist())
    return tables


def failures(ws: Workspace) -> list[tuple[str, str]]:
    """What failed, and why."""
    documents: dict[str, Any] = dict(ws.stores.annotations.find_documents("failures"))
    return sorted((key, document["reason"]) for key, document in documents.items())


def make_local(folder: Path, sources: list[str], server: ScriptedServer) -> Workspace:
    """The job on this machine."""
    ws = open_workspace(str(folder), settings(server))
    ingest_paths(ws.stores, sources, quiet=True)
    annotate(ws.stores, ANNOTATORS, Options(settings=ws.settings), quiet=True)
    return ws


def was_in_flight(call: LoggedCall, kill: float) -> bool:
    """Whether a call was under way at a kill, or its reply had just come."""
    return call.started_at - 0.5 <= kill <= (call.ended_at or call.started_at) + 0.5


def check_money(ws: Workspace, server: ScriptedServer, kill: float) -> None:
    """What is booked is what the server logged; only calls in flight at the kill of the driver may be missing."""
    calls = server.calls()
    lost = [call for call in calls if was_in_flight(call, kill)]
    booked = read_spending(ws.stores.annotations)
    for kind in ("tokens_in", "tokens_out"):
        logged, missing = (sum(getattr(call, kind) for call in group) for group in (calls, lost))
        total = sum(getattr(cost, kind) for cost in booked.values())
        assert logged - missing <= total <= logged
    repeated = {body for body, count in Counter(call.body for call in calls).items() if count > 1}
    assert repeated <= {call.body for call in lost}


def start(workspace: str, environ: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    """A command of the command line, on the cluster."""
    command = [sys.executable, "-c", PROGRAM, *arguments, "-w", workspace, "--engine", "ray"]
    return subprocess.Popen(command, env=environ, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def end(process: subprocess.Popen[str], status: int) -> None:
    """Wait for a command that ends with a status."""
    _, messages = process.communicate(timeout=300)
    assert process.returncode == status, messages


def run_with_kills(
    workspace: str, sources: list[str], environ: dict[str, str], cluster: TwoMachines, server: ScriptedServer
) -> float:
    """The job, in which a worker, another worker, a machine and the driver are killed; the Unix time of the last."""
    process = start(workspace, environ, "ingest", *sources)
    cluster.kill_worker(0)
    end(process, 1)  # the damaged video
    process = start(workspace, environ, "annotate", *ANNOTATORS)
    cluster.kill_worker(1)
    server.wait_for(CALLS_BEFORE_MACHINE)
    cluster.kill_machine(1)
    server.wait_for(CALLS_BEFORE_DRIVER)
    process.kill()
    killed_at = time.time()
    end(process, -signal.SIGKILL)
    end(start(workspace, environ, "annotate", *ANNOTATORS), 0)
    return killed_at


def upload_samples(s3: Any) -> tuple[str, list[str]]:
    """A bucket with the samples of the demo, one video of them damaged, and the addresses of both folders."""
    bucket = s3.bucket()
    for name in ("rlds", "video"):
        s3.upload(SAMPLES / name, f"{bucket}/{name}")
    damaged = min((SAMPLES / "video/videos").glob("*_front.mp4")).name
    s3.put(f"{bucket}/video/videos/{damaged}", b"no video")
    return bucket, [f"s3://{bucket}/rlds", f"s3://{bucket}/video"]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[ScriptedServer]]:
    """Two model servers that answer alike, for the local job and for that on the cluster."""
    with ExitStack() as stack:
        started = []
        for name in ("local-server", "cluster-server"):
            (tmp_path / name).mkdir()
            server = ScriptedServer(tmp_path / name, {"fine": 1}, latency=0.1, slots=8)
            started.append(stack.enter_context(server))
        yield started


def check_equal(remote: Workspace, local: Workspace) -> None:
    """Every fact, failure and row is that of the local job, vectors included."""
    assert facts(remote) == facts(local)
    assert failures(remote) == failures(local)
    expected, found = rows(local), rows(remote)
    assert found.keys() == expected.keys()
    for name, table in expected.items():
        assert found[name] == table, name
    assert run_checks(remote.stores) == []


def test_a_job_whose_machines_are_killed_ends_as_that_of_one_machine(
    s3_environ: Any, mongod: Any, servers: list[ScriptedServer], tmp_path: Path
) -> None:
    bucket, sources = upload_samples(s3_environ)
    mongo_uri, workspace = make_database(mongod.uri), f"s3://{bucket}/lab/ws"
    with TwoMachines() as cluster:
        environ = {
            **os.environ,
            **s3_environ.environ,
            "RAY_ADDRESS": cluster.address,
            "ARES_MONGO_URI": mongo_uri,
            "ARES_PRICE": "1,10",
            "ARES_EMBED_MODEL": "hash:2048",
            "ARES_CAPTION_MODEL": f"openai:{CAPTIONER}@{servers[1].url}",
            "ARES_JUDGE_MODEL": f"openai:{JUDGE}@{servers[1].url}",
            "ARES_CACHE": str(tmp_path / "cache"),
        }
        killed_at = run_with_kills(workspace, sources, environ, cluster, servers[1])
    local = make_local(tmp_path / "local", sources, servers[0])
    remote = open_workspace(workspace, settings(servers[1], mongo_uri))
    with closing(local), closing(remote):
        check_equal(remote, local)
        check_money(remote, servers[1], killed_at)
