"""Captioning: the reference captioner's real sentences, and what becomes of bad replies."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from annotators.base import Options, Outcome, PaidFailure, Result, Work, make_episode_subject
from annotators.caption import CaptionAnnotator
from annotators.caption.captioner import clean_caption_reply
from annotators.models import load_vlm
from ares.episode import Episode
from ares.errors import MediaError, ModelError, RequestError
from ares.settings import Price
from ares.workspace import Workspace

Works = Callable[..., Work]


def test_real_captions_in_one_batch(
    options: Options, ws: Workspace, episodes: dict[str, Episode], work_for: Works
) -> None:
    annotator = CaptionAnnotator(options, ws.stores)
    works = [work_for(episodes[name], [annotator]) for name in ("drawer-close_000", "gone", "basketball_009")]
    drawer, gone, basketball = annotator.process(works)
    assert isinstance(gone, MediaError)
    assert _text(drawer) == "push the green drawer closed"
    assert _text(basketball) == "fail to pick up the orange basketball and dunk it into the hoop"
    assert isinstance(drawer, Result)
    made = drawer.annotations[0]
    assert (made.name, made.camera, len(made.frames)) == ("caption", "front", 3)
    assert made.cost.calls == 1 and made.cost.tokens_out > 3 and made.cost.usd == 0.0
    assert made.value["layout"] == "tiles"


def _text(result: Outcome) -> str:
    assert isinstance(result, Result)
    return str(result.annotations[0].value["text"])


def test_the_maker_names_weights_prompt_and_layout(options: Options, ws: Workspace) -> None:
    tiles = CaptionAnnotator(options, ws.stores).maker
    assert tiles.model.startswith("reference-captioner@")
    assert tiles.prompt_hash
    assert (
        CaptionAnnotator(replace(options, values={"layout": "frames:3"}), ws.stores).maker.maker_id
        != tiles.maker_id
    )
    assert CaptionAnnotator(options, ws.stores).maker.maker_id == tiles.maker_id


@pytest.fixture()
def remote(options: Options, model_server: Any) -> Options:
    settings = replace(options.settings, price=Price(usd_per_mtok_in=1.0, usd_per_mtok_out=2.0))
    return replace(options, settings=settings, model=f"openai:Some/Vlm-7B@{model_server.url}")


def test_a_served_captioner_is_never_told_the_instruction(
    remote: Options, ws: Workspace, episodes: dict[str, Episode], work_for: Works, model_server: Any
) -> None:
    model_server.says(' "Close the drawer." \n')
    annotator = CaptionAnnotator(replace(remote, values={"layout": "collage"}), ws.stores)
    episode = episodes["drawer-close_000"]
    (result,) = annotator.process([work_for(episode, [annotator])])
    assert _text(result) == "Close the drawer."
    assert isinstance(result, Result)
    assert result.annotations[0].value["raw"] == ' "Close the drawer." \n'
    assert result.annotations[0].cost.usd == pytest.approx(0.001020)
    (prompt,) = model_server.prompts()
    assert episode.instruction not in str(model_server.requests)
    assert "3 tiles" in prompt
    assert len(model_server.requests[0]["messages"][-1]["content"]) == 2
    assert annotator.workers > 1
    assert (annotator.estimate(make_episode_subject(episode)).usd or 0) > 0


@pytest.mark.parametrize("reply", ["", "  \n", '""'])
def test_an_empty_caption_is_a_failure(
    remote: Options,
    ws: Workspace,
    episodes: dict[str, Episode],
    work_for: Works,
    model_server: Any,
    reply: str,
) -> None:
    model_server.says(reply)
    annotator = CaptionAnnotator(remote, ws.stores)
    (result,) = annotator.process([work_for(episodes["drawer-close_000"], [annotator])])
    assert isinstance(result, PaidFailure) and result.error.reason == "caption is empty"
    assert result.cost.calls == 1 and result.cost.usd == pytest.approx(0.001020)


def test_nothing_but_space_and_quotes_is_cleaned() -> None:
    assert clean_caption_reply(" “close\n the  drawer” ") == "close the drawer"
    assert clean_caption_reply("<b>close</b> 'it'") == "<b>close</b> 'it'"


@pytest.mark.parametrize(
    "spec", ["gpt", "hf:", "openai:m", "openai:m@ftp://x", "openai:@http://x/v1", "clip:x"]
)
def test_a_spec_that_cannot_be_read(options: Options, spec: str) -> None:
    with pytest.raises(RequestError, match="model spec cannot be read"):
        load_vlm(spec, options, 8)


def test_an_unknown_price_is_no_zero(remote: Options, ws: Workspace, episodes: dict[str, Episode]) -> None:
    unknown = replace(remote, settings=replace(remote.settings, price=None))
    assert CaptionAnnotator(unknown, ws.stores).estimate(make_episode_subject(episodes["gone"])).usd is None


def test_a_folder_without_a_model(options: Options, tmp_path: Path, reference_models: Path) -> None:
    with pytest.raises(ModelError, match="vision-language model cannot be loaded"):
        load_vlm(f"hf:{tmp_path}", options, 8)
    broken = tmp_path / "broken"
    shutil.copytree(reference_models / "reference-captioner", broken)
    (broken / "model.safetensors").chmod(0o644)
    (broken / "model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(ModelError, match="vision-language model cannot be loaded"):
        load_vlm(f"hf:{broken}", options, 8)


def test_a_reply_that_meets_its_bound_is_an_error(
    options: Options, episodes: dict[str, Episode], reference_models: Path
) -> None:
    import numpy as np

    from annotators.models import VlmFailure, VlmRequest

    vlm = load_vlm(f"hf:{reference_models / 'reference-captioner'}", options, 2)
    (reply,) = vlm.ask([VlmRequest(images=[np.zeros((96, 96, 3), np.uint8)] * 3, prompt="x")])
    assert isinstance(reply, VlmFailure) and reply.error.reason == "reply was cut at its length limit"
    assert (reply.cost.calls, reply.cost.tokens_out) == (1, 2)
