"""Captions of segments under a judge: whose span a text is of, the order of texts, and the arm of the signals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ares.annotation import Column, Producer, make_segment_id
from ares.episode import Json
from ares.review import Answer, give_answer
from ares.rubric import CONTROL
from ares.settings import Price, Settings
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import Options
from tests.annotators.caption_replies import typed_caption
from tests.annotators.judge_replies import OBSERVES, judge, kind_of, observation, prompt_of
from tests.annotators.runs import annotate, estimate_cost
from tests.annotators.samples import choice, make_annotation
from tests.ingesting import ingest_paths
from tests.workspaces import copy_workspace

PICK = {"action": "pick up", "object": "mug", "from": "on the table", "hand": "left arm"}
PLACE = {"action": "place", "object": "mug", "to": "in the sink", "hand": "left arm"}
CLOSE = {"action": "close", "object": "drawer", "hand": "right arm"}
TEXTS = {
    "pick up": "pick up the mug on the table with the left arm",
    "place": "place the mug in the sink with the left arm",
    "close": "close the drawer with the right arm",
}
CAPTIONER = Producer(
    annotator="segment_caption",
    version="2",
    model="writer",
    kind="model",
    subject_kind="segment",
    after=("source_subtask",),
    fills_segments=True,
)
SOURCE = Producer(annotator="source_subtask", version="1", fills_segments=True)


@pytest.fixture(scope="module")
def one_episode(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Path:
    """A workspace that is only copied."""
    folder = tmp_path_factory.mktemp("segments") / "workspace"
    with open_workspace(str(folder), Settings()) as workspace:
        ingest_paths(workspace.stores, [str(demo_samples / "video")], limit=1, quiet=True)
        for producer in (SOURCE, CAPTIONER):
            workspace.stores.annotations.add_producer(producer)
    return folder


@pytest.fixture
def ws(one_episode: Path, tmp_path: Path) -> Iterator[Workspace]:
    """An episode in three segments: a mug is picked up and placed in a sink, and a drawer closed."""
    folder = copy_workspace(one_episode, tmp_path / "workspace")
    with open_workspace(str(folder), Settings()) as workspace:
        yield workspace


@pytest.fixture
def remote(options: Options, model_server: Any, quick_retries: None) -> Options:
    settings = replace(
        options.settings,
        price=Price(usd_per_mtok_in=1.0, usd_per_mtok_out=10.0),
        judge_model=f"openai:Other/Judge-9B@{model_server.url}",
    )
    model_server.replies(_see_by_second)
    settings = replace(settings, caption_model=f"openai:Some/Vlm-7B@{model_server.url}")
    return replace(options, settings=settings, values={"per": "segment"})


def _see_by_second(request: dict[str, Any]) -> list[dict[str, Any]]:
    """What happens in the second in which the first frame of a request is."""
    first = re.search(r" at (\d+)\.\d\d s", prompt_of(request))
    shown = (PICK, PLACE, CLOSE)[min(2, int(first[1]))] if first else {}
    if kind_of(request) == "caption" and shown:
        said = typed_caption(TEXTS[shown["action"]], **shown)
        return [choice(said)]
    seen = observation(**{"attributes": "", **shown})
    answers: list[dict[str, Any]] = judge(seen, compares="different", chooses="other")(request)
    return answers


def _caption_segments(ws: Workspace, *captions: Mapping[str, str], arms: tuple[str, ...] = ("",) * 3) -> None:
    (episode,) = ws.stores.tables.episodes.read()
    spans = ((0.0, 1.0), (1.0, 2.0), (2.0, episode.duration_seconds))
    for span, slots, arm in zip(spans, captions, arms, strict=True):
        source = make_annotation(SOURCE, episode, {"text": "do it", "style": "subtask"}, span)
        segment = {"annotator": "source_subtask", "maker_id": SOURCE.maker_id, "arm": arm}
        value = {
            "text": TEXTS[slots["action"]],
            "slots": {**slots, "outcome": "completed"},
            "segment": segment,
        }
        segment_id = make_segment_id(episode.episode_id, *span)
        own = make_annotation(CAPTIONER, episode, value, span, subject=segment_id, subject_kind="segment")
        ws.stores.annotations.append([source, own])
    ws.sync()


def _grades(ws: Workspace) -> list[dict[str, Any]]:
    """The graded rows of the segments table, in order of time."""
    rows: list[dict[str, Any]] = ws.stores.tables.segments.read("grade IS NOT NULL").to_pylist()
    assert {row["annotator"] for row in rows} == {"segment_caption"}
    return rows


def test_true_captions_cost_an_observation_each(
    ws: Workspace, remote: Options, model_server: Any, without_controls: None
) -> None:
    _caption_segments(ws, PICK, PLACE, CLOSE)
    (report,) = annotate(ws.stores, ["grade"], remote, quiet=True)
    assert (report.planned, report.kept, report.failed) == (3, 3, 0)
    rows = _grades(ws)
    assert [row["grade"] for row in rows] == ["acceptable"] * 3
    assert [row["grade_seg"] for row in rows] == ["MET"] * 3
    assert "grade_outcome" not in rows[0]
    assert all(row["grade_margin"] > 0 for row in rows), "no criterion about the span is a guess"
    kinds = Counter(prompt_of(request).splitlines()[0] for request in model_server.requests[1:])
    assert kinds == {OBSERVES: 3}
    assert not any(text in str(model_server.requests) for text in TEXTS.values())
    # The grades of segments are none of the episode.
    assert ws.stores.tables.episodes.count("grade IS NOT NULL OR acceptable IS NOT NULL") == 0


def test_a_person_rules_on_a_segment_and_on_an_episode(
    ws: Workspace, remote: Options, model_server: Any
) -> None:
    _caption_segments(ws, PICK, PLACE, CLOSE)
    annotate(ws.stores, ["grade"], remote, quiet=True)
    (episode,) = ws.stores.tables.episodes.read()
    columns = (Column(name="caption", type="string", meaning="Caption."),)
    producer = Producer(annotator="caption", version="1", kind="model", columns=columns, fills_segments=True)
    ws.stores.annotations.add_producer(producer)
    whole = make_annotation(producer, episode, {"text": "tidy up", "caption": "tidy up"})
    ws.stores.annotations.append([whole])
    first = ws.stores.annotations.find_annotations([episode.episode_id], ["segment_caption"])[0]
    for caption in (whole, first):
        about: dict[str, Any] = {
            "question": "acceptable",
            "subject_id": caption.annotation_id,
            "subject_kind": "annotation",
        }
        give_answer(ws.stores, Answer(**about, verdict="unmet", person="Ada", reason="no"))
    assert [row["grade"] for row in ws.stores.tables.segments.read("grade IS NOT NULL").to_pylist()] == [
        "not_acceptable", "not_acceptable", "acceptable", "acceptable",
    ]  # fmt: skip
    assert ws.stores.tables.episodes.count("grade = 'not_acceptable'") == 1


def test_the_caption_of_a_neighbour_is_refused_by_code(
    ws: Workspace, remote: Options, model_server: Any, without_controls: None
) -> None:
    _caption_segments(ws, PICK, CLOSE, PLACE, arms=("left",) * 3)
    annotate(ws.stores, ["grade"], remote, quiet=True)
    first, second, third = _grades(ws)
    assert (first["grade"], first["grade_seg"]) == ("acceptable", "MET")
    assert (second["grade"], second["grade_seg"]) == ("not_acceptable", "UNMET")
    assert (third["grade"], third["grade_seg"]) == ("not_acceptable", "UNMET")
    assert "choice" not in {kind_of(request) for request in model_server.requests}
    assert second["grade_verb"] == "UNSURE", "what a caption of a neighbour says is not asked any more"


def test_a_run_that_captions_and_grades_knows_the_neighbours(
    ws: Workspace, remote: Options, model_server: Any
) -> None:
    (episode,) = ws.stores.tables.episodes.read()
    for span in ((0.0, 1.0), (1.0, 2.0), (2.0, episode.duration_seconds)):
        ws.stores.annotations.append([make_annotation(SOURCE, episode, {"text": "do it"}, span)])
    ws.sync()
    captions, grades = annotate(ws.stores, ["caption", "grade"], remote, quiet=True)
    assert (captions.kept, grades.planned, grades.kept, grades.failed) == (3, 3, 3, 0)
    assert [(row["text"], row["grade_seg"]) for row in _grades(ws)] == [
        (text, "MET") for text in TEXTS.values()
    ]
    (again,) = annotate(ws.stores, ["grade"], remote, quiet=True)
    assert (again.planned, again.already) == (3, 3)


def test_texts_of_segments_test_their_judge(ws: Workspace, remote: Options, model_server: Any) -> None:
    """It answers by the second of a frame, and so says the same of grey frames."""
    _caption_segments(ws, PICK, PLACE, CLOSE)
    (quote,) = estimate_cost(ws.stores, ["grade"], remote)
    assert quote.planned == 3
    (report,) = annotate(ws.stores, ["grade"], remote, quiet=True)
    assert (report.kept, report.failed) == (3, 0)
    (document,) = report.judge_tripwire.values()
    kinds: Any = document["kinds"]  # type: ignore[index, call-overload]
    assert (kinds["no_content"]["accepted"], kinds["no_content"]["total"]) == (6, 6)
    assert kinds["object"]["accepted"] == 0
    assert [(row["grade"], row["acceptable"], row["grade_refuted"]) for row in _grades(ws)] == [
        ("acceptable", None, True)
    ] * 3
    (episode,) = ws.stores.tables.episodes.ids()
    assert ws.stores.annotations.find_annotations([episode], [CONTROL])


@pytest.mark.slow
def test_an_export_takes_what_a_judge_that_is_not_refuted_accepts_of_the_span(
    ws: Workspace, remote: Options, tmp_path: Path, without_controls: None
) -> None:
    _caption_segments(ws, PICK, CLOSE, PLACE)
    (report,) = annotate(ws.stores, ["grade"], remote, quiet=True)
    chosen = ws.sets.create("all", ws.stores.tables.episodes.ids(), {})
    counted = ws.export(chosen, tmp_path / "counted", format="lerobot", quiet=True)
    assert counted.segments["written"] == {"accepted": 1, "source": 3}
    assert counted.segments["held_back"] == {"refused": 2}
    (episode,) = ws.stores.tables.episodes.read()
    row: dict[str, Json] = {"kind": "object", "grade": "acceptable", "battery": True}
    control = make_annotation(CAPTIONER, episode, {"gradings": [row] * 3, "time": 2e9})
    ws.stores.annotations.append([replace(control, name=CONTROL, maker_id=report.producer)])
    ws.sync()
    refuted = ws.export(chosen, tmp_path / "refuted", format="jsonl", quiet=True)
    assert refuted.segments == {"written": {"source": 3}, "held_back": {"refused": 2, "refuted": 1}}
