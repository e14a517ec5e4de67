"""Captioning: the reference captioner's real sentences, and what becomes of bad replies."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ares.annotation import Cost, Producer
from ares.episode import Episode
from ares.errors import MediaError, ModelError, RequestError
from ares.rubric import shipped_verbs
from ares.settings import Price
from ares.workspace import Workspace
from ares_annotators.base import Options, Outcome, PaidFailure, Result, Work, make_episode_subject
from ares_annotators.caption import CaptionAnnotator
from ares_annotators.caption.captioner import clean_caption_reply, parse_caption_reply
from ares_annotators.models import load_vlm
from ares_app.demo.run import CAPTION_OPTIONS

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


@pytest.fixture()
def remote(options: Options, model_server: Any) -> Options:
    settings = replace(options.settings, price=Price(usd_per_mtok_in=1.0, usd_per_mtok_out=2.0))
    return replace(options, settings=settings, model=f"openai:Some/Vlm-7B@{model_server.url}")


TYPED: dict[str, Any] = {
    "action": "close",
    "other_action": "",
    "object": "drawer",
    "attributes": ["Green"],
    "from": "",
    "to": "not visible",
    "hand": "",
    "manner": "by its  handle.",
    "count": "",
    "outcome": "not completed",
    "sentence": "Fail to close the green drawer by its handle.",
}
FILLED = {
    "action": "close",
    "action_words": "Close",
    "object": "drawer",
    "attributes": [],
    **dict.fromkeys(("from", "to", "hand", "manner", "count"), ""),
    "outcome": "completed",
}


@pytest.fixture
def caption(
    remote: Options, ws: Workspace, episodes: dict[str, Episode], work_for: Works
) -> Callable[..., Outcome]:
    """Captions one episode as a new run does."""

    def run(options: Options = remote, episode: str = "drawer-close_000", **values: Any) -> Outcome:
        annotator = CaptionAnnotator(replace(options, values=values), ws.stores)
        (outcome,) = annotator.process([work_for(episodes[episode], [annotator])])
        return outcome

    return run


def test_a_served_captioner_writes_slots_and_is_never_told_the_instruction(
    caption: Any, remote: Options, ws: Workspace, episodes: dict[str, Episode], model_server: Any
) -> None:
    model_server.says(json.dumps(TYPED))
    annotator, episode = CaptionAnnotator(remote, ws.stores), episodes["drawer-close_000"]
    result = caption()
    (made,) = result.annotations
    assert made.value["text"] == made.value["caption"] == TYPED["sentence"]
    assert made.value["slots"] == {
        "action": "close",
        "object": "drawer",
        "attributes": "green",
        "manner": "by its handle",
        "outcome": "not completed",
    }
    assert made.value["caption_success"] is False
    assert made.value["layout"] == "auto" and made.value["raw"] == json.dumps(TYPED)
    assert made.camera == "" and made.cost.usd == pytest.approx(0.001020)
    (prompt,), (request,) = model_server.prompts(), model_server.requests
    assert episode.instruction not in str(model_server.requests)
    assert prompt.startswith("Caption one segment of a robot recording.\n")
    assert "- pick up: " in prompt and all(f"{second:.2f} s" in prompt for second in made.frames)
    assert len(request["messages"][-1]["content"]) == 1 + sum(
        map(len, annotator.select_frames(make_episode_subject(episode)).values())
    )
    assert list(request["response_format"]["json_schema"]["schema"]["properties"]) == list(TYPED)
    assert annotator.workers > 1


def test_a_server_that_takes_no_notice_of_a_schema_is_asked_for_the_slots(
    caption: Any, model_server: Any
) -> None:
    def reply(request: dict[str, Any]) -> str:
        text = request["messages"][-1]["content"][-1]["text"]
        is_filled = text.startswith("Fill the slots of one sentence.\n")
        return json.dumps(FILLED) if is_filled else ' "Close the drawer." \n'

    model_server.answers(reply)
    result = caption(layout="tiles")
    (made,) = result.annotations
    assert _text(result) == "Close the drawer."
    assert made.value["raw"] == ' "Close the drawer." \n'
    assert made.value["slots"] == {"action": "close", "object": "drawer", "outcome": "completed"}
    assert made.value["caption_success"] is True
    assert made.camera == "front"
    assert (made.cost.calls, result.cost.calls) == (2, 2)
    assert made.cost.usd == pytest.approx(2 * 0.001020)
    first, second = model_server.prompts()
    assert "3 images in order of time" in first
    assert 'drawer."}' in second and len(model_server.requests[1]["messages"][-1]["content"]) == 1


def test_a_sentence_whose_slots_cannot_be_filled_fails_and_both_calls_are_paid(
    caption: Any, model_server: Any
) -> None:
    model_server.says("Close the drawer.")
    failure = caption()
    assert isinstance(failure, PaidFailure) and failure.error.reason == "slots cannot be filled"
    assert failure.cost.calls == 2
    # Replies are kept, so another try pays for neither again.
    again = caption()
    assert isinstance(again, PaidFailure) and again.cost.calls == 0
    assert len(model_server.requests) == 2


@pytest.mark.parametrize(
    ("reply", "finish", "reason"),
    [
        (json.dumps({**TYPED, "outcome": "perhaps"}), "stop", "caption is of another form"),
        (json.dumps({**TYPED, "more": ""}), "stop", "caption is of another form"),
        ("[]", "stop", "caption is of another form"),
        (json.dumps(TYPED)[:-9], "stop", "caption is of another form"),
        (json.dumps(TYPED), "length", "reply was cut at its length limit"),
        ("", "stop", "caption is empty"),
        ('""', "stop", "caption is empty"),
    ],
)
def test_a_reply_that_is_no_caption_is_a_failure_that_is_paid(
    caption: Any, model_server: Any, reply: str, finish: str, reason: str
) -> None:
    model_server.says(reply, finish=finish)
    failure = caption()
    assert isinstance(failure, PaidFailure) and failure.error.reason == reason
    assert failure.cost.calls == len(model_server.requests) == 1
    assert failure.cost.usd == pytest.approx(0.001020)


def test_values_of_a_captioner_are_short_and_in_the_words_of_the_guide() -> None:
    form = {
        **TYPED,
        "action": "other",
        "other_action": "Juggle",
        "object": "a " * 13,
        "attributes": ["red, shiny", "N/A", "x " * 11],
        "count": "two",
    }
    read = parse_caption_reply(json.dumps(form), "typed", shipped_verbs())
    assert isinstance(read, tuple)
    assert read[1] == {
        "action": "other: juggle",
        "attributes": "red shiny",
        "manner": "by its handle",
        "count": "two",
        "outcome": "not completed",
    }


def test_known_sentences_have_their_slots_without_a_call(caption: Any, options: Options) -> None:
    result = caption(options, "basketball_009", **CAPTION_OPTIONS)
    value = result.annotations[0].value
    assert value["text"] == "fail to pick up the orange basketball and dunk it into the hoop"
    assert value["slots"] == {
        "action": "place",
        "object": "basketball",
        "attributes": "orange",
        "to": "into the hoop",
        "outcome": "not completed",
    }
    assert value["caption_success"] is False and result.cost.calls == 1
    assert "slots" not in caption(options, "basketball_009").annotations[0].value


def test_the_quote_grows_with_the_frames_that_are_sent(
    remote: Options, ws: Workspace, episodes: dict[str, Episode], model_server: Any
) -> None:
    def quote(episode: Episode, **values: str) -> Cost:
        return CaptionAnnotator(replace(remote, values=values), ws.stores).estimate(
            make_episode_subject(episode)
        )

    model_server.says("")
    episode = episodes["drawer-close_000"]
    one, both = quote(episode, camera="front"), quote(episode)
    words = quote(episode, camera="roof").tokens_in
    assert one.calls == both.calls == 1
    # Two cameras of the same size, and a line more of the legend.
    assert 2 * (one.tokens_in - words) < both.tokens_in - words + 60
    assert both.tokens_in - words > 1.9 * (one.tokens_in - words)
    assert (both.usd or 0) > (one.usd or 0) > 0


def test_the_guide_of_verbs_is_part_of_the_producer_and_its_path_is_not(
    remote: Options, ws: Workspace, tmp_path: Path
) -> None:
    verbs = tmp_path / "verbs.yaml"
    verbs.write_text("juggle: throw and catch things by turns\n")

    def producer(**values: str) -> Producer:
        return CaptionAnnotator(replace(remote, values=values), ws.stores).producer

    shipped, own = producer(), producer(verbs=str(verbs))
    assert own.maker_id != shipped.maker_id and own.prompt_hash != shipped.prompt_hash
    assert str(tmp_path) not in str(own.settings)
    assert (shipped.settings["layout"], shipped.settings["camera"]) == ("auto", "")
    verbs.rename(tmp_path / "same.yaml")
    assert producer(verbs=str(tmp_path / "same.yaml")).maker_id == own.maker_id
    with pytest.raises(RequestError, match="guide of verbs cannot be read"):
        producer(verbs=str(verbs))


def test_nothing_but_space_and_quotes_is_cleaned() -> None:
    assert clean_caption_reply(" “close\n the  drawer” ") == "close the drawer"
    assert clean_caption_reply("<b>close</b> 'it'") == "<b>close</b> 'it'"


@pytest.mark.parametrize(
    "spec", ["gpt", "hf:", "stub:", "openai:m", "openai:m@ftp://x", "openai:@http://x/v1", "clip:x"]
)
def test_a_spec_that_cannot_be_read(options: Options, spec: str) -> None:
    with pytest.raises(RequestError, match="model spec cannot be read"):
        load_vlm(spec, options, 8)


@pytest.mark.parametrize(
    ("url", "problem"),
    [("http://localhost:99999/v1", "Port out of range"), ("http:///v1", "names no host")],
)
def test_an_address_that_cannot_be_read(options: Options, url: str, problem: str) -> None:
    for own in (options, replace(options, load_models=False)):
        with pytest.raises(RequestError, match=r"^the address of the model server") as caught:
            load_vlm(f"openai:m@{url}", own, 8)
        assert problem in str(caught.value) and repr(url) in str(caught.value)


def test_broken_weights_are_one_line(options: Options, tmp_path: Path, reference_models: Path) -> None:
    shutil.copytree(reference_models / "reference-captioner", tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").chmod(0o644)
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(ModelError, match="vision-language model cannot be loaded"):
        load_vlm(f"hf:{tmp_path / 'broken'}", options, 8)


def test_annotations_name_a_stub_as_their_model(caption: Any, options: Options, ws: Workspace) -> None:
    stub = replace(options, model="stub:close the drawer")
    assert caption(stub).annotations[0].value["text"] == "close the drawer"
    producer = CaptionAnnotator(stub, ws.stores).producer
    assert (producer.model, producer.settings["family"]) == (stub.model, "stub")
