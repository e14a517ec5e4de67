"""Killed with kill -9, or stopped by Ctrl-C, at random moments: what was paid is kept, and not paid again."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ares.settings import Settings
from ares.store import read_spending
from ares.workspace import open_workspace
from ares_annotators.base import Options
from tests.annotators.runs import annotate
from tests.annotators.served.conftest import PRICE
from tests.annotators.served.scripted_server import LoggedCall, ScriptedServer
from tests.thinning import some_by_day

# A reply that was handed to the system this long before the kill has been read and stored, also on a busy machine.
SECONDS_TO_STORE = 0.5
# A request that was sent before the kill may be read this much later.
SECONDS_TO_READ = 0.5
CAPTIONER, JUDGE = "Some/Vlm-7B", "Other/Judge-9B"
pytestmark = pytest.mark.slow
# A graded caption takes several requests.
GRADED = 20


def start(folder: Path, annotator: str, server: ScriptedServer) -> subprocess.Popen[str]:
    """The command of a user, in a separate process, which Ctrl-C reaches also where this one ignores it."""
    model = f"openai:{CAPTIONER if annotator == 'caption' else JUDGE}@{server.url}"
    command = [sys.executable, "-m", "ares", "annotate", annotator, "-w", str(folder), "--model", model]
    environment = {**os.environ, "ARES_PRICE": "1,10"}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    finally:
        signal.signal(signal.SIGINT, before)


def is_lost(call: LoggedCall, kills: list[float]) -> bool:
    """Whether a call was in flight at a kill, or its reply had just come."""
    stored_at = (call.ended_at or call.started_at) + SECONDS_TO_STORE
    return any(call.started_at - SECONDS_TO_READ <= kill <= stored_at for kill in kills)


def calls_by_request(calls: list[LoggedCall]) -> dict[str, list[LoggedCall]]:
    """The calls of each request in their order."""
    groups: dict[str, list[LoggedCall]] = {}
    for call in sorted(calls, key=lambda call: call.started_at):
        groups.setdefault(call.body, []).append(call)
    return groups


def questions_of(calls: list[LoggedCall]) -> set[str]:
    """All that was asked; what a killed run has left open shares its calls with other captions than before."""
    return {question for call in calls for question in call.questions}


def prepare(folder: Path, annotator: str, serve: Callable[..., ScriptedServer]) -> list[LoggedCall]:
    """Make the captions that grades need. Returns the calls of a run that nothing disturbs, the test call included."""
    if annotator == "caption":
        return run_undisturbed(folder, annotator, serve)
    with open_workspace(str(folder), Settings(price=PRICE)) as workspace:
        options = Options(settings=Settings(), model=f"openai:{CAPTIONER}@{serve({'fine': 1}).url}")
        annotate(workspace.stores, ["caption"], options, quiet=True, limit=GRADED)
    calls = run_undisturbed(folder, annotator, serve)
    # The controls of a grading run ask more than the captions do, and some questions share a call.
    assert len(questions_of(calls)) > len(calls) > 2 * GRADED + 1
    return calls


def run_undisturbed(folder: Path, annotator: str, serve: Callable[..., ScriptedServer]) -> list[LoggedCall]:
    """The calls of a run on a copy of a workspace."""
    server = serve({"fine": 1})
    copy = shutil.copytree(folder, folder.with_name("undisturbed"))
    with open_workspace(str(copy), Settings(price=PRICE)) as workspace:
        model = CAPTIONER if annotator == "caption" else JUDGE
        options = Options(settings=Settings(), model=f"openai:{model}@{server.url}")
        annotate(workspace.stores, [annotator], options, quiet=True)
    return server.calls()


def check_end(
    folder: Path, annotator: str, server: ScriptedServer, undisturbed: list[LoggedCall], kills: list[float]
) -> dict[str, list[LoggedCall]]:
    """Run to the end; every question was asked and no other, and the money is that of the replies that are kept.

    A reply that a kill may have lost is asked for again, unless its captions share their calls with others then: such
    a call may be paid and not kept, and no other.
    """
    stderr = finish(start(folder, annotator, server))
    groups = calls_by_request(server.calls())
    asked, expected = questions_of(server.calls()), questions_of(undisturbed)
    if annotator == "grade":
        # False texts are made of the captions that were graded just before them, which are others after a kill, or
        # none: a kill after the last caption leaves them to the run that has new captions.
        asked, expected = (
            {one for one in questions if not one.startswith("{")} for questions in (asked, expected)
        )
    assert asked == expected, stderr
    with open_workspace(str(folder), Settings(price=PRICE)) as workspace:
        spent = read_spending(workspace.stores.annotations)[CAPTIONER if annotator == "caption" else JUDGE]
        assert workspace.status().annotations[annotator].done == (150 if annotator == "caption" else GRADED)
    last = [calls[-1] for calls in groups.values()]
    shares_calls = annotator == "grade"
    kept = [call for call in last if not (shares_calls and is_lost(call, kills))]
    assert len(kept) <= spent.calls <= len(last)
    assert sum(call.tokens_in for call in kept) <= spent.tokens_in <= sum(call.tokens_in for call in last)
    assert sum(call.tokens_out for call in kept) <= spent.tokens_out <= sum(call.tokens_out for call in last)
    return groups


def finish(process: subprocess.Popen[str], status: int = 0) -> str:
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == status, stderr
    return stderr


@pytest.mark.parametrize("seed", [random.randrange(10**6)])
@pytest.mark.parametrize("annotator", some_by_day(["grade", "caption"], 2))
def test_a_killed_run_pays_no_reply_twice(
    folder: Path, serve: Callable[..., ScriptedServer], annotator: str, seed: int
) -> None:
    print(f"seed {seed}")
    rng, undisturbed = random.Random(seed), prepare(folder, annotator, serve)
    server, kills = serve({"fine": 1}, latency=0.15, slots=12), []
    for share in sorted(rng.uniform(0.02, 0.9) for _ in range(3)):
        process = start(folder, annotator, server)
        server.wait_for(int(share * len(undisturbed)), process)
        time.sleep(rng.uniform(0, 0.15))
        kills.append(time.time())
        process.kill()
        process.communicate()
    groups = check_end(folder, annotator, server, undisturbed, kills)
    repeated = [call for calls in groups.values() for call in calls[:-1]]
    assert [call for call in repeated if not is_lost(call, kills)] == []


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [random.randrange(10**6)])
@pytest.mark.parametrize("annotator", some_by_day(["caption", "grade"], 2))
def test_a_run_stopped_by_ctrl_c_keeps_every_reply(
    folder: Path, serve: Callable[..., ScriptedServer], annotator: str, seed: int
) -> None:
    print(f"seed {seed}")
    rng, undisturbed = random.Random(seed), prepare(folder, annotator, serve)
    server = serve({"fine": 1}, latency=0.15, slots=12)
    process = start(folder, annotator, server)
    server.wait_for(int(rng.uniform(0.05, 0.7) * len(undisturbed)), process)
    process.send_signal(signal.SIGINT)
    stopped_at = time.time()
    assert "stopped by Ctrl-C" in finish(process, 130)
    assert max(call.started_at for call in server.calls()) < stopped_at + SECONDS_TO_READ
    groups = check_end(folder, annotator, server, undisturbed, [])
    assert {len(calls) for calls in groups.values()} == {1}
