"""Whatever a server does, the calls, tokens and money of report and workspace are those of the server's own log."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pytest

from ares.annotation import Cost
from ares.jobs import AnnotateReport
from ares.rubric import shipped_verbs
from ares.settings import Settings
from ares.store import read_spending
from ares.workspace import Workspace
from ares_annotators.base import Options
from ares_annotators.caption import fill_prompt
from ares_annotators.models.server.connection import ServerConnection
from tests.annotators.runs import annotate, estimate_cost
from tests.annotators.served.conftest import PRICE
from tests.annotators.served.scripted_server import (
    BROKEN,
    CAPTION,
    DOCUMENTS,
    FINISHES,
    STATUSES,
    TEXTS,
    USAGES,
    LoggedCall,
    ScriptedServer,
)
from tests.thinning import some_by_day

Serve = Callable[..., ScriptedServer]
# What a server may do and still say, or never have charged, what a call has cost.
KNOWN = dict.fromkeys([*STATUSES, *FINISHES, *TEXTS, "refusal", "no choices"], 1.0) | {"fine": 15.0}
# What leaves the usage of a call open.
UNKNOWN = dict.fromkeys([*BROKEN, *USAGES, *(DOCUMENTS.keys() - {"no choices"})], 1.0)
WARNING = "the usage of a call is not known: it may have cost more than is counted"
JUDGE, CAPTIONER = "Other/Judge-9B", "Some/Vlm-7B"


pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_retries")]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For servers that are slow on purpose; a busy machine may let an ordinary call wait as long."""
    limited = partial(ServerConnection, timeout_seconds=3.0)
    monkeypatch.setattr("ares_annotators.models.server.connection.ServerConnection", limited)


