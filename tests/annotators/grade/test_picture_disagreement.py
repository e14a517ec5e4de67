"""A judge's observation is set against the signals of its span only where both are plain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng

from ares.annotation import Annotation
from ares.episode import Episode, Signal, Trajectory
from ares_annotators.base import Work
from ares_annotators.motion import find_disagreements, infer_meaning_by_names
from ares_app.dashboard.timeline_ticks import make_ruling_ticks
from tests.annotators.grade.conftest import value_of
from tests.annotators.judge_replies import judge, observation

_NAMES = tuple(f"{side}_{name}" for side in ("left", "right") for name in ("x", "y", "z", "gripper"))
_SECONDS = 8.0


def _see(**values: str) -> list[tuple[str, str, float]]:
    """What a judge saw at 3 s."""
    return [(slot, value, 3.0) for slot, value in values.items()]


def _trajectory(number: int, *, still: Sequence[str] = (), sign: float = 1.0) -> Trajectory:
    """Both arms lift a thing by 6 to 30 cm, with a sensor's noise; dimensions whose names hold `still` rest."""
    rng = default_rng(number)
    steps = int(rng.integers(60, 200))
    time = np.linspace(0, 1, steps)
    values = np.empty((steps, len(_NAMES)))
    for at, name in enumerate(_NAMES):
        size = rng.uniform(0.06, 0.3)
        curve = (time > rng.uniform(0.3, 0.6)) * 0.08 if "gripper" in name else sign * size * time**2
        is_still = any(word in name for word in still)
        values[:, at] = 0.3 + (0 if is_still else curve) + rng.normal(0, 1e-4, steps)
    state = Signal(values.astype(np.float32), _NAMES)
    return Trajectory(timestamps=np.linspace(0, _SECONDS, steps), state=state, action=None)


@pytest.fixture
def texts_of(episodes: dict[str, Episode], work_for: Callable[..., Work]) -> Callable[..., list[str]]:
    """What is found of a trajectory for an observation."""
    work = work_for(episodes["drawer-close_000"], [])
    work = replace(work, subject=replace(work.subject, stop_seconds=_SECONDS))

    def find(trajectory: Trajectory, seen: list[tuple[str, str, float]]) -> list[str]:
        names = [signal.names if signal else () for signal in (trajectory.state, trajectory.action)]
        found = find_disagreements(seen, replace(work, trajectory=trajectory), infer_meaning_by_names(*names))
        return [str(item["text"]) for item in found]

    return find


@pytest.mark.parametrize("number", range(20))
def test_what_the_signals_deny_is_named_and_what_they_bear_is_not(texts_of: Any, number: int) -> None:
    lifts = _trajectory(number)
    for seen in (_see(action="pick up"), _see(action="lift", hand="left hand"), _see(hand="right gripper")):
        assert not texts_of(lifts, seen)
    gripper_rests, lies = _trajectory(number, still=("gripper",)), _trajectory(number, still=("_z",))
    assert texts_of(gripper_rests, _see(action="grasp")) == ["the picture shows 'grasp', no gripper moves"]
    assert texts_of(lies, _see(action="lift")) == ["the picture shows 'lift', no end effector rises by 1 cm"]
    assert not texts_of(lies, _see(action="push"))
    sinks = _trajectory(number, sign=-1.0)
    assert len(texts_of(sinks, _see(action="pick up"))) == 1 and not texts_of(sinks, _see(action="lower"))
    one_arm = _trajectory(number, still=("left",))
    left = ["the picture shows 'left arm', the left arm rests and the right one moves"]
    assert texts_of(one_arm, _see(hand="left arm")) == left
    assert not texts_of(one_arm, _see(hand="right arm"))


def test_what_is_not_plain_contradicts_nothing(texts_of: Any) -> None:
    rests = _trajectory(1, still=("_",))
    assert not texts_of(rests, _see(hand="left hand")), "no arm moves"
    assert not texts_of(_trajectory(1, still=("left",)), _see(hand="both hands, left and right"))
    assert rests.state is not None
    slow = replace(rests, timestamps=rests.timestamps * 1e4)
    assert not texts_of(slow, _see(action="lift")), "one row lies in the span"
    command = replace(rests, action=_trajectory(1).state)
    assert not texts_of(command, _see(action="grasp")), "a gripper that is commanded may move"
    unnamed = replace(rests, state=Signal(rests.state.values, tuple(map(str, range(len(_NAMES))))))
    assert not texts_of(unnamed, _see(action="pick up", hand="left hand"))
    broken = rests.state.values.copy()
    broken[3] = np.nan
    assert not texts_of(
        replace(rests, state=Signal(broken, _NAMES)), _see(action="pick up", hand="left hand")
    )


def test_a_grade_and_the_timeline_name_it_at_its_second(
    annotator_of: Any,
    episodes: dict[str, Episode],
    work_for: Callable[..., Work],
    caption_of: Callable[..., Annotation],
    model_server: Any,
    without_controls: None,
) -> None:
    model_server.replies(judge(observation(action="pick up")))
    annotator, episode = annotator_of(), episodes["drawer-close_000"]
    caption = caption_of(episode, "pick up the green drawer", slots={"action": "pick up", "object": "drawer"})
    work = replace(work_for(episode, [annotator], caption), trajectory=_trajectory(2, still=("gripper",)))
    value = value_of(annotator.process([work])[0])
    assert value["motion_disagreement"] == ["the picture shows 'pick up', no gripper moves"]
    judged = {"criteria": [], "disagreements": value["disagreements"]}
    (tick,) = make_ruling_ticks(judged, episode.duration_seconds)
    assert (
        tick["label"] == value["motion_disagreement"][0]
        and tick["seconds"] == value["disagreements"][0]["seconds"]
    )
