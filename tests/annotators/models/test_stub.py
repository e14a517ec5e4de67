"""The doubles of a vision-language model reply as scripted and are recognisable in every result."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from annotators.base import Options, Result, Work
from annotators.caption import CaptionAnnotator
from annotators.models import VlmFailure, VlmReply, VlmRequest, load_vlm
from ares.episode import Episode
from ares.errors import ModelError, RequestError
from ares.workspace import Workspace
from tests.annotators.scripted_vlm import StubVlm


def _requests(*prompts: str) -> list[VlmRequest]:
    return [VlmRequest(images=[], prompt=prompt) for prompt in prompts]


def test_queued_replies_come_before_those_of_the_responder() -> None:
    vlm = StubVlm(responder=lambda request: request.prompt.upper())
    vlm.enqueue("first", ModelError("server is down", ""))
    first, error, third = vlm.ask(_requests("a", "b", "c"))
    assert isinstance(first, VlmReply) and (first.text, first.cost.calls) == ("first", 1)
    assert isinstance(error, VlmFailure) and error.error.reason == "server is down"
    assert isinstance(third, VlmReply) and third.text == "C"
    assert [request.prompt for request in vlm.history] == ["a", "b", "c"]


def test_a_stub_without_replies_is_an_error() -> None:
    (error,) = StubVlm().ask(_requests("a"))
    assert isinstance(error, VlmFailure) and error.error.reason == "the stub has no reply"


def test_annotations_name_the_stub_as_their_model(
    options: Options, ws: Workspace, episodes: dict[str, Episode], work_for: Callable[..., Work]
) -> None:
    from dataclasses import replace

    annotator = CaptionAnnotator(replace(options, model="stub:close the drawer"), ws.stores)
    (result,) = annotator.process([work_for(episodes["drawer-close_000"], [annotator])])
    assert isinstance(result, Result)
    assert result.annotations[0].value["text"] == "close the drawer"
    assert annotator.producer.model == "stub:close the drawer"
    assert annotator.producer.settings["family"] == "stub"


def test_a_stub_needs_a_text(options: Options) -> None:
    with pytest.raises(RequestError, match="model spec cannot be read"):
        load_vlm("stub:", options, 8)