@pytest.fixture
def seed() -> int:
    """Printed where a test fails."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    return seed


def _options(url: str, name: str) -> Options:
    return Options(settings=Settings(price=PRICE), model=f"openai:{name}@{url}")


def _sums(calls: Sequence[LoggedCall]) -> tuple[int, int, int]:
    return len(calls), sum(call.tokens_in for call in calls), sum(call.tokens_out for call in calls)


def _usd(calls: Sequence[LoggedCall]) -> float:
    _, tokens_in, tokens_out = _sums(calls)
    return (tokens_in * PRICE.usd_per_mtok_in + tokens_out * PRICE.usd_per_mtok_out) / 1e6


def _counts(cost: Cost) -> tuple[int, int, int]:
    return cost.calls, cost.tokens_in, cost.tokens_out


def _annotate(
    ws: Workspace,
    serve: Serve,
    name: str,
    kinds: Mapping[str, float],
    *,
    seed: int = 0,
    limit: int | None = None,
    budget_usd: float | None = None,
    latency: float = 0.0,
) -> tuple[AnnotateReport, ScriptedServer]:
    """Run one annotator at a separate server; others than captions get these first, from a server that works."""
    if name != "caption":
        _add_captions(ws, serve, limit)
    server = serve(kinds, seed=seed, latency=latency)
    options = _options(server.url, CAPTIONER if name == "caption" else JUDGE)
    (report,) = annotate(ws.stores, [name], options, quiet=True, limit=limit, budget_usd=budget_usd)
    return report, server


def _add_captions(ws: Workspace, serve: Serve, limit: int | None) -> None:
    """The episodes have no instruction: the caption is what is graded, and the task of success."""
    annotate(ws.stores, ["caption"], _options(serve({"fine": 1}).url, CAPTIONER), quiet=True, limit=limit)


@pytest.mark.parametrize(
    ("name", "limit"), some_by_day([("grade", 50), ("caption", 150), ("success", 30)], rows=True)
)
def test_what_a_server_charges_is_what_report_and_workspace_say(
    ws: Workspace, serve: Serve, seed: int, name: str, limit: int
) -> None:
    report, server = _annotate(ws, serve, name, KNOWN, seed=seed, limit=limit)
    calls = server.calls()
    assert _counts(report.cost) == _sums(calls)
    assert report.cost.usd == pytest.approx(_usd(calls))
    assert (report.planned, report.kept + report.failed) == (limit, limit)
    assert report.failed > 0 and WARNING not in {warning.reason for warning in report.warnings}
    spent = read_spending(ws.stores.annotations)[CAPTIONER if name == "caption" else JUDGE]
    assert _counts(spent) == _sums(calls) and spent.usd == pytest.approx(_usd(calls))
    assert ws.status().spent[CAPTIONER].calls > 0


@pytest.mark.nightly
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("name", "limit"), some_by_day([("caption", 100), ("grade", 30)], rows=True))
def test_calls_of_unknown_usage_are_counted_and_said(
    ws: Workspace, serve: Serve, seed: int, name: str, limit: int
) -> None:
    report, server = _annotate(ws, serve, name, {**UNKNOWN, "fine": 10.0}, seed=seed, limit=limit)
    calls = server.calls()
    assert _counts(report.cost) == _sums(calls)
    (count,) = [warning.count for warning in report.warnings if warning.reason == WARNING]
    assert count == sum(call.kind in UNKNOWN for call in calls)
    has_impossible_usage = any(call.kind in (*USAGES, *DOCUMENTS) for call in calls)
    assert (report.cost.usd is None) == has_impossible_usage


@pytest.mark.parametrize("name", ["caption", "grade", "success"])
def test_a_budget_ends_a_run_within_one_call(ws: Workspace, serve: Serve, seed: int, name: str) -> None:
    budget = random.Random(seed).uniform(0.02, 0.06)
    kinds = {"fine": 1.0} if name == "success" else KNOWN
    report, server = _annotate(ws, serve, name, kinds, seed=seed, budget_usd=budget, latency=0.02)
    spent, max_tokens = _usd(server.calls()), 300 if name == "caption" else 800
    # A plain sentence gets its slots by a second call. The first of these has no measured tokens: each character of
    # its prompt is reserved.
    most_tokens_in = len(fill_prompt(CAPTION, shipped_verbs())) if name == "caption" else 1100
    most_of_a_call = (most_tokens_in * 1.05 + 64) * 1e-6 + max_tokens * 10e-6
    assert spent <= budget and (name == "success" or budget - most_of_a_call <= spent)
    assert report.cost.usd == pytest.approx(spent)
    assert report.ended_by == "budget" and report.open


def test_a_timeout_is_charged_to_the_budget(ws: Workspace, serve: Serve, seed: int) -> None:
    report, server = _annotate(ws, serve, "caption", {"dropped": 1.0}, seed=seed, budget_usd=0.01)
    # Nobody knows what the server charges for them: the most that a call can cost.
    assert _usd(server.calls()) < 0.002
    assert len(server.calls()) < 15
    assert report.ended_by == "budget" and report.open


def test_retried_are_only_the_failures_of_a_reason(ws: Workspace, serve: Serve, seed: int) -> None:
    kinds = {"fine": 5.0, "refusal": 1.0, "cut at the limit": 1.0}
    report, _ = _annotate(ws, serve, "caption", kinds, seed=seed)
    failed = {failure.reason: failure.count for failure in report.failures}
    healthy = serve({"fine": 1})
    options = _options(healthy.url, CAPTIONER)
    (quote,) = estimate_cost(ws.stores, ["caption"], options, retry_failed=True, reason="refused")
    assert quote.planned == failed["model refused"]
    (retried,) = annotate(ws.stores, ["caption"], options, quiet=True, retry_failed=True, reason="REFUSED")
    assert (retried.planned, retried.kept, retried.failed) == (failed["model refused"],) * 2 + (0,)
    # The test call has been paid before.
    assert len(healthy.calls()) == failed["model refused"]
    other = _options(healthy.url, "Other/Vlm-7B")
    (nothing,) = annotate(ws.stores, ["caption"], other, quiet=True, retry_failed=True)
    assert nothing.planned == 0 and "what failed had another model" in nothing.warnings[-1].reason
    (rest,) = annotate(ws.stores, ["caption"], options, quiet=True, retry_failed=True)
    assert rest.kept == failed["reply was cut at its length limit"]
    (nothing,) = annotate(ws.stores, ["caption"], options, quiet=True, retry_failed=True)
    assert nothing.planned == 0
