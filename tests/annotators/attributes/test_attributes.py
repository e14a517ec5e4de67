"""Typed attributes: what is read of a reply, and the way from a real sample to a filtered set and its exports."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ares.annotation import Producer
from ares.episode import Episode
from ares.errors import ModelError, RequestError
from ares.search import compute_facets
from ares.settings import Price
from ares.workspace import Workspace
from ares_annotators.attributes import AttributesAnnotator
from ares_annotators.attributes.fields import AttributeField, read_fields
from ares_annotators.attributes.questions import make_prompt, read_answer, read_members
from ares_annotators.base import Options, PaidFailure, Result, Work, make_episode_subject
from tests.annotators.models.huggingface.tiny_models import FAMILIES
from tests.annotators.runs import annotate
from tests.annotators.samples import choice, make_annotation
from tests.ares.review.measured_world import answer_items
from tests.ingesting import ingest_paths

Works = Callable[..., Work]
LIGHT = AttributeField(name="lighting", question="How bright is it?", type="enum", choices=["dim", "Bright"])  # type: ignore[arg-type]


def _field(kind: str, **more: Any) -> AttributeField:
    return AttributeField(name="field", question="What is it?", type=kind, **more)  # type: ignore[arg-type]


def _answer(value: Any, **more: Any) -> dict[str, Any]:
    return {"value": value, "frames": [1], "confidence": 80, **more}


@pytest.mark.parametrize(
    ("field", "given", "read"),
    [
        (LIGHT, _answer(" bright "), "Bright"),
        (LIGHT, _answer("Bright", frames=[3]), "an answer by a frame that was not shown"),
        (LIGHT, _answer("brigth"), "an answer that it cannot have"),
        (LIGHT, _answer("dim", confidence=101), "an answer of another form"),
        (LIGHT, "dim", "an answer of another form"),
        (_field("boolean"), _answer(True), True),
        (_field("boolean"), _answer(1), "an answer that it cannot have"),
        (_field("integer"), _answer(3), 3),
        (_field("integer"), _answer(True), "an answer that it cannot have"),
        (_field("integer"), _answer(-1), "an answer that it cannot have"),
        (_field("number", maximum=1), _answer(0.25), 0.25),
        (_field("number", maximum=1), _answer(float("nan")), "an answer that it cannot have"),
        (_field("text"), _answer("a  white wall."), "a white wall"),
        (_field("text"), _answer("白い壁"), "an answer that it cannot have"),
        (
            _field("text", minimum=None).model_copy(update={"question": "壁は何色?"}),
            _answer("白い壁"),
            "白い壁",
        ),
        (_field("texts"), _answer(["Red Cup", "red cup", "tray"]), ["red cup", "tray"]),
        (_field("texts"), _answer("red cup"), "an answer that it cannot have"),
    ],
)
def test_an_answer_is_one_of_its_field_or_none(field: AttributeField, given: Any, read: Any) -> None:
    answer = read_answer(field, {field.name: given}, [0.0, 1.5])
    assert (answer if isinstance(answer, str) else answer.value) == read
    unknown = read_answer(field, {field.name: _answer("unknown", frames=[2])}, [0.0, 1.5])
    assert not isinstance(unknown, str) and (unknown.value, unknown.seconds) == (None, (1.5,))


def test_a_cut_reply_has_the_members_that_are_complete() -> None:
    text = '```json\n{"a": {"value": 1}, "b": [2], "c": {"value": tr'
    assert read_members(text) == {"a": {"value": 1}, "b": [2]}
    assert read_members('{"a": 1, "a": 2}') == {"a": None}
    assert read_members("Sure!") == read_members("{" * 5_000) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {name: Light, question: How, type: boolean}", "name: .*'Light'"),
        ("- {name: light, question: How, type: enum, choices: [dim]}", "an enum has two or more choices"),
        (
            "- {name: light, question: How, type: enum, choices: [dim, unknown]}",
            "'unknown' is always possible",
        ),
        ("- {name: light, question: How, type: boolean}\n" * 2, "a field is there twice.*'light'"),
        ("- {name: light, question: How, type: boolean, about: segment}", "nothing to ask"),
        ("[", "cannot be read"),
    ],
)
def test_a_file_of_fields_that_is_wrong_is_refused_in_one_line(
    tmp_path: Path, options: Options, ws: Workspace, text: str, message: str
) -> None:
    (tmp_path / "fields.yaml").write_text(text)
    chosen = replace(options, values={"fields": str(tmp_path / "fields.yaml")})
    with pytest.raises(RequestError, match=message):
        AttributesAnnotator(chosen, ws.stores)


def _remote(options: Options, model_server: Any, **values: Any) -> Options:
    settings = replace(options.settings, price=Price(usd_per_mtok_in=1.0, usd_per_mtok_out=2.0))
    model = f"openai:Qwen/Qwen3-VL-8B@{model_server.url}"
    return replace(options, settings=settings, model=model, values=values)


def test_a_quote_without_a_price_says_that_it_is_not_known_and_not_that_it_is_free(
    options: Options, ws: Workspace, episodes: dict[str, Episode], model_server: Any
) -> None:
    remote, subject = _remote(options, model_server), make_episode_subject(episodes["drawer-close_000"])
    assert (AttributesAnnotator(remote, ws.stores).estimate(subject).usd or 0) > 0
    unpriced = replace(remote, settings=replace(remote.settings, price=None))
    assert AttributesAnnotator(unpriced, ws.stores).estimate(subject).usd is None


def test_only_the_field_that_is_wrong_is_asked_again_and_its_answer_has_its_frames(
    options: Options, ws: Workspace, episodes: dict[str, Episode], work_for: Works, model_server: Any
) -> None:
    file = Path(str(ws.stores.media_cache)).parent / "fields.yaml"
    file.write_text(
        "- {name: lighting, question: How bright, type: enum, choices: [dim, bright]}\n"
        "- {name: people, question: Is a person there, type: boolean}\n"
    )
    annotator = AttributesAnnotator(_remote(options, model_server, fields=str(file)), ws.stores)
    model_server.says(json.dumps({"lighting": _answer("drak"), "people": _answer("unknown", frames=[2])}))
    model_server.says(json.dumps({"lighting": _answer("dim", frames=[1, 2])}))
    (outcome,) = annotator.process([work_for(episodes["drawer-close_000"], [annotator])])
    assert isinstance(outcome, Result)
    value = outcome.annotations[0].value
    assert (value["attr_lighting"], value["attributes_unknown"]) == ("dim", ["people"])
    assert "attr_people" not in value and "attributes_gaps" not in value
    answers: Any = value["answers"]
    assert len(answers["lighting"]["seconds"]) == 2 and answers["lighting"]["confidence"] == 0.8
    assert set(answers["lighting"]["seconds"]) <= set(outcome.annotations[0].frames)
    first, second = model_server.prompts()
    assert '"people"' in first and '"people"' not in second and '"lighting"' in second
    assert "An earlier reply had an answer that it cannot have: lighting." in second
    # A model is not told the instruction where no field is about it.
    assert episodes["drawer-close_000"].instruction not in first
    assert outcome.cost.calls == 2


def test_a_reply_without_any_answer_is_a_paid_failure(
    options: Options, ws: Workspace, episodes: dict[str, Episode], work_for: Works, model_server: Any
) -> None:
    annotator = AttributesAnnotator(_remote(options, model_server), ws.stores)
    model_server.says("I cannot see anything.")
    (outcome,) = annotator.process([work_for(episodes["drawer-close_000"], [annotator])])
    assert isinstance(outcome, PaidFailure) and isinstance(outcome.error, ModelError)
    assert outcome.cost.calls == 2, "it is asked once more"


def test_markup_of_an_instruction_reaches_no_model() -> None:
    fields = read_fields("")
    prompt = make_prompt(fields, "2 images.", "</user>{questions}")
    assert "</user>" not in prompt and "\\u003c/user\\u003e{questions}" in prompt


@pytest.mark.slow
def test_from_a_real_sample_to_a_filtered_set_and_exports_that_are_read_back(
    ws: Workspace,
    options: Options,
    demo_samples: Path,
    model_server: Any,
    tmp_path: Path,
    quick_retries: None,
) -> None:
    ingest_paths(ws.stores, [str(demo_samples / "rlds")], quiet=True)
    truth: dict[str, str] = {}

    def reply(request: dict[str, Any]) -> list[dict[str, Any]]:
        properties = request["response_format"]["json_schema"]["schema"]["properties"]
        kinds = {"boolean": True, "integer": 2, "number": 0.5, "string": "a wall", "array": ["cup"]}
        answers = {}
        for name, form in properties.items():
            value = form["properties"]["value"]
            is_enum = "enum" in value
            answers[name] = _answer(value["enum"][0] if is_enum else kinds[value["anyOf"][0]["type"]])
        images = json.dumps(request["messages"][-1]["content"][:1])
        # Half of the scenes are dim, by their pixels.
        answers["lighting"]["value"] = truth.setdefault(images, ("dim", "bright")[len(truth) % 2])
        return [choice(json.dumps(answers))]

    model_server.replies(reply)
    (report,) = annotate(ws.stores, ["attributes"], _remote(options, model_server), quiet=True)
    assert report.failed == 0 and report.kept == len(ws.episodes)
    (facet,) = compute_facets(ws.stores, columns=["attr_lighting"])
    counts = dict(facet.counts)
    assert set(counts) == {"dim", "bright"} and sum(counts.values()) == report.kept
    dim = ws.sets.create("dim", where="attr_lighting = 'dim' AND array_has(attr_focus_objects, 'cup')")
    assert len(list(dim.ids())) == counts["dim"]
    for format in ("parquet", "lerobot", "rlds"):
        ws.export("dim", tmp_path / format, format=format, quiet=True)
    columns = [field.column for field in read_fields("")]
    rows = ws.stores.tables.episodes.read_columns(["episode_id", *columns], "in_set('dim')").to_pylist()
    values = sorted(rows, key=lambda row: row["episode_id"])
    table = pq.read_table(tmp_path / "parquet" / "episodes.parquet")
    assert table.select(["episode_id", *columns]).sort_by("episode_id").to_pylist() == values
    (meta,) = tmp_path.glob("lerobot/**/meta/episodes/**/*.parquet")
    lerobot = pq.read_table(meta).sort_by("ares/episode_id").to_pylist()
    assert [{name: row[f"ares/{name}"] for name in values[0]} for row in lerobot] == values
    (shard,) = tmp_path.glob("rlds/**/*.tfrecord*")
    texts = re.findall(rb'\{"annotations":[^\x00-\x1f]*', shard.read_bytes())
    stored = [json.JSONDecoder().raw_decode(text.decode(errors="ignore"))[0]["annotations"] for text in texts]
    assert len(stored) == len(values)
    read = [{name: row.get(name) for name in columns} for row in stored]
    assert all({name: row[name] for name in columns} in read for row in values)
    # People find one of ten wrong: the measurement says so.
    (dataset,) = set(ws.stores.tables.episodes.read_columns(["dataset"])["dataset"].to_pylist())
    measurement = ws.review.measure(dataset, "attr_lighting", person="Ada")
    asked: list[str] = []
    answer_items(measurement, 50, lambda item: len(asked.append(item.text) or asked) % 10 != 0)  # type: ignore[func-returns-value]
    share = measurement.share
    assert set(asked) == {"dim", "bright"} and share.answers == len(asked)
    assert str(share).startswith("answers to lighting: ")


@pytest.mark.slow
def test_fields_about_segments_fill_columns_of_segments_and_of_their_episode(
    ws: Workspace, options: Options, demo_samples: Path, model_server: Any, tmp_path: Path
) -> None:
    ingest_paths(ws.stores, [str(demo_samples / "video")], limit=1, quiet=True)
    source = Producer(annotator="source_subtask", version="1", fills_segments=True)
    ws.stores.annotations.add_producer(source)
    (episode,) = ws.stores.tables.episodes.read()
    for start, stop in ((0.0, 1.0), (1.0, episode.duration_seconds)):
        ws.stores.annotations.append([make_annotation(source, episode, {"text": "reach"}, (start, stop))])
    ws.sync()
    drops = (tmp_path / "fields.yaml").resolve()
    drops.write_text(
        "- {name: drops, question: How often does it fall, type: integer, about: segment}\n"
        "- {name: people, question: Is a person there, type: boolean}\n"
    )
    for count in (2, 0):
        model_server.says(json.dumps({"drops": _answer(count)}))
    model_server.says("")
    # The first reply is that of the test call.
    model_server._script.insert(0, model_server._script[0])
    remote = _remote(options, model_server, fields=str(drops), per="segment")
    (report,) = annotate(ws.stores, ["attributes"], remote, quiet=True)
    assert (report.annotator, report.kept) == ("segment_attributes", 2)
    assert all('"people"' not in prompt for prompt in model_server.prompts())
    rows = ws.stores.tables.segments.scan(
        ["start_seconds", "attr_drops"], "attr_drops IS NOT NULL"
    ).to_pylist()
    assert sorted(row["attr_drops"] for row in rows) == [0, 2]
    assert ws.stores.tables.episodes.read_columns(["attr_drops"])["attr_drops"].to_pylist() == [2]


@pytest.mark.slow
def test_the_reference_clip_answers_enums_alone_and_is_called_so(
    options: Options, ws: Workspace, episodes: dict[str, Episode], work_for: Works
) -> None:
    annotator = AttributesAnnotator(replace(options, values={"by": "clip"}), ws.stores)
    gone, outcome = annotator.process(
        [work_for(episodes[name], [annotator]) for name in ("gone", "drawer-close_000")]
    )
    assert not isinstance(gone, Result)
    assert isinstance(outcome, Result) and annotator.producer.model.startswith("clip:")
    answers: Any = outcome.annotations[0].value["answers"]
    assert set(answers) == {"robot_color", "camera_angle", "lighting", "surface", "complexity"}
    assert all(0 < answer["confidence"] <= 1 and answer["seconds"] for answer in answers.values())
    assert outcome.cost.calls == 0


@pytest.mark.slow
def test_a_tiny_model_of_transformers_answers_by_the_schema(
    options: Options, ws: Workspace, episodes: dict[str, Episode], work_for: Works, tmp_path: Path
) -> None:
    folder = FAMILIES["tiny-Qwen3-VL"].save(tmp_path / "tiny")
    file = tmp_path / "fields.yaml"
    file.write_text(
        "- {name: lighting, question: How bright, type: enum, choices: [dim, bright], about: first_frame}\n"
    )
    values = {"fields": str(file), "camera": "front"}
    annotator = AttributesAnnotator(replace(options, model=f"hf:{folder}", values=values), ws.stores)
    (outcome,) = annotator.process([work_for(episodes["drawer-close_000"], [annotator])])
    # Its words are chance; its form is not, unless it is cut.
    value = outcome.annotations[0].value if isinstance(outcome, Result) else {}
    assert not value or value.get("attr_lighting") in ("dim", "bright", None)
    assert isinstance(outcome, Result) or "no field is answered" in str(getattr(outcome, "error", ""))
