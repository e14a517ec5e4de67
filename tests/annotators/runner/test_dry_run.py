"""`--dry-run` loads no model, needs no network, stores nothing, quotes a run, and says what it cannot know."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ares.annotation import Cost
from ares.jobs import AnnotateEstimate, EpisodeSelection, Report
from ares.settings import Price, Settings
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import Options
from ares_annotators.runner.quote import RenewedQuote
from ares_app.demo.run import GRADE_OPTIONS
from tests.annotators.runs import annotate, estimate_cost
from tests.ingesting import ingest_paths
from tests.workspaces import CommandResult

NOWHERE = "hf:no-such-lab/no-such-model"
RunAres = Callable[..., CommandResult]


@pytest.fixture(scope="module")
def captioned(
    tmp_path_factory: pytest.TempPathFactory, demo_samples: Path, reference_models: Path
) -> Iterator[Workspace]:
    """Four episodes, with captions and vectors by the reference models."""
    clip = f"local-dir:{reference_models / 'reference-clip'}"
    settings = Settings(
        embed_model=clip,
        caption_model=f"hf:{reference_models / 'reference-captioner'}",
        judge_model=f"clip:{clip}",
    )
    workspace = open_workspace(str(tmp_path_factory.mktemp("dry") / "ws"), settings)
    ingest_paths(workspace.stores, [str(demo_samples / "video")], limit=4, quiet=True)
    annotate(
        workspace.stores, ["embed", "caption"], Options(settings=settings, device="cpu"), limit=3, quiet=True
    )
    yield workspace
    workspace.close()


@pytest.fixture
def annotated(monkeypatch: pytest.MonkeyPatch, captioned: Workspace) -> Workspace:
    """The same; whatever loads a model, opens a connection or stores a document fails the test."""

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError(f"{arguments}")

    for name in (
        "ares_annotators.models.load_huggingface",
        "ares_annotators.models.clip.load_clip",
        "socket.socket.connect",
        "socket.getaddrinfo",
    ):
        monkeypatch.setattr(name, refuse)
    monkeypatch.setattr(type(captioned.stores.annotations), "put_documents", refuse)
    return captioned


def estimate(ws: Workspace, *names: str, **options: Any) -> list[AnnotateEstimate]:
    values = {f"grade.{name}": value for name, value in GRADE_OPTIONS.items()}
    values = values if "grade" in names and "model" not in options else {}
    return list(estimate_cost(ws.stores, names, Options(settings=ws.settings, values=values, **options)))


def test_what_a_model_has_done_is_known_by_its_files(annotated: Workspace) -> None:
    embed, caption, grade = estimate(annotated, "embed", "caption", "grade")
    assert (embed.planned, embed.already) == (4, 3)
    assert (caption.planned, caption.already, caption.cost.calls) == (4, 3, 1)
    assert (grade.planned, grade.already) == (3, 0)


@pytest.mark.parametrize("name", ["caption", "grade"])
def test_a_model_that_does_not_exist_is_estimated(name: str, annotated: Workspace) -> None:
    (quote,) = estimate(annotated, name, model=NOWHERE)
    # Nobody has graded yet, so nothing can be done already; captions there are, perhaps of this model.
    assert quote.already == (None if name == "caption" else 0)
    assert quote.cost.calls >= quote.planned


def test_a_server_is_not_asked_and_a_limit_holds_for_the_quote(
    annotated: Workspace, run_ares: RunAres
) -> None:
    server = "openai:some-model@http://192.0.2.1:8000/v1"
    quotes = {limit: annotated.estimate("caption", model=server, limit=limit)[0] for limit in (2, None)}
    assert [(quote.planned, quote.already, quote.cost.calls) for quote in quotes.values()] == [
        (2, 0, 2),
        (4, 0, 4),
    ]
    command = ("annotate", "caption", "--model", server, "--limit", "2", "--dry-run", "--json")
    assert run_ares(*command, "-w", annotated.path).json["planned"] == 2


def test_changed_weights_are_another_model(
    annotated: Workspace, tmp_path: Path, reference_models: Path
) -> None:
    copy = shutil.copytree(reference_models / "reference-captioner", tmp_path / "reference-captioner")
    (quote,) = estimate(annotated, "caption", model=f"hf:{copy}")
    assert quote.already is None


def test_the_terminal_says_what_is_unknown(annotated: Workspace, run_ares: RunAres) -> None:
    command = ("annotate", "caption", "--model", NOWHERE, "--dry-run", "-w", annotated.path)
    printed = run_ares(*command)
    assert printed.status == 0
    assert "already: unknown until loaded, for caption" in printed.out
    assert run_ares(*command, "--json").json["already"] is None


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


def test_a_measured_sample_is_scaled_up(
    ws: Workspace, model_server: Any, run_ares: Callable[..., CommandResult]
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
    command = ("annotate", "caption", "--model", spec, "--dry-run", "-w", ws.path)
    assert "caption: scaled up from what 6 have cost in this workspace" in run_ares(*command).out
    # With another layout it is another producer: what the first has captioned is captioned again.
    assert run_ares(*command, "--layout", "tiles", "--json").json["already"] == 0


@pytest.mark.parametrize("total", [300, 20])
def test_a_run_says_between_what_and_what_is_left_once_a_part_is_paid(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch, total: int
) -> None:
    """What is left is of the subjects that are open: of the others an earlier run has paid."""
    monkeypatch.setattr(
        "ares_annotators.runner.quote.estimate_tasks",
        lambda stores, tasks, rest, price: [
            SimpleNamespace(cost=Cost(calls=5 * rest.limit, tokens_in=1_000, usd=0.5))
        ],
    )
    paid = SimpleNamespace(cost=Cost(calls=100, tokens_in=4_000, tokens_out=500))
    tasks: Any = [SimpleNamespace(name="grade", report=paid), SimpleNamespace(name="motion", report=Report())]
    lines: list[str] = []
    renewed = RenewedQuote(ws.stores, tasks, EpisodeSelection(limit=total), total, lines.append)
    for _ in range(total // 4):
        if renewed.advance(4):
            renewed.say()
    left = (
        "between 1,136 calls and 800 tokens (0.40 USD) and 1,704 calls and 1,200 tokens (0.60 USD) are left"
    )
    said = f"annotate grade: after 16 episodes, 100 calls and 4,500 tokens (0.00 USD) are paid; {left}"
    assert lines == ([said] if total == 300 else [])
