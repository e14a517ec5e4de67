"""Attributes of a server that lies in known ways: a bad field costs one field, and the quote is near the bill."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from ares.settings import Settings
from ares.workspace import Workspace
from ares_annotators.attributes.fields import read_fields
from ares_annotators.base import Options
from tests.annotators.runs import annotate, estimate_cost
from tests.annotators.served.conftest import NUM_EPISODES, PRICE
from tests.annotators.served.scripted_server import LIES, ScriptedServer

Serve = Callable[..., ScriptedServer]

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_retries")]


def test_a_lie_costs_at_most_its_field_and_nothing_paid_is_lost(ws: Workspace, serve: Serve) -> None:
    server = serve({"fine": 10, **dict.fromkeys(LIES, 2), "429": 1, "500": 1}, seed=3)
    options = Options(settings=Settings(price=PRICE), model=f"openai:Qwen/Qwen3-VL-8B@{server.url}")
    (report,) = annotate(ws.stores, ["attributes"], options, quiet=True)
    calls = server.calls()
    assert {call.kind for call in calls} == {"fine", "429", "500", *LIES}
    # An episode fails only where both of its replies are of another one.
    others = sum(call.kind == "of another episode" for call in calls)
    assert report.kept + report.failed == NUM_EPISODES and report.failed <= others / 4
    assert report.cost.tokens_in == sum(call.tokens_in for call in calls)
    assert report.cost.tokens_out == sum(call.tokens_out for call in calls)
    names = [field.column for field in read_fields("")]
    rows = ws.stores.tables.episodes.read_columns([*names, "attributes_gaps"]).to_pylist()
    assert {row["attr_robot_color"] for row in rows} <= {"black", "other", None}
    # A field that is refused twice is empty and says why; all others of its episode are there.
    for row in rows:
        gaps = {gap.partition(":")[0] for gap in row["attributes_gaps"] or ()}
        missing = {name.removeprefix("attr_") for name in names if row[name] is None}
        assert missing == gaps or len(missing) == len(names)
    assert sum(len(row["attributes_gaps"] or ()) for row in rows) <= 0.2 * NUM_EPISODES
    # Nothing is asked twice: another run finds all done.
    (again,) = annotate(ws.stores, ["attributes"], options, quiet=True)
    assert (again.already, again.cost.calls) == (report.kept, 0)


@pytest.mark.parametrize("seed", range(4))
def test_the_quote_is_within_a_factor_of_1_3_whatever_is_asked(
    ws: Workspace, serve: Serve, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    server = serve({"fine": 16, **{lie: rng.random() for lie in LIES}, "429": 1}, seed=seed)
    fields = rng.sample(list(read_fields("")), rng.choice([2, 4, 8, 12]))
    file = tmp_path / "fields.yaml"
    file.write_text(yaml.safe_dump([field.model_dump(mode="json") for field in fields]))
    options = Options(
        settings=Settings(price=PRICE),
        model=f"openai:Qwen/Qwen3-VL-8B@{server.url}",
        values={"fields": str(file), "layout": rng.choice(["auto", "sheets", "tiles"])},
    )
    (quote,) = estimate_cost(ws.stores, ["attributes"], options)
    (report,) = annotate(ws.stores, ["attributes"], options, quiet=True)
    assert quote.cost.usd and report.cost.usd
    print(f"{len(fields)} fields, {options.values}: {report.cost.usd / quote.cost.usd:.3f} of the quote")
    assert 1 / 1.3 < report.cost.usd / quote.cost.usd < 1.3
