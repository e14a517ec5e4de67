"""Before the first paid call of a run: the server answers in a form that can be used, and the judge is no kin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from annotators.base import Options
from annotators.runner import annotate
from ares.errors import ModelError, RequestError
from ares.jobs import AnnotateReport
from ares.settings import Price, Settings
from ares.workspace import Workspace, open_workspace
from ingest.pipeline import ingest_paths


@pytest.fixture
def ws(tmp_path: Path, demo_samples: Path) -> Iterator[Workspace]:
    """The twelve videos of the demo."""
    with open_workspace(str(tmp_path / "workspace"), Settings()) as workspace:
        ingest_paths(workspace.stores, [str(demo_samples / "video")], quiet=True)
        yield workspace


@pytest.fixture
def remote(options: Options) -> Options:
    price = Price(usd_per_mtok_in=1.0, usd_per_mtok_out=10.0)
    return replace(options, settings=replace(options.settings, price=price))


def _annotate(
    ws: Workspace, options: Options, names: Sequence[str], **more: Any
) -> tuple[AnnotateReport, ...]:
    return annotate(ws.stores, names, options, quiet=True, **more)


def test_calls_and_money_are_those_of_the_server(ws: Workspace, remote: Options, model_server: Any) -> None:
    model_server.says("push the drawer closed")
    options = replace(remote, model=f"openai:Some/Vlm-7B@{model_server.url}")
    (report,) = _annotate(ws, options, ["caption"])
    calls = len(model_server.requests)
    # The test call is one of them; an episode without a readable camera makes none.
    assert calls == report.kept + 1
    assert (report.cost.calls, report.cost.tokens_in, report.cost.tokens_out) == (
        calls,
        1000 * calls,
        10 * calls,
    )
    assert report.cost.usd == pytest.approx(calls * 0.0011)
    (again,) = _annotate(ws, options, ["caption"])
    assert again.already == report.kept and again.cost.calls == 0
    assert len(model_server.requests) == calls


def test_a_server_that_fails_ends_the_run_before_an_episode_is_paid(
    ws: Workspace, remote: Options, model_server: Any, quick_retries: None
) -> None:
    model_server.fails(404)
    with pytest.raises(ModelError, match="the test call failed: model server answered 404"):
        _annotate(ws, replace(remote, model=f"openai:Some/Vlm-7B@{model_server.url}"), ["caption"])
    assert len(model_server.requests) == 1
    makers = ws.stores.annotations.makers().values()
    assert "caption" not in {maker.annotator for maker in makers}


def test_a_judge_whose_reply_has_another_form_is_refused(
    ws: Workspace, remote: Options, model_server: Any
) -> None:
    model_server.says("I think that it is fine")
    with pytest.raises(ModelError, match=r"the test call cannot be used: .*reply is no JSON"):
        _annotate(ws, replace(remote, model=f"openai:Some/Judge-9B@{model_server.url}"), ["grade"])


def test_a_reply_to_empty_frames_that_is_cut_is_a_warning(
    ws: Workspace, remote: Options, model_server: Any
) -> None:
    model_server.says("There is nothing to", finish="length")
    model_server.says("push the drawer closed")
    (report,) = _annotate(
        ws, replace(remote, model=f"openai:Some/Vlm-7B@{model_server.url}"), ["caption"], limit=2
    )
    assert report.kept == 2
    assert [warning.reason.split(":")[0] for warning in report.warnings] == ["the test call failed"]


def test_a_judge_of_the_captioners_family_is_refused_before_a_caption_is_paid(
    ws: Workspace, remote: Options, model_server: Any
) -> None:
    model_server.says("push the drawer closed")
    options = replace(remote, model=f"openai:Some/Vlm-7B@{model_server.url}")
    with pytest.raises(RequestError, match="must not be of the captioner's model family"):
        _annotate(ws, options, ["caption", "grade"])
    # The test call of the captioner, and nothing of an episode.
    assert len(model_server.requests) <= 1


def test_failed_replies_are_paid_and_counted(ws: Workspace, remote: Options, model_server: Any) -> None:
    model_server.answers(lambda request: '""')
    options = replace(remote, model=f"openai:Some/Vlm-7B@{model_server.url}")
    (report,) = _annotate(ws, options, ["caption"], limit=5)
    assert (report.kept, report.failed) == (0, 5)
    assert report.cost.calls == len(model_server.requests) > 1
    assert report.cost.usd == pytest.approx(report.cost.calls * 0.0011)


def test_a_budget_ends_the_run_within_one_call(ws: Workspace, remote: Options, model_server: Any) -> None:
    model_server.says("push the drawer closed")
    options = replace(remote, model=f"openai:Some/Vlm-7B@{model_server.url}")
    (report,) = _annotate(ws, options, ["caption"], budget_usd=0.005)
    spent = 0.0011 * len(model_server.requests)
    # A call can cost 1,114 tokens and 64 more: 0.00176 dollars.
    assert 0.005 - 0.0018 <= spent <= 0.005
    assert report.cost.usd == pytest.approx(spent)
    assert {failure.reason for failure in report.failures} >= {"the budget is spent"}
