"""Captions of several blind samples: the one that most agree with, how far, and what people are asked first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ares.annotation import Column
from ares.episode import Episode
from ares.errors import RequestError
from ares.review import QueueRequest, create_queue
from ares.workspace import Workspace
from ares_annotators.base import Options, Result, Work
from ares_annotators.caption import CaptionAnnotator
from tests.annotators.caption_replies import typed_caption
from tests.annotators.samples import choice
from tests.ares.review.conftest import CAPTIONER
from tests.ares.review.measured_world import add_graded


def test_the_sample_with_the_values_of_the_majority_is_kept_and_one_call_pays_for_all(
    options: Options,
    ws: Workspace,
    episodes: dict[str, Episode],
    work_for: Callable[..., Work],
    model_server: Any,
) -> None:
    said = [
        typed_caption("close the red drawer", action="close", object="Drawer", to="shut"),
        typed_caption("open the drawer", action="open", object="drawer", to="shut"),
        typed_caption("close the door", action="close", object="door", to="shut"),
    ]
    model_server.replies(lambda request: [choice(text, index) for index, text in enumerate(said)])
    remote = replace(options, model=f"openai:Some/Vlm-7B@{model_server.url}", values={"samples": "3"})
    annotator = CaptionAnnotator(remote, ws.stores)
    (outcome,) = annotator.process([work_for(episodes["drawer-close_000"], [annotator])])
    assert isinstance(outcome, Result)
    value = outcome.annotations[0].value
    assert value["slots"] == {"action": "close", "object": "Drawer", "to": "shut", "outcome": "completed"}
    assert value["text"] == "close the red drawer"
    assert value["caption_agreement"] == pytest.approx((2 / 3 + 2 / 3 + 1 + 1) / 4, abs=1e-4)
    (request,) = model_server.requests
    assert request["n"] == 3 and request["temperature"] > 0
    assert outcome.cost.calls == 1
    single = CaptionAnnotator(replace(remote, values={}), ws.stores)
    assert single.producer.maker_id != annotator.producer.maker_id
    assert "caption_agreement" not in {column.name for column in single.producer.columns}


@pytest.mark.parametrize(
    ("said", "text", "agreement"),
    [
        # No sample has the majority of every slot: the sentence that is kept is that of its slots.
        (
            [
                typed_caption("close the drawer left", action="close", object="drawer", to="left"),
                typed_caption("close the door right", action="close", object="door", to="right"),
                typed_caption("open the drawer right", action="open", object="drawer", to="right"),
            ],
            "close the drawer left",
            (2 / 3 + 2 / 3 + 1 / 3 + 1) / 4,
        ),
        # One of three cannot be read, and agrees with nothing.
        (
            [
                "no caption {",
                typed_caption("close the drawer", action="close", object="drawer"),
                typed_caption("close the drawer", action="close", object="drawer"),
            ],
            "close the drawer",
            2 / 3,
        ),
    ],
)
def test_a_sentence_never_says_other_than_its_slots_and_agreement_is_of_all_that_were_asked(
    options: Options,
    ws: Workspace,
    episodes: dict[str, Episode],
    work_for: Callable[..., Work],
    model_server: Any,
    said: list[str],
    text: str,
    agreement: float,
) -> None:
    model_server.replies(lambda request: [choice(reply, index) for index, reply in enumerate(said)])
    remote = replace(options, model=f"openai:Some/Vlm-7B@{model_server.url}", values={"samples": "3"})
    annotator = CaptionAnnotator(remote, ws.stores)
    (outcome,) = annotator.process([work_for(episodes["drawer-close_000"], [annotator])])
    assert isinstance(outcome, Result)
    value = outcome.annotations[0].value
    assert value["text"] == text and value["caption_agreement"] == pytest.approx(agreement, abs=1e-4)
    slots = value["slots"]
    assert isinstance(slots, dict)
    assert all(str(slots[name]) in text for name in slots if name != "outcome")


def test_a_captioner_of_sentences_has_no_slots_to_vote_on(options: Options, ws: Workspace) -> None:
    with pytest.raises(RequestError, match="no slots to vote on"):
        CaptionAnnotator(replace(options, values={"samples": 3}), ws.stores)


def test_people_are_asked_first_where_the_samples_disagree(ws: Workspace) -> None:
    column = Column(name="caption_agreement", type="float64", meaning="Agreement of the samples.")
    captioner = replace(CAPTIONER, columns=(*CAPTIONER.columns, column), settings={"samples": 3})
    add_graded(ws.stores, "+" * 6, captioner=captioner)
    ids = sorted(ws.stores.tables.episodes.ids())
    for annotation in ws.stores.annotations.find_annotations(ids, ["caption"]):
        number = ids.index(annotation.episode_id)
        value = {**annotation.value, "caption_agreement": 0.5 if number == 3 else 1.0}
        ws.stores.annotations.append([replace(annotation, value=value, revision=1)])
    ws.stores.sync()
    for seed in range(5):
        request = QueueRequest(
            name=f"q{seed}", question="acceptable", person="Ada", annotator="caption", seed=seed
        )
        create_queue(ws.stores, request, ids)
        item = ws.review.queue(f"q{seed}").next("Ada")
        assert item is not None and item.episode_id == ids[3]
