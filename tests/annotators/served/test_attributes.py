"""Attributes of a server that lies in known ways: a bad field costs one field, and the quote is near the bill."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ares.settings import Settings
from ares.workspace import Workspace
from ares_annotators.base import Options
from tests.annotators.runs import annotate, estimate_cost
from tests.annotators.served.conftest import NUM_EPISODES, PRICE
from tests.annotators.served.scripted_server import LIES, ScriptedServer

Serve = Callable[..., ScriptedServer]

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_retries")]


def test_a_lie_costs_at_most_its_field_and_nothing_paid_is_lost(ws: Workspace, serve: Serve) -> None:
    server = serve({"fine": 10, **dict.fromkeys(LIES, 2), "429": 1}, seed=3)
    options = Options(settings=Settings(price=PRICE), model=f"openai:Qwen/Qwen3-VL-8B@{server.url}")
    (quote,) = estimate_cost(ws.stores, ["attributes"], options)
    (report,) = annotate(ws.stores, ["attributes"], options, quiet=True)
    calls = server.calls()
    assert (report.kept, report.failed) == (NUM_EPISODES, 0)
    assert report.cost.tokens_in == sum(call.tokens_in for call in calls)
    assert report.cost.tokens_out == sum(call.tokens_out for call in calls)
    assert {call.kind for call in calls} == {"fine", "429", *LIES}
    assert quote.cost.usd and report.cost.usd
    assert 1 / 1.3 < report.cost.usd / quote.cost.usd < 1.3
    rows = ws.stores.tables.episodes.read_columns(["attr_robot_color", "attr_background", "attributes_gaps"])
    colours = rows["attr_robot_color"].to_pylist()
    assert colours.count("black") + colours.count("other") == NUM_EPISODES - colours.count(None)
    # A field that is refused twice is empty and says why; all others of its episode are there.
    gaps = [gap for gaps in rows["attributes_gaps"].to_pylist() for gap in gaps or ()]
    assert len(gaps) <= 0.1 * NUM_EPISODES and rows["attr_background"].to_pylist().count(None) <= len(gaps)
    # Nothing is asked twice: another run finds all done.
    (again,) = annotate(ws.stores, ["attributes"], options, quiet=True)
    assert (again.already, again.cost.calls) == (NUM_EPISODES, 0)
