"""What `--dry-run` quotes: computed from the sizes of the cameras, or measured where the producer has worked before."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from annotators.base import Options
from annotators.runner.quote import RenewedQuote
from app.cli.main import main
from ares.annotation import Cost
from ares.jobs import EpisodeSelection
from ares.settings import Price, Settings
from ares.workspace import Workspace
from tests.annotators.runs import annotate, estimate_cost
from tests.thinning import some_by_day

PRICE = Price(usd_per_mtok_in=1.0, usd_per_mtok_out=10.0)


@pytest.fixture
def ws(video_ws: Workspace) -> Workspace:
    return video_ws


@pytest.mark.nightly
def test_images_cost_what_the_family_makes_of_their_size(ws: Workspace) -> None:
    settings = Settings(price=PRICE)
    spec = "openai:Qwen/Qwen3-VL-8B-Instruct@http://192.0.2.1:8000/v1"
    tiles = Options(settings=settings, model=spec, values={"layout": "tiles"})
    (quote,) = estimate_cost(ws.stores, ["caption"], tiles)
    # Cameras of 192 x 192 pixels are enlarged to 256 x 256; three images, and some 950 tokens of text.
    words = quote.cost.tokens_in - quote.planned * 3 * (64 + 2)
    assert 900 * quote.planned < words < 1000 * quote.planned
    assert quote.cost.usd == pytest.approx((quote.cost.tokens_in + quote.planned * 105 * 10) / 1e6)
    assert quote.measured == 0
    large = replace(settings, caption_model="openai:lab/unknown@http://192.0.2.1:8000/v1")
    (unknown,) = estimate_cost(ws.stores, ["caption"], replace(tiles, settings=large, model=""))
    assert unknown.cost.tokens_in == unknown.planned * 3 * 400 + words
    # By default both cameras are shown, and more of long episodes.
    (by_duration,) = estimate_cost(ws.stores, ["caption"], replace(tiles, values={}))
    assert by_duration.cost.tokens_in > words + 2 * quote.planned * 3 * (64 + 2)


@pytest.mark.nightly
def test_a_reason_without_a_retry_is_refused(ws: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["annotate", "motion", "--dry-run", "--reason", "time", "-w", ws.path]) == 2
    assert "give --retry-failed too" in capsys.readouterr().err
    assert main(["annotate", "motion", "--dry-run", "--retry-failed", "-w", ws.path, "--json"]) == 0
    assert '"planned": 0' in capsys.readouterr().out


def test_a_measured_sample_is_scaled_up(
    ws: Workspace, model_server: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    model_server.captions("push the drawer closed")
    spec = f"openai:Some/Vlm-7B@{model_server.url}"
    options = Options(settings=Settings(), model=spec)
    annotate(ws.stores, ["caption"], options, quiet=True, limit=4)
    (few,) = estimate_cost(ws.stores, ["caption"], options)
    assert (few.already, few.measured) == (4, 0)
    annotate(ws.stores, ["caption"], options, quiet=True, limit=2)
    priced = replace(options, settings=Settings(price=PRICE))
    (quote,) = estimate_cost(ws.stores, ["caption"], priced)
    rest = quote.planned - 6
    assert (quote.already, quote.measured, quote.cost.calls) == (6, 6, rest)
    assert (quote.cost.tokens_in, quote.cost.tokens_out) == (1000 * rest, 10 * rest)
    # The sample was made without a price: the tokens are known, and so is the money now.
    assert quote.cost.usd == pytest.approx(rest * 0.0011)
    assert main(["annotate", "caption", "--model", spec, "--dry-run", "-w", ws.path]) == 0
    assert "caption: scaled up from what 6 have cost in this workspace" in capsys.readouterr().out
    # With another layout it is another producer: what the first has captioned is captioned again.
    arguments = ["annotate", "caption", "--model", spec, "--layout", "tiles", "--dry-run", "-w", ws.path]
    assert main(arguments) == 0
    assert "caption: 6 of them have a value of another producer, made again here" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("total", "said"), some_by_day([(300, [16]), (20, []), (1_000, [16, 52])], rows=True)
)
def test_a_run_says_what_is_left_once_a_part_is_paid(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch, total: int, said: list[int]
) -> None:
    def estimate_rest(stores: Any, tasks: Any, selection: EpisodeSelection, price: Any) -> list[Any]:
        return [SimpleNamespace(cost=Cost(calls=3 * (selection.limit or 0), tokens_in=1_000, usd=0.5))]

    monkeypatch.setattr("annotators.runner.quote.estimate_tasks", estimate_rest)
    measures = SimpleNamespace(estimate_run=lambda sample, planned: Cost())
    paid = SimpleNamespace(cost=Cost(calls=1_234, tokens_in=4_000, tokens_out=500))
    task: Any = SimpleNamespace(name="grade", annotator=measures, report=paid)
    lines: list[str] = []
    renewed = RenewedQuote(ws.stores, [task], EpisodeSelection(limit=total), total, lines.append)
    for _ in range(total // 4):
        if renewed.advance(4):
            renewed.say()
    assert [int(re.search(r"after (\d+) episodes", line)[1]) for line in lines] == said  # type: ignore[index]
    for line, done in zip(lines, said, strict=True):
        assert (
            "1,234 calls and 4,500 tokens are paid" in line
            or "1,234 calls and 4,500 tokens (0.00 USD)" in line
        )
        assert f"about {3 * (total - done):,} calls and 1,000 tokens (0.50 USD) are left" in line
