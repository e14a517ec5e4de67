"""Success by the reference CLIP: real frames, real forward passes, signals and captions beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares.annotation import Annotation, Producer
from ares.episode import Episode, Signal, Trajectory
from ares.errors import MediaError, RequestError
from ares.workspace import Workspace
from ares_annotators.base import Options, Result, Work
from ares_annotators.models import NamedEncoder, load_named_encoder
from ares_annotators.success import SuccessAnnotator

pytestmark = pytest.mark.usefixtures("remembered_vectors")

Works = Callable[..., Work]
Captions = Callable[..., Annotation]
CLOSE, DUNK = "push the green drawer closed", "pick up the orange basketball and dunk it into the hoop"


@pytest.fixture(scope="module")
def encoder(reference_models: Path) -> NamedEncoder:
    return load_named_encoder(f"local-dir:{reference_models / 'reference-clip'}", "cpu")


@pytest.fixture(autouse=True)
def load_once(encoder: NamedEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "ares_annotators.models.load_encoder.load_named_encoder", lambda spec, device: encoder
    )


@pytest.fixture()
def annotator(options: Options, ws: Workspace) -> SuccessAnnotator:
    return SuccessAnnotator(options, ws.stores)


@pytest.fixture()
def judge(annotator: SuccessAnnotator, episodes: dict[str, Episode], work_for: Works) -> Callable[..., Any]:
    """Judges one attempt and gives the value, or the error."""

    def run(name: str, task: str, **changes: Any) -> Any:
        work = work_for(replace(episodes[name], instruction=task, **changes), [annotator])
        (result,) = annotator.process([work])
        return result.annotations[0].value if isinstance(result, Result) else result

    return run


def test_a_closed_drawer_is_more_of_a_success_than_a_missed_basket(judge: Callable[..., Any]) -> None:
    closed, missed = judge("drawer-close_000", CLOSE), judge("basketball_009", DUNK)
    assert closed["success_probability"] > 0.6 > 0.4 > missed["success_probability"]
    assert (closed["success_verdict"], missed["success_verdict"]) != ("failure", "success")
    assert closed["parts"]["outcome_text"] > missed["parts"]["outcome_text"]


def test_the_value_says_what_it_rests_on(judge: Callable[..., Any]) -> None:
    value = judge("drawer-close_000", CLOSE)
    assert value["task"] == CLOSE
    assert {"outcome_text", "outcome_text_lowest", "progress_gain"} <= value["parts"].keys()
    assert set(value["contributions"]) <= set(value["parts"])
    # Two frames of each camera, from the end of the episode.
    assert [frame["camera"] for frame in value["evidence"]] == ["front", "front", "wrist", "wrist"]
    assert all(frame["second"] > 0 for frame in value["evidence"])


@pytest.mark.parametrize("task", ["put the eggplant into the pot", "fold the towel", "stack the cups"])
def test_a_task_that_the_model_does_not_know_is_not_judged(judge: Callable[..., Any], task: str) -> None:
    value, known = judge("drawer-close_000", task), judge("drawer-close_000", CLOSE)
    assert value["success_verdict"] == "unsure"
    assert value["success_gaps"] == ["the judge does not tell the task from tasks of other scenes"]
    assert value["parts"]["task_recognised"] < 0.95 <= known["parts"]["task_recognised"]
    assert known["success_verdict"] == "success" and "success_gaps" not in known


def test_what_the_source_says_of_success_changes_nothing(judge: Callable[..., Any]) -> None:
    assert judge("drawer-close_000", CLOSE, success=False) == judge("drawer-close_000", CLOSE, success=True)


def test_signals_are_measured_without_unit(
    annotator: SuccessAnnotator, episodes: dict[str, Episode], work_for: Works
) -> None:
    work = work_for(replace(episodes["drawer-close_000"], instruction=CLOSE), [annotator])
    path = np.cumsum(np.random.default_rng(0).normal(size=(60, 4)), axis=0).astype(np.float32)
    parts: list[Any] = []
    for scale, rate in ((1.0, 20.0), (1000.0, 5.0)):
        signal = Signal(path * scale, ("x", "y", "z", "gripper"))
        trajectory = Trajectory(timestamps=np.arange(60) / rate, state=signal, action=signal)
        (result,) = annotator.process([replace(work, trajectory=trajectory)])
        assert isinstance(result, Result)
        parts.append(result.annotations[0].value["parts"])
    assert parts[0] == pytest.approx(parts[1], abs=1e-4)
    assert {"end_speed", "end_effort", "action_jumps"} <= set(parts[0])


@pytest.mark.parametrize("fill", [np.nan, 0.0])
def test_signals_that_say_nothing_are_left_out(
    annotator: SuccessAnnotator, episodes: dict[str, Episode], work_for: Works, fill: float
) -> None:
    work = work_for(replace(episodes["drawer-close_000"], instruction=CLOSE), [annotator])
    signal = Signal(np.full((60, 4), fill, np.float32), ("x", "y", "z", "gripper"))
    trajectory = Trajectory(timestamps=np.arange(60) / 20, state=signal, action=signal)
    (result,) = annotator.process([replace(work, trajectory=trajectory)])
    assert isinstance(result, Result)
    parts: Any = result.annotations[0].value["parts"]
    assert "end_speed" not in parts


def test_the_caption_moves_the_probability_and_gives_a_missing_task(
    options: Options, ws: Workspace, episodes: dict[str, Episode], work_for: Works, caption_of: Captions
) -> None:
    producer = Producer(annotator="caption", version="1", kind="model")
    ws.stores.annotations.add_producer(producer)
    values: dict[str, Any] = {}
    for name, text in (("done", CLOSE), ("failed", f"fail to {CLOSE}")):
        episode = replace(episodes["drawer-close_000"], episode_id=f"{name:_<16}", instruction="")
        ws.stores.annotations.append([caption_of(episode, text, producer.maker_id)])
        annotator = SuccessAnnotator(options, ws.stores)
        (result,) = annotator.process([work_for(episode, [annotator])])
        assert isinstance(result, Result)
        values[name] = result.annotations[0].value
    assert values["done"]["task"] == values["failed"]["task"] == CLOSE
    assert values["done"]["parts"]["caption_outcome"] == 1.0
    assert values["failed"]["parts"]["caption_outcome"] == -1.0
    assert values["done"]["success_probability"] > values["failed"]["success_probability"]


def test_an_episode_without_a_task_is_not_judged(judge: Callable[..., Any]) -> None:
    value = judge("drawer-close_000", "")
    assert value == {"success_gaps": ["the episode has no instruction and no caption"]}


def test_frames_that_cannot_be_read_fail_their_own_episode_only(
    annotator: SuccessAnnotator, episodes: dict[str, Episode], work_for: Works
) -> None:
    works = [
        work_for(replace(episodes[name], instruction=CLOSE), [annotator])
        for name in ("gone", "drawer-close_000")
    ]
    gone, closed = annotator.process(works)
    assert isinstance(gone, MediaError) and isinstance(closed, Result)


def test_captions_of_the_same_run_are_refused(annotator: SuccessAnnotator) -> None:
    with pytest.raises(RequestError, match="run ares annotate caption first"):
        annotator.preflight([annotator.producer, Producer(annotator="caption", version="1")])


def test_the_producer_follows_combination_and_captioner(
    options: Options, ws: Workspace, tmp_path: Path
) -> None:
    usual = SuccessAnnotator(options, ws.stores).producer
    assert SuccessAnnotator(options, ws.stores).producer.maker_id == usual.maker_id
    (tmp_path / "own.yaml").write_text(
        "{id: own, version: 1.0.0, parts: {outcome_text: {weight: 1.0}}, failure_below: 0.4, success_from: 0.6}"
    )
    own = SuccessAnnotator(replace(options, values={"combination": str(tmp_path / "own.yaml")}), ws.stores)
    assert own.producer.maker_id != usual.maker_id and own.producer.settings["success_from"] == 0.6
    assert any("fitted to no labels" in warning for warning in own.warnings)
    ws.stores.annotations.add_producer(Producer(annotator="caption", version="1", kind="model"))
    assert SuccessAnnotator(options, ws.stores).producer.maker_id != usual.maker_id
    with pytest.raises(RequestError, match="one vote"):
        SuccessAnnotator(replace(options, values={"votes": 3}), ws.stores)
