"""Success behind a server that misbehaves: its money is that of the log of the server, and nothing is paid twice."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from annotators.base import Options
from ares.settings import Settings
from ares.workspace import Workspace
from tests.annotators.runs import annotate, estimate_cost
from tests.annotators.served.conftest import PRICE
from tests.annotators.served.scripted_server import FINISHES, STATUSES, ScriptedServer

Serve = Callable[..., ScriptedServer]
LIMIT = 30
# Statuses and replies whose cost is known.
KINDS = dict.fromkeys([*STATUSES, *FINISHES, "prose", "refusal"], 1.0) | {"fine": 40.0}


pytestmark = pytest.mark.usefixtures("quick_retries")


def options(url: str, model: str) -> Options:
    return Options(settings=Settings(price=PRICE), model=f"openai:{model}@{url}")


def add_captions(ws: Workspace, serve: Serve) -> None:
    """The episodes have no instruction: the caption is their task."""
    captioner = options(serve({"fine": 1}).url, "Some/Vlm-7B")
    annotate(ws.stores, ["caption"], captioner, quiet=True, limit=LIMIT)


def test_what_a_server_charges_is_what_the_report_says(ws: Workspace, serve: Serve) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    add_captions(ws, serve)
    server = serve(KINDS, seed=seed)
    judge = options(server.url, "Other/Judge-9B")
    (report,) = annotate(ws.stores, ["success"], judge, quiet=True, limit=LIMIT)
    calls = server.calls()
    assert report.cost.calls == len(calls) and report.kept + report.failed == LIMIT
    assert report.cost.tokens_in == sum(call.tokens_in for call in calls)
    assert report.cost.tokens_out == sum(call.tokens_out for call in calls)
    assert report.kept > 0


def test_criteria_of_a_task_are_paid_once_and_a_second_run_pays_nothing(ws: Workspace, serve: Serve) -> None:
    add_captions(ws, serve)
    server = serve({"fine": 1})
    judge = options(server.url, "Other/Judge-9B")
    (report,) = annotate(ws.stores, ["success"], judge, quiet=True, limit=LIMIT)
    assert not report.failures, report.failures
    # Every episode has the same caption: two test calls, criteria once, and a vote and progress of each episode. The
    # server sends no probabilities, so it is not asked for scored answers again.
    calls = 3 + 2 * LIMIT
    assert (report.kept, len(server.calls())) == (LIMIT, calls)
    assert any("no probabilities" in warning.reason for warning in report.warnings)
    (again,) = annotate(ws.stores, ["success"], judge, quiet=True, where="success_verdict is not null")
    # Where there is no work, there is no test call.
    assert (again.already, again.cost.calls) == (LIMIT, 0)
    assert len(server.calls()) == calls
    rows = ws.stores.tables.episodes.read_columns(["success_verdict"], "success_verdict is not null")
    assert len(rows) == LIMIT and "failure" not in rows["success_verdict"].to_pylist()


def test_a_budget_ends_the_run(ws: Workspace, serve: Serve) -> None:
    add_captions(ws, serve)
    server = serve({"fine": 1}, latency=0.02)
    judge = options(server.url, "Other/Judge-9B")
    (report,) = annotate(ws.stores, ["success"], judge, quiet=True, budget_usd=0.03)
    assert report.cost.usd is not None and report.cost.usd <= 0.03
    assert report.ended_by == "budget" and report.open


def test_a_quote_asks_no_server(ws: Workspace, serve: Serve) -> None:
    server = serve({"fine": 1})
    (quote,) = estimate_cost(ws.stores, ["success"], options(server.url, "Other/Judge-9B"))
    assert quote.planned == 150 and quote.cost.calls == 450 and (quote.cost.usd or 0) > 0
    assert not server.calls()
