"""Captions of segments, from the frames that a captioner gets to the columns that can be filtered."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ares.annotation import Column, Producer, make_segment_id
from ares.errors import RequestError
from ares.settings import Price
from ares.workspace import Workspace
from ares_annotators.base import Options, make_episode_subject
from ares_annotators.caption.frame_plan import add_context, plan_frames
from tests.annotators.caption_replies import typed_caption
from tests.annotators.runs import annotate, estimate_cost
from tests.annotators.samples import choice, make_annotation, make_camera, make_episode
from tests.ingesting import ingest_paths

SOURCE = Producer(annotator="source_subtask", version="1", fills_segments=True)
# What the server says of a segment, by the second in which its first frame begins.
_SAID: dict[int, Any] = {
    0: typed_caption("Pick up the mug.", action="pick up", object="the mug", count="two", hand="left arm"),
    1: typed_caption("Put the mug in the sink.", action="place", object="mug", to="in the sink"),
}


@pytest.fixture
def served(options: Options, model_server: Any) -> Options:
    settings = replace(options.settings, price=Price(usd_per_mtok_in=1.0, usd_per_mtok_out=2.0))
    model_server.replies(_say_by_first_second)
    model = f"openai:Some/Vlm-7B@{model_server.url}"
    return replace(options, settings=settings, model=model, values={"per": "segment"})


def _say_by_first_second(request: dict[str, Any]) -> list[dict[str, Any]]:
    # The first line with times is that of the segment; those before and after it come later.
    text = request["messages"][-1]["content"][-1]["text"]
    found = re.search(r" at (\d+)\.\d\d s", text)
    said = _SAID[int(found[1])] if found else typed_caption("Close the drawer.")
    return [choice(said)]


@pytest.fixture
def cut(ws: Workspace, demo_samples: Path) -> Workspace:
    """Two episodes, each with two subtasks of its source that meet at second one."""
    ingest_paths(ws.stores, [str(demo_samples / "video")], limit=2, quiet=True)
    ws.stores.annotations.add_producer(SOURCE)
    for episode in ws.stores.tables.episodes.read():
        for start, stop, text in ((0.0, 1.0, "reach"), (1.0, episode.duration_seconds, "put it away")):
            value = {"text": text, "style": "subtask", "author": "person", "arm": "right"}
            ws.stores.annotations.append([make_annotation(SOURCE, episode, value, (start, stop))])
    ws.sync()
    return ws


def test_each_segment_gets_a_caption_that_fills_columns_of_both_tables(
    cut: Workspace, served: Options, model_server: Any
) -> None:
    (report,) = annotate(cut.stores, ["caption"], served, quiet=True)
    assert (report.planned, report.kept, report.failed) == (4, 4, 0)
    captions = cut.stores.annotations.find_annotations(
        list(cut.stores.tables.episodes.ids()), ["segment_caption"]
    )
    for caption in captions:
        span = caption.start_seconds, caption.stop_seconds
        assert caption.subject == make_segment_id(caption.episode_id, *span)
        assert (caption.value["style"], caption.value["author"]) == ("subtask", "Some/Vlm-7B")
    segments, episodes = cut.stores.tables.segments, cut.stores.tables.episodes
    # The subtask of the source is a separate row: what the caption says is not said of it as well.
    assert segments.count() == 8
    assert segments.count("verb = 'pick up' AND object = 'mug' AND arm = 'left' AND count = 'two'") == 2
    assert segments.count("verb = 'place' AND place = 'sink' AND text = 'Put the mug in the sink.'") == 2
    # The words of a caption say the arm; where they say none, it is that of the span.
    assert segments.count("verb = 'place' AND arm = 'right'") == segments.count("arm = 'right'") == 2
    assert episodes.count("array_has(caption_verbs, 'pick up') AND array_has(caption_places, 'sink')") == 2
    rows = episodes.read_columns(["caption_objects", "caption_arms", "caption_verbs"]).to_pylist()
    assert rows == 2 * [
        {"caption_objects": ["mug"], "caption_arms": ["left"], "caption_verbs": ["pick up", "place"]}
    ]
    assert "caption" not in episodes.columns() or episodes.count("caption IS NOT NULL") == 0


def test_a_captioner_sees_one_sheet_of_what_comes_before_and_after(
    cut: Workspace, served: Options, model_server: Any
) -> None:
    annotate(cut.stores, ["caption"], served, quiet=True, limit=1)
    # The test call before the run is about no segment.
    asked = list(zip(model_server.prompts(), model_server.requests, strict=True))[1:]
    first, second = sorted((prompt for prompt, _ in asked), key=lambda prompt: " at 1." in prompt)
    for prompt, request in asked:
        assert prompt.count("The last image is no part of the segment.") == 1
        images = [part for part in request["messages"][-1]["content"] if part["type"] == "image_url"]
        own = int(re.search(r"(\d+) images, of each camera", prompt)[1])  # type: ignore[index]
        assert len(images) == own + 1
    (after,) = re.findall(r"\(after: (.*?)\)", first)
    assert re.findall(r"\d+\.\d\d", after)[0].startswith("1.0") and "before:" not in first
    (before,) = re.findall(r"\(before: (.*?)[;)]", second)
    assert re.findall(r"\d+\.\d\d", before)[-1].startswith("0.9")
    assert "put it away" not in str(model_server.requests)


@pytest.mark.slow
def test_what_a_limit_or_a_failure_left_is_done_by_the_next_run(
    cut: Workspace, served: Options, model_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (quote,) = estimate_cost(cut.stores, ["caption"], served)
    assert (quote.planned, quote.already, quote.cost.calls) == (4, 0, 4)
    with monkeypatch.context() as context:
        context.setitem(_SAID, 1, None)
        (limited,) = annotate(cut.stores, ["caption"], served, quiet=True, limit=1)
    assert (limited.planned, limited.kept, limited.failed) == (2, 1, 1)
    (quote,) = estimate_cost(cut.stores, ["caption"], served)
    assert (quote.planned, quote.already, quote.cost.calls) == (4, 1, 3)
    (rest,) = annotate(cut.stores, ["caption"], served, quiet=True)
    assert (rest.planned, rest.kept, rest.already) == (4, 3, 1)
    asked = len(model_server.requests)
    (again,) = annotate(cut.stores, ["caption"], served, quiet=True)
    assert (again.kept, again.already, len(model_server.requests)) == (0, 4, asked)
    # Captions of whole episodes are those of another annotator: neither replaces the other.
    whole = replace(served, values={})
    (report,) = annotate(cut.stores, ["caption"], whole, quiet=True)
    assert (report.planned, report.kept) == (2, 2)
    assert cut.stores.tables.episodes.count("caption IS NOT NULL AND verb = 'pick up'") == 2
    assert cut.stores.tables.segments.count("annotator = 'segment_caption'") == 4


@pytest.mark.parametrize("rate", [0.5, 3.0, 20.0])
def test_frames_around_a_segment_are_none_of_its_own(rate: float) -> None:
    episode = make_episode("drawn", [make_camera("front", 10.0, rate)])
    for start, stop in ((0.0, 4.0), (4.0, 6.5), (6.5, 10.0), (4.0, 4.1), (0.0, 10.0)):
        subject = replace(
            make_episode_subject(episode), kind="segment", start_seconds=start, stop_seconds=stop
        )
        plan = plan_frames(subject, "auto", "")
        sheet = add_context(plan, subject, "").context
        if (start, stop) == (0.0, 10.0):
            assert sheet is None
            continue
        assert sheet is not None
        assert len(sheet.before) <= 3 and len(sheet.after) <= 3
        own = plan.views[0].seconds
        assert bool(sheet.before) == (start > 0.0) and bool(sheet.after) == (own[-1] < 10.0 - 1 / rate)
        assert max(sheet.before, default=-1.0) < own[0] and own[-1] < min(sheet.after, default=99.0)
        assert sheet.arrange(_black_frames).shape == (*sheet.image_size, 3)


def _black_frames(camera: str, seconds: Sequence[float]) -> NDArray[np.uint8]:
    return np.zeros((len(seconds), 192, 192, 3), np.uint8)


# A lab's own check in place of a judge.
CHECK = Producer(
    annotator="segment_grade",
    version="1",
    columns=(Column(name="acceptable", type="bool", meaning="Whether it is true."),),
    subject_kind="annotation",
    after=("segment_caption",),
)


def _accept(ws: Workspace, verbs: Mapping[str, Sequence[str]]) -> None:
    """Accept the captions of some verbs by episode, and refuse the others."""
    ws.stores.annotations.add_producer(CHECK)
    for caption in ws.stores.annotations.find_annotations(list(verbs), ["segment_caption"]):
        own: Any = {"name": CHECK.annotator, "maker_id": CHECK.maker_id, "subject": caption.annotation_id}
        value = {"acceptable": caption.value["verb"] in verbs[caption.episode_id]}
        ws.stores.annotations.append([replace(caption, value=value, subject_kind="annotation", **own)])
    ws.sync()


def test_an_episode_is_captioned_from_the_accepted_captions_of_its_segments(
    cut: Workspace, served: Options, model_server: Any
) -> None:
    from_segments = replace(served, values={"text_from": "segments"})
    (none,) = annotate(cut.stores, ["caption"], from_segments, quiet=True)
    assert (none.kept, none.failed) == (0, 2) and "--per segment" in str(none.failures)
    annotate(cut.stores, ["caption"], served, quiet=True)
    both, single = sorted(cut.stores.tables.episodes.ids())
    _accept(cut, {both: ["pick up", "place"], single: ["place"]})
    (quote,) = estimate_cost(cut.stores, ["caption"], from_segments)
    assert (quote.planned, quote.cost.calls, quote.frames) == (2, 1, 0)
    model_server.requests.clear()
    (report,) = annotate(cut.stores, ["caption"], from_segments, quiet=True)
    assert (report.kept, report.failed) == (2, 0)
    # An episode with one accepted caption costs no call.
    (prompt,) = model_server.prompts()
    assert prompt.startswith("Say in one sentence what is done in a whole robot recording.")
    assert '{"1": "Pick up the mug.", "2": "Put the mug in the sink."}' in prompt
    assert all(len(request["messages"][-1]["content"]) == 1 for request in model_server.requests)
    rows = cut.stores.tables.episodes.read_columns(["episode_id", "caption", "verb", "place"]).to_pylist()
    assert {row.pop("episode_id"): row for row in rows} == {
        both: {"caption": "Close the drawer.", "verb": "close", "place": None},
        single: {"caption": "Put the mug in the sink.", "verb": "place", "place": "sink"},
    }
    (copied,) = cut.stores.annotations.find_annotations([single], ["caption"])
    assert (len(copied.value["made_of"]), copied.value["segments_left_out"]) == (1, 1)  # type: ignore[arg-type]


def test_segments_are_not_captioned_from_their_own_captions(cut: Workspace, served: Options) -> None:
    wrong = replace(served, values={"per": "segment", "text_from": "segments"})
    with pytest.raises(RequestError, match="options do not go together"):
        annotate(cut.stores, ["caption"], wrong, quiet=True)
