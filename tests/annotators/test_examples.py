"""Examples that people confirmed: the nearest ones, no copies, none of another side of a split."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares.curation import SplitRow, write_split_rows
from ares.errors import RequestError
from ares.review import Answer, give_answer, withdraw_answer
from ares.settings import Settings
from ares.store import Stores
from ares.workspace import Workspace, open_workspace
from ares_annotators.attributes import AttributesAnnotator
from ares_annotators.base import CameraSeconds, Options, Subject, Work, read_work
from ares_annotators.examples import (
    ConfirmedExamples,
    ExampleOptions,
    read_confirmed_attributes,
    read_confirmed_captions,
    read_confirmed_outcomes,
)
from tests.annotators.caption_replies import CAPTIONS, typed_caption
from tests.annotators.runs import annotate
from tests.annotators.samples import choice
from tests.annotators.success.test_model_judge import Answers, vote
from tests.ares.review.measured_world import add_graded
from tests.workspaces import copy_workspace


@pytest.fixture
def embedded(video_folder: Path, options: Options, tmp_path: Path) -> Iterator[Workspace]:
    """The videos of the sample with vectors of their looks."""
    with open_workspace(str(copy_workspace(video_folder, tmp_path / "videos")), Settings()) as ws:
        annotate(ws.stores, ["embed"], options, quiet=True)
        yield ws


def _say(
    ws: Workspace, subject: str, question: str, verdict: str = "", person: str = "Ada", **more: str
) -> str:
    answer = Answer(
        subject_id=subject,
        subject_kind="annotation" if question in ("acceptable", "VERB") else "episode",
        question=question,
        verdict=verdict,
        person=person,
        **more,  # type: ignore[arg-type]
    )
    return give_answer(ws.stores, answer).annotation_id


def _confirm(ws: Workspace, episode_ids: Sequence[str], verdict: str = "met", person: str = "Ada") -> None:
    for episode_id in episode_ids:
        _say(ws, episode_id, "attr_lighting", verdict, person, text="dim")


def _examples(ws: Workspace, count: int = 8) -> ConfirmedExamples:
    examples = ExampleOptions(examples=count).load_examples(ws.stores, read_confirmed_attributes)
    assert examples is not None
    return examples


def _nearest(ws: Workspace, own: str) -> list[str]:
    """The other episodes by the cosine of their mean vectors of frames."""
    (space,) = ws.stores.tables.spaces()
    means = ws.stores.tables.vectors(space).mean_vectors(ws.stores.tables.episodes.ids())
    cosines = {key: float(mean @ means[own] / np.linalg.norm(mean)) for key, mean in means.items()}
    return sorted(cosines.keys() - {own}, key=lambda key: -cosines[key])


def test_a_caption_is_an_example_only_where_a_person_accepts_or_wrote_it(ws: Workspace) -> None:
    captions = add_graded(ws.stores, "+" * 6)
    ids = [row.episode_id for row in map(ws.stores.annotations.get_annotation, captions) if row]
    with pytest.raises(RequestError, match="people have confirmed nothing"):
        ExampleOptions(examples=2).load_examples(ws.stores, read_confirmed_captions)
    # The judge accepts all; that a person speaks of an episode confirms no caption.
    _say(ws, ids[0], "success", "failure")
    _say(ws, captions[1], "acceptable", "met")
    _say(ws, captions[2], "acceptable", "met")
    _say(ws, captions[2], "VERB", "unmet", "Bob")
    _say(ws, captions[3], "acceptable", "unmet")
    _say(ws, ids[3], "text", text="turn the lid")
    written = _say(ws, ids[4], "text", text="hold the lid")
    _say(ws, written, "acceptable", "unmet", "Bob")
    own = _say(ws, ids[5], "text", text="hold the lid")
    withdraw_answer(ws.stores, own, "Ada")
    assert read_confirmed_captions(ws.stores) == {
        ids[1]: {"sentence": "lift lid 1"},
        ids[3]: {"sentence": "turn the lid"},
    }


def test_an_attribute_or_outcome_on_which_people_differ_is_no_example(ws: Workspace) -> None:
    add_graded(ws.stores, "...")
    both, changed, other = sorted(ws.stores.tables.episodes.ids())
    _confirm(ws, [both, changed, other])
    _confirm(ws, [both], "unmet", "Bob")
    _confirm(ws, [changed], "unmet")
    _say(ws, other, "attr_lighting", "unmet", "Bob", text="bright")
    assert read_confirmed_attributes(ws.stores) == {other: {"lighting": "dim"}}
    for episode_id, verdict in ((both, "success"), (changed, "partial"), (other, "failure")):
        _say(ws, episode_id, "success", verdict)
    _say(ws, both, "success", "failure", "Bob")
    _say(ws, other, "success", "unsure", "Bob")
    assert read_confirmed_outcomes(ws.stores) == {other: {"outcome": "failure"}}


@pytest.mark.parametrize("seed", range(3))
def test_in_any_structure_no_copy_or_other_side_is_shown(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    hashes, sides, tasks = (
        ["", *"abcdefghijklmnop"],
        ["train", "val", ""],
        ["open it", "close it", "lift the lid"],
    )
    add_graded(
        ws.stores,
        "." * 40,
        fields=lambda number: {
            "content_hash": rng.choice(hashes),
            "split": rng.choice(["", "", "train"]),
            "instructions": (rng.choice(tasks),),
        },
    )
    rows = {episode.episode_id: episode for episode in ws.stores.tables.episodes.read()}
    ids, own_groups = sorted(rows), {id: rng.choice(["g", "h", *[None] * 6]) for id in rows}
    ws.set_values("duplicate_group", {id: group for id, group in own_groups.items() if group})
    drawn = {rows[id].content_hash or id: rng.choice(sides) for id in ids}
    table = [
        SplitRow(content_hash=key, side=side, by=(), seed=0, episode_id="")
        for key, side in drawn.items()
        if side
    ]
    write_split_rows(ws.stores.annotations, "set", table)
    confirmed = rng.sample(ids, 30)
    _confirm(ws, confirmed)
    monkeypatch.setattr(ConfirmedExamples, "_read_image", lambda self, key: np.zeros((4, 4, 3), np.uint8))
    num_shown = 0
    for own, shown in zip(ids, _examples(ws, 3).find(ids), strict=True):
        num_shown += len(shown.episode_ids)
        assert own not in shown.episode_ids and set(shown.episode_ids) <= set(confirmed)
        for other in shown.episode_ids:
            first, second = rows[own], rows[other]
            assert first.content_hash != second.content_hash or not first.content_hash
            assert own_groups[own] != own_groups[other] or not own_groups[own]
            assert first.split == second.split
            both = [drawn[row.content_hash or row.episode_id] for row in (first, second)]
            assert both[0] == both[1] or "" in both
        same = [rows[key].instruction == rows[own].instruction for key in shown.episode_ids]
        assert same == sorted(same, reverse=True)
    assert num_shown > 40


@pytest.mark.slow
def test_only_confirmed_episodes_that_are_apart_are_shown_and_the_nearest_first(
    embedded: Workspace,
    options: Options,
    model_server: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ws = embedded
    own, *others = sorted(ws.stores.tables.episodes.ids())
    _confirm(ws, [own, *others])
    _confirm(ws, [others[0]], "unmet")
    (shown,) = _examples(ws).find([own])
    assert list(shown.episode_ids) == [key for key in _nearest(ws, own) if key != others[0]][:8]
    assert '"lighting": "dim"' in shown.prompt and len(shown.images) == len(shown.episode_ids)
    loaded = _examples(ws)
    ws.remove([shown.episode_ids[0]])
    assert list(loaded.find([own])[0].episode_ids[:6]) == list(shown.episode_ids[1:7])
    ws.undo()
    # Each is decoded once, for whatever episodes it is shown.
    decoded = list[str]()

    def read(stores: Stores, subject: Subject, requests: Sequence[CameraSeconds]) -> Work:
        decoded.append(subject.id)
        return read_work(stores, subject, requests)

    monkeypatch.setattr("ares_annotators.examples.read_work", read)
    both = _examples(ws, 2)
    firsts = [item.episode_ids for item in both.find([own, *others]) + both.find(others)]
    assert list(firsts[0]) == list(shown.episode_ids[:2]) and len(decoded) == len(set(decoded))
    # Another side of a split, and a copy, are never shown.
    table = ws.stores.tables.episodes
    rows = table.read_columns(["episode_id", "content_hash"]).to_pylist()
    hashes = {row["episode_id"]: row["content_hash"] for row in rows}
    other_side, copy = shown.episode_ids[:2]
    sides = [(own, "train"), (other_side, "val"), *((key, "train") for key in shown.episode_ids[2:])]
    write_split_rows(
        ws.stores.annotations,
        "set",
        [SplitRow(content_hash=hashes[key], side=side, by=(), seed=0, episode_id=key) for key, side in sides],
    )
    ws.set_values("duplicate_group", {own: "g", copy: "g"})
    left = _examples(ws).find([own])[0].episode_ids
    assert list(left[:6]) == list(shown.episode_ids[2:]) and not {other_side, copy}.intersection(left)
    # The answer says by which examples it was made, and the quote has their images.
    model_server.says(json.dumps({"lighting": {"value": "dim", "frames": [1], "confidence": 90}}))
    file = tmp_path / "fields.yaml"
    file.write_text("- {name: lighting, question: How bright, type: enum, choices: [dim, bright]}")
    remote = replace(
        options,
        model=f"openai:Qwen/Qwen3-VL-8B@{model_server.url}",
        values={"fields": str(file), "examples": 2},
    )
    (report,) = annotate(ws.stores, ["attributes"], remote, quiet=True, where=f"episode_id = '{own}'")
    assert report.kept == 1
    # What people say later is no reason to pay again; another number of examples is.
    makers = [AttributesAnnotator(remote, ws.stores).producer.maker_id]
    _say(ws, others[0], "attr_lighting", "met", "Bob", text="bright")
    makers.append(AttributesAnnotator(remote, ws.stores).producer.maker_id)
    more = replace(remote, values={**remote.values, "examples": 3})
    makers.append(AttributesAnnotator(more, ws.stores).producer.maker_id)
    assert makers[0] == makers[1] != makers[2]
    (made,) = ws.stores.annotations.find_annotations([own], ["attributes"])
    assert made.value["examples"] == list(left[:2])
    parts = model_server.requests[-1]["messages"][-1]["content"]
    assert "The last 2 images are no part of the recording" in parts[-1]["text"]
    assert len(parts) - 1 == sum("image_url" in part for part in parts)


@pytest.mark.slow
def test_captions_and_outcomes_are_asked_with_what_people_confirmed(
    embedded: Workspace, options: Options, model_server: Any
) -> None:
    ws = embedded
    own, first, second, *_ = sorted(ws.stores.tables.episodes.ids())
    _say(ws, first, "text", text="close the lid")
    _say(ws, second, "success", "failure")
    answers = Answers([vote("success")])

    def reply(request: dict[str, Any]) -> list[dict[str, Any]]:
        text = request["messages"][-1]["content"][-1]["text"]
        return [choice(typed_caption("lift the lid"))] if CAPTIONS in text else answers(request)

    model_server.replies(reply)
    remote = replace(options, model=f"openai:Qwen/Qwen3-VL-8B@{model_server.url}", values={"examples": 1})
    for name, example, said in (
        ("caption", first, '"sentence": "close the lid"'),
        ("success", second, '"outcome": "failure"'),
    ):
        (report,) = annotate(ws.stores, [name], remote, quiet=True, where=f"episode_id = '{own}'")
        assert report.kept == 1
        made = ws.stores.annotations.find_annotations([own], [name])[-1]
        assert made.value["examples"] == [example]
        shown = [text for text in model_server.prompts() if said in text]
        assert len(shown) == (2 if name == "success" else 1)
    # No vote rests on the image of the example, which is the last one.
    (asked,) = (
        item for item in model_server.requests if "Compare the start" in str(item) and said in str(item)
    )
    images = len(asked["messages"][-1]["content"]) - 1
    answers.votes = [vote("success", frames=(images,))] * 2
    again = replace(remote, values={"examples": 1, "votes": 2})
    (report,) = annotate(ws.stores, ["success"], again, quiet=True, where=f"episode_id = '{own}'")
    assert report.kept == 0 and "no vote on success can be read" in str(report)
