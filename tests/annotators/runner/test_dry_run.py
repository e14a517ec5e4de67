"""`--dry-run` loads no model, needs no network, stores nothing, and says what it cannot know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from annotators.base import Options
from app.cli.main import main
from app.demo.run import GRADE_OPTIONS
from ares.jobs import AnnotateEstimate
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.annotators.runs import annotate, estimate_cost
from tests.ingesting import ingest_paths

NOWHERE = "hf:no-such-lab/no-such-model"


@pytest.fixture(scope="module")
def annotated(
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


@pytest.fixture(autouse=True)
def no_model_and_no_network(monkeypatch: pytest.MonkeyPatch, annotated: Workspace) -> None:
    """Whatever loads a model, opens a connection or stores a document fails the test."""

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError(f"{arguments}")

    for name in (
        "annotators.models.load_huggingface",
        "annotators.models.clip.load_clip",
        "socket.socket.connect",
        "socket.getaddrinfo",
    ):
        monkeypatch.setattr(name, refuse)
    monkeypatch.setattr(type(annotated.stores.annotations), "put_documents", refuse)


def estimate(ws: Workspace, *names: str, **options: Any) -> list[AnnotateEstimate]:
    values = {f"grade.{name}": value for name, value in GRADE_OPTIONS.items()} if "grade" in names else {}
    return list(estimate_cost(ws.stores, names, Options(settings=ws.settings, values=values, **options)))


def test_what_a_model_has_done_is_known_by_its_files(annotated: Workspace) -> None:
    embed, caption, grade = estimate(annotated, "embed", "caption", "grade")
    assert (embed.planned, embed.already) == (4, 3)
    assert (caption.planned, caption.already, caption.cost.calls) == (4, 3, 1)
    assert (grade.planned, grade.already) == (3, 0)


@pytest.mark.nightly
def test_the_time_is_that_of_earlier_runs_and_of_no_other_model(annotated: Workspace) -> None:
    embed, caption, grade = estimate(annotated, "embed", "caption", "grade")
    assert (embed.timed, caption.timed, grade.timed, grade.seconds) == (3, 3, 0, None)
    assert embed.seconds and caption.seconds
    reports: list[Any] = [report for _, report in annotated.stores.annotations.find_documents("jobs")]
    run = max(report.get("run_seconds", 0.0) for report in reports)
    # One of four is left to both, and both together took as long as their run.
    assert 3 * (embed.seconds + caption.seconds) == pytest.approx(run, rel=0.01)
    (other,) = estimate(annotated, "caption", model=NOWHERE)
    assert other.seconds is None


@pytest.mark.parametrize("name", ["caption", "grade"])
def test_a_model_that_does_not_exist_is_estimated(name: str, annotated: Workspace) -> None:
    (quote,) = estimate(annotated, name, model=NOWHERE)
    # Nobody has graded yet, so nothing can be done already; captions there are, perhaps of this model.
    assert quote.already == (None if name == "caption" else 0)
    assert quote.cost.calls >= quote.planned


def test_a_server_is_not_asked(annotated: Workspace) -> None:
    (quote,) = estimate(annotated, "caption", model="openai:some-model@http://192.0.2.1:8000/v1")
    assert (quote.planned, quote.already, quote.cost.usd) == (4, 0, None)


def test_a_limit_holds_for_the_quote(annotated: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    server = "openai:some-model@http://192.0.2.1:8000/v1"
    quotes = {limit: annotated.estimate("caption", model=server, limit=limit)[0] for limit in (2, None)}
    assert [(quote.planned, quote.already, quote.cost.calls) for quote in quotes.values()] == [
        (2, 0, 2),
        (4, 0, 4),
    ]
    line = ["annotate", "caption", "--model", server, "--limit", "2", "--dry-run", "--json", "-w"]
    assert main([*line, annotated.path]) == 0
    assert json.loads(capsys.readouterr().out)["planned"] == 2


def test_changed_weights_are_another_model(
    annotated: Workspace, tmp_path: Path, reference_models: Path
) -> None:
    copy = tmp_path / "reference-captioner"
    copy.mkdir()
    for path in (reference_models / "reference-captioner").iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    (quote,) = estimate(annotated, "caption", model=f"hf:{copy}")
    assert quote.already is None


def test_the_terminal_says_what_is_unknown(annotated: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["annotate", "caption", "--model", NOWHERE, "--dry-run", "-w", annotated.path]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "already: unknown until loaded, for caption" in printed
    assert "caption: time unknown: no earlier job to measure by" in printed
    assert main([*arguments, "--json"]) == 0
    assert '"already": null' in capsys.readouterr().out
