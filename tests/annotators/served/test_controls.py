"""A judge that says yes to everything is told by its controls, for money that was quoted before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from annotators.base import Options
from ares.jobs import AnnotateReport
from ares.settings import Settings
from ares.workspace import Workspace
from tests.annotators.runs import annotate, estimate_cost
from tests.annotators.served.conftest import NUM_EPISODES, PRICE
from tests.annotators.served.scripted_server import ScriptedServer

Serve = Callable[..., ScriptedServer]


def _options(server: ScriptedServer, model: str) -> Options:
    return Options(settings=Settings(price=PRICE), model=f"openai:{model}@{server.url}")


@pytest.fixture
def yes_man(ws: Workspace, serve: Serve) -> tuple[AnnotateReport, ScriptedServer]:
    """Captions of a server that always says the same, and grades of one that calls all values the same."""
    annotate(ws.stores, ["caption"], _options(serve({"fine": 1}), "Some/Vlm-7B"), quiet=True)
    server = serve({"fine": 1})
    (report,) = annotate(ws.stores, ["grade"], _options(server, "Other/Judge-9B"), quiet=True)
    return report, server


def _trust(report: AnnotateReport) -> dict[str, Any]:
    """What the controls say of the judge on its one dataset."""
    (document,) = report.judge_trust.values()
    assert isinstance(document, dict)
    return document


def test_a_server_that_always_says_yes_makes_nothing_acceptable(
    ws: Workspace, yes_man: tuple[AnnotateReport, ScriptedServer]
) -> None:
    report, server = yes_man
    assert report.kept == NUM_EPISODES
    trust = _trust(report)
    assert trust["state"] == trust["content"] == "untrusted"
    foreign, injected = trust["kinds"]["foreign"], trust["kinds"]["injected"]
    # What it is to choose, as nothing of it is visible, it chooses blindly: it accepts most, and not all.
    assert foreign["total"] >= 59 and foreign["accepted"] > foreign["total"] / 4
    assert injected["accepted"] > 0
    assert any("captions of other episodes: more than 5%" in reason for reason in trust["reasons"])
    episodes = ws.stores.tables.episodes
    assert episodes.count("acceptable") == 0
    assert episodes.count("grade = 'acceptable'") == NUM_EPISODES, "its word is kept, and asked for by name"
    assert ws.status().judge_trust == report.judge_trust
    assert report.cost.calls == len(server.calls())


@pytest.mark.nightly
def test_the_price_of_controls_is_quoted(ws: Workspace, serve: Serve) -> None:
    annotate(ws.stores, ["caption"], _options(serve({"fine": 1}), "Some/Vlm-7B"), quiet=True)
    server = serve({"fine": 1})
    options = _options(server, "Other/Judge-9B")
    (quote,) = estimate_cost(ws.stores, ["grade"], options)
    (report,) = annotate(ws.stores, ["grade"], options, quiet=True)
    # Quoted are texts of which a quarter of all criteria is contested; this judge agrees with all of them.
    assert NUM_EPISODES * 5 < quote.cost.calls < NUM_EPISODES * 20
    assert NUM_EPISODES * 2 < report.cost.calls < quote.cost.calls


@pytest.mark.nightly
def test_what_was_observed_is_not_quoted_again(ws: Workspace, serve: Serve) -> None:
    annotate(ws.stores, ["caption"], _options(serve({"fine": 1}), "Some/Vlm-7B"), quiet=True, limit=20)
    server = serve({"fine": 1})
    options = _options(server, "Other/Judge-9B")
    other = replace(options, values={"text_model": f"openai:Small/Words-3B@{server.url}"})
    (before,) = estimate_cost(ws.stores, ["grade"], other)
    annotate(ws.stores, ["grade"], options, quiet=True)
    (after,) = estimate_cost(ws.stores, ["grade"], other)
    assert (before.planned, after.planned, after.already) == (20, 20, 0)
    assert before.cost.calls - after.cost.calls == 20


@pytest.mark.nightly
def test_controls_that_fail_are_errors_and_the_grade_is_kept(ws: Workspace, serve: Serve) -> None:
    annotate(ws.stores, ["caption"], _options(serve({"fine": 1}), "Some/Vlm-7B"), quiet=True)
    server = serve({"fine": 20, "400": 1}, seed=5)
    (report,) = annotate(ws.stores, ["grade"], _options(server, "Other/Judge-9B"), quiet=True)
    assert _trust(report)["errors"] > 0
    assert report.kept + report.failed == NUM_EPISODES
    assert report.cost.calls == len(server.calls())
