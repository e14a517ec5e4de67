"""Boundaries of a model and events of the signals: which are one, what stays where they disagree, the tolerance."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from annotators.models import VlmRequest
from annotators.segment import ArmBoundaries, Boundary, SegmentSpan
from annotators.segment.fusion import (
    FEWEST_LABELLED,
    USUAL_TOLERANCE,
    LabelledTimes,
    SnapTolerance,
    choose_tolerance,
    fuse_spans,
    learn_tolerance,
    name_spans,
)
from annotators.segment.timeline import ModelArm, ModelBoundary
from ares.annotation import Annotation, Maker
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.annotators.scripted_vlm import StubVlm

_HALF_A_SECOND = SnapTolerance(seconds=0.5)


def _arm(*changes: tuple[float, str], arm: str = "", opening: str = "reach") -> ModelArm:
    boundaries = [
        ModelBoundary(seconds=seconds, text=text, arm=arm, before="", window=0, confidence=0.6)
        for seconds, text in changes
    ]
    return ModelArm(arm=arm, opening=opening, boundaries=tuple(boundaries))


def _events(*seconds: float, arm: str = "", confidence: float = 0.8) -> ArmBoundaries:
    return ArmBoundaries(arm, tuple(Boundary(own, "gripper", confidence) for own in seconds))


def _rows(spans: Sequence[SegmentSpan]) -> list[tuple[str, float, str, str, float]]:
    return [
        (own.arm, own.start_seconds, own.text, own.boundary.source, round(own.boundary.confidence, 2))
        for own in spans
    ]


def test_a_boundary_of_the_model_takes_the_time_of_the_event_it_means_and_is_surer() -> None:
    spans = fuse_spans([_arm((4.3, "grasp"), (8.9, "lift"))], [_events(4.0, 9.1)], _HALF_A_SECOND, 12.0)
    assert _rows(spans) == [
        ("", 0.0, "reach", "start", 1.0),
        ("", 4.0, "grasp", "gripper+model", 0.92),
        ("", 9.1, "lift", "gripper+model", 0.92),
    ]
    assert [own.stop_seconds for own in spans] == [4.0, 9.1, 12.0]


def test_where_they_disagree_both_are_kept_with_their_confidence() -> None:
    spans = fuse_spans([_arm((4.8, "grasp"))], [_events(4.0, 9.0)], _HALF_A_SECOND, 12.0)
    assert _rows(spans) == [
        ("", 0.0, "reach", "start", 1.0),
        ("", 4.0, "reach", "gripper", 0.8),
        ("", 4.8, "grasp", "model", 0.6),
        ("", 9.0, "grasp", "gripper", 0.8),
    ]


def test_no_event_is_two_boundaries_of_the_model_and_no_span_is_too_short() -> None:
    spans = fuse_spans([_arm((3.8, "grasp"), (4.15, "lift"))], [_events(4.1)], _HALF_A_SECOND, 12.0)
    # The nearer one is the event; the other is 0.3 s before it and stays.
    assert _rows(spans)[1:] == [("", 3.8, "grasp", "model", 0.6), ("", 4.1, "lift", "gripper+model", 0.92)]
    spans = fuse_spans([_arm((3.9, "grasp"), (4.15, "lift"))], [_events(4.1)], _HALF_A_SECOND, 12.0)
    assert _rows(spans)[1:] == [("", 4.1, "lift", "gripper+model", 0.92)]


def test_arms_that_both_know_are_one_and_a_model_without_arms_has_a_timeline_of_its_own() -> None:
    signals = [_events(2.0, arm="left"), _events(6.0, arm="right")]
    spans = fuse_spans([_arm((2.2, "hold"), arm="left")], signals, _HALF_A_SECOND, 10.0)
    assert _rows(spans) == [
        ("left", 0.0, "reach", "start", 1.0),
        ("left", 2.0, "hold", "gripper+model", 0.92),
        ("right", 0.0, "", "start", 1.0),
        ("right", 6.0, "", "gripper", 0.8),
    ]
    spans = fuse_spans([_arm((2.2, "hold"), (6.3, "open"))], signals, _HALF_A_SECOND, 10.0)
    assert [row for row in _rows(spans) if row[0] == ""] == [
        ("", 0.0, "reach", "start", 1.0),
        ("", 2.0, "hold", "gripper+model", 0.92),
        ("", 6.0, "open", "gripper+model", 0.92),
    ]
    assert [own.start_seconds for own in spans if own.arm] == [0.0, 2.0, 0.0, 6.0]


def test_a_model_that_names_the_only_arm_is_about_that_arm() -> None:
    spans = fuse_spans([_arm((2.2, "hold"), arm="right")], [_events(2.0)], _HALF_A_SECOND, 10.0)
    assert [(own.arm, own.start_seconds) for own in spans] == [("", 0.0), ("", 2.0)]


def test_without_signals_the_model_stands_alone_and_without_changes_there_is_one_span() -> None:
    arm = _arm((4.8, "grasp"))
    assert fuse_spans([arm], [], _HALF_A_SECOND, 12.0) == name_spans([arm], 12.0)
    assert _rows(name_spans([ModelArm(arm="")], 12.0)) == [("", 0.0, "", "start", 1.0)]


def _labelled(noise: float, episodes: int = 20, seed: int = 0) -> list[LabelledTimes]:
    """Events every ten seconds or so, all labelled; the model is off by up to so much and sees two in three."""
    dice, drawn = random.Random(seed), []
    for _ in range(episodes):
        times = [10.0 * number + dice.uniform(0, 2) for number in range(1, 6)]
        told = [time + dice.uniform(-noise, noise) for time in times if dice.random() < 0.67]
        drawn.append(LabelledTimes(labelled=tuple(times), by_model=tuple(sorted(told)), events=tuple(times)))
    return drawn


@pytest.mark.parametrize("noise", [0.15, 0.75, 1.25])
def test_the_tolerance_follows_the_error_of_the_model_where_people_labelled(noise: float) -> None:
    chosen = choose_tolerance(_labelled(noise))
    assert chosen.seconds == pytest.approx(noise, abs=0.11) and chosen.labelled == 100


def test_a_tolerance_does_not_take_two_events_for_one() -> None:
    """A press follows each grasp within a second; the signals have the grasp alone, the model both."""
    times = [4.0 * number for number in range(1, 9)]
    own = LabelledTimes(
        labelled=tuple(sorted([*times, *(time + 0.9 for time in times)])),
        by_model=tuple(sorted(time + 0.9 for time in times)),
        events=tuple(times),
    )
    assert choose_tolerance([own] * 5).seconds < 0.9


def test_too_few_labels_choose_nothing() -> None:
    assert choose_tolerance([]) == SnapTolerance(seconds=USUAL_TOLERANCE)
    assert choose_tolerance(_labelled(1.25, episodes=4)).seconds == USUAL_TOLERANCE
    assert choose_tolerance(_labelled(1.25, episodes=FEWEST_LABELLED // 5)).seconds != USUAL_TOLERANCE


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    """Eight episodes with signals; the model has segmented them, and people and another model have labelled them."""
    import numpy as np

    folder = tmp_path / "source"
    folder.mkdir()
    for number in range(8):
        state = np.linspace(0, 1, 600, dtype=np.float32)[:, None]
        np.savez(folder / f"{number}.npz", state=state, action=state, timestamps=np.arange(600) / 10)
    with open_workspace(str(tmp_path / "ws"), Settings()) as opened:
        report = opened.ingest(folder, quiet=True)
        assert report.kept == 8, report
        yield opened


def _add_spans(ws: Workspace, maker: Maker, edges: Sequence[float], author: str = "") -> None:
    log = ws.stores.annotations
    log.add_maker(maker)
    rows = [
        Annotation(
            episode_id=episode.episode_id,
            name=maker.annotator,
            value={"text": "pick", "style": "subtask", "author": author},
            maker_id=maker.maker_id,
            subject=episode.episode_id,
            start_seconds=start,
            stop_seconds=stop,
            created="2026-01-01T00:00:00+00:00",
        )
        for episode in ws.stores.tables.episodes.read()
        for start, stop in pairwise(edges)
    ]
    log.append(rows)


def _maker(annotator: str, **more: Any) -> Maker:
    return Maker(annotator=annotator, version="1", fills_segments=True, **more)


@pytest.mark.parametrize(("author", "is_learnt"), [("person", True), ("Some/Model", False), ("", False)])
def test_only_spans_that_people_labelled_teach(ws: Workspace, author: str, is_learnt: bool) -> None:
    times = [float(10 * number) for number in range(1, 6)]
    own = _maker("segment", model="Some/Vlm", kind="model", settings={"by": "model"})
    _add_spans(ws, own, [0.0, *(time + 1.15 for time in times), 59.9])
    _add_spans(ws, _maker("source_subtask"), [0.0, *times, 59.9], author)
    find = lambda work: [_events(*times)]  # noqa: E731
    learnt = learn_tolerance(ws.stores, "Some/Vlm", find)
    assert (learnt.seconds, learnt.labelled) == ((1.2, 40) if is_learnt else (USUAL_TOLERANCE, 0))
    # Another model errs otherwise.
    assert learn_tolerance(ws.stores, "Other/Vlm", find) == SnapTolerance(seconds=USUAL_TOLERANCE)


def test_a_run_by_both_stores_the_time_of_the_signals_and_the_words_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np

    closed = np.clip((np.arange(100) / 10 - 3.9) / 0.2, 0, 1)
    state = np.stack([0 * closed, 1 - closed], axis=1).astype(np.float32)
    (tmp_path / "source").mkdir()
    np.savez(
        tmp_path / "source" / "0.npz", image=np.zeros((100, 16, 16, 3), np.uint8), state=state, action=state
    )
    spec = tmp_path / "spec.yaml"
    names = "[joint_0, gripper]"
    spec.write_text(
        f"reference: a test\nstate: [{{key: state, names: {names}}}]\ncameras: {{image: {{role: front}}}}\n"
    )

    def answer(request: VlmRequest) -> str:
        if request.prompt.startswith("Find"):
            return '{"changes": [{"number": 1, "seconds": 4.25}, {"number": 2, "seconds": 7.5}]}'
        spans = [(0, 4.5, "reach for the cup"), (4.5, 7.5, "grasp the cup"), (7.5, 10, "lift the cup")]
        return json.dumps(
            {"spans": [{"start": a, "end": b, "arm": "", "what": what} for a, b, what in spans]}
        )

    monkeypatch.setattr("annotators.segment.model.load_vlm", lambda *arguments: StubVlm(answer))
    with open_workspace(str(tmp_path / "ws"), Settings()) as ws:
        ws.ingest(tmp_path / "source", rate_hz=10.0, spec=spec, quiet=True)
        (report,) = ws.annotate("segment", quiet=True, options={"by": "signals,model"})
        assert (report.kept, report.failed, report.cost.calls) == (1, 0, 2)
        (maker,) = [own for own in ws.stores.annotations.makers().values() if own.annotator == "segment"]
        assert maker.settings["snap"] == USUAL_TOLERANCE and maker.model == "stub:scripted"
        ids = ws.stores.annotations.find_episodes("segment")
        spans = ws.stores.annotations.find_annotations(ids, ["segment"])
    rows = [(own.value["text"], own.value["boundary"]["source"]) for own in spans]  # type: ignore[call-overload,index]
    assert rows == [
        ("reach for the cup", "start"),
        ("grasp the cup", "gripper+model"),
        ("lift the cup", "model"),
    ]
    assert spans[1].start_seconds == pytest.approx(4.0, abs=0.11) and spans[2].start_seconds == 7.5
