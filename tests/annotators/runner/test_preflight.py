"""Before the first paid call of a run: the server answers in a form that can be used, and the judge is no kin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ares.errors import ModelError, RequestError
from ares.jobs import AnnotateReport
from ares.settings import Price
from ares.workspace import Workspace
from ares_annotators.base import Options
from ares_annotators.models.server.vlm import ServedModel
from tests.annotators.judge_replies import judge
from tests.annotators.runs import annotate


@pytest.fixture
def ws(video_ws: Workspace) -> Workspace:
    return video_ws


@pytest.fixture
def remote(options: Options) -> Options:
    price = Price(usd_per_mtok_in=1.0, usd_per_mtok_out=10.0)
    return replace(options, settings=replace(options.settings, price=price))


def _annotate(
    ws: Workspace, options: Options, names: Sequence[str], **more: Any
) -> tuple[AnnotateReport, ...]:
    return annotate(ws.stores, names, options, quiet=True, **more)


def test_calls_and_money_are_those_of_the_server(ws: Workspace, remote: Options, model_server: Any) -> None:
    model_server.captions("push the drawer closed")
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
    producers = ws.stores.annotations.producers().values()
    assert "caption" not in {producer.annotator for producer in producers}


def test_a_judge_whose_reply_has_another_form_is_refused(
    ws: Workspace, remote: Options, model_server: Any
) -> None:
    model_server.replies(judge())
    _annotate(ws, replace(remote, model=f"openai:Some/Vlm-7B@{model_server.url}"), ["caption"], limit=1)
    model_server.forget()
    model_server.says("I think that it is fine")
    with pytest.raises(ModelError, match=r"the test call cannot be used: .*reply is no JSON"):
        _annotate(ws, replace(remote, model=f"openai:Some/Judge-9B@{model_server.url}"), ["grade"])
    with pytest.raises(
        ModelError, match="success did nothing, and grade was not begun: `ares annotate grade`"
    ):
        both = replace(remote.settings, judge_model=f"openai:Some/Judge-9B@{model_server.url}")
        _annotate(ws, replace(remote, settings=both), ["success", "grade"])


def test_a_reply_to_empty_frames_that_is_cut_is_a_warning(
    ws: Workspace, remote: Options, model_server: Any
) -> None:
    model_server.says("There is nothing to", finish="length")
    model_server.captions("push the drawer closed")
    (report,) = _annotate(
        ws, replace(remote, model=f"openai:Some/Vlm-7B@{model_server.url}"), ["caption"], limit=2
    )
    assert report.kept == 2
    assert [warning.reason.split(":")[0] for warning in report.warnings] == ["the test call failed"]


def test_a_judge_of_the_captioners_family_is_refused_before_a_caption_is_paid(
    ws: Workspace, remote: Options, model_server: Any
) -> None:
    model_server.captions("push the drawer closed")
    options = _captioner_and_judge(remote, model_server.url, "Some/Vlm-7B", "Some/Vlm-7B")
    with pytest.raises(RequestError, match="must not be of the captioner's model family"):
        _annotate(ws, options, ["caption", "grade"])
    assert not model_server.requests


def _captioner_and_judge(
    options: Options, url: str, captioner: str, judge: str, families: str = ""
) -> Options:
    settings = replace(
        options.settings,
        caption_model=f"openai:{captioner}@{url}",
        judge_model=f"openai:{judge}@{url}",
        model_families=families,
    )
    return replace(options, settings=settings)


def test_a_judge_with_the_captioners_language_model_is_refused_before_a_call(
    ws: Workspace, remote: Options, model_server: Any, tmp_path: Path
) -> None:
    model_server.replies(judge())
    names = ("Qwen/Qwen2.5-VL-7B-Instruct", "OpenGVLab/InternVL3-8B-hf")
    options = _captioner_and_judge(remote, model_server.url, *names)
    with pytest.raises(RequestError, match=r"both were trained from qwen2\.5"):
        _annotate(ws, options, ["caption", "grade"])
    assert not model_server.requests
    file = tmp_path / "families.yaml"
    file.write_text("families: [{pattern: internvl3, family: internvl, language_model: internlm3}]")
    options = _captioner_and_judge(remote, model_server.url, *names, families=str(file))
    _, grade = _annotate(ws, options, ["caption", "grade"], limit=2)
    assert grade.kept == 2
    assert not grade.warnings, "the source says of every episode how it ended"


def test_an_alias_of_a_server_hides_no_language_model(
    ws: Workspace, remote: Options, model_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def describe(url: str, model: str, key: str) -> ServedModel:
        return ServedModel(software="vllm", root={"fast": "Qwen/Qwen2.5-VL-7B-Instruct"}.get(model, ""))

    monkeypatch.setattr("ares_annotators.models.server.vlm.describe_served_model", describe)
    model_server.captions("close the drawer")
    options = _captioner_and_judge(remote, model_server.url, "fast", "OpenGVLab/InternVL3-8B-hf")
    with pytest.raises(RequestError, match="must not have the captioner's language model"):
        _annotate(ws, options, ["caption", "grade"])


def test_a_model_without_a_price_is_a_warning(ws: Workspace, options: Options, model_server: Any) -> None:
    model_server.captions("close the drawer")
    options = replace(options, model=f"openai:Some/Vlm-7B@{model_server.url}")
    (report,) = _annotate(ws, options, ["caption"], limit=1)
    assert report.cost.usd is None
    assert "set ARES_PRICE=IN,OUT" in report.warnings[0].reason
