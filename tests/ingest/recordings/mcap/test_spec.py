"""A spec says which topic of a recording is what, also topics that the reader does not use by itself."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace as Message
from typing import Any

import numpy as np
import pytest

from ares.episode import Record
from ares.errors import SourceError
from ares_ingest.base import SourceOptions
from ares_ingest.operation import show_specs
from tests.ingest.recordings.mcap.conftest import START, STEP, header
from tests.ingesting import open_sources, request_for

COUNT = 10
SPEC = """\
reference: our recorder
rate_hz: 20
robot: our arm
state:
  - {key: /tool, names: [x, y, z], unit: m}
  - {key: /joint_states, start: 1, names: [b], unit: rad}
action: [{key: /gains, start: 1, stop: 3, names: [push, pull]}]
reward: /score
cameras: {eye: {key: /camera/front/image_raw/compressed, role: wrist, channels: bgr}}
left_out: [/joint_states.velocity]
language: [/note]
success: /done
"""


def entries(kit: Any) -> list[Any]:
    found = [*kit.images(COUNT), *kit.states(COUNT), kit.task("lift it")]
    for k in range(COUNT):
        at = START + STEP * k
        point = Message(header=header(at), point=Message(x=k, y=2 * k, z=3 * k))
        found += [
            ("/tool", "geometry_msgs/msg/PointStamped", at, point),
            ("/gains", "std_msgs/msg/Float64MultiArray", at, Message(data=[k, k + 0.5, k + 0.25])),
            ("/score", "std_msgs/msg/Float64", at, Message(data=k / 8)),
            ("/done", "std_msgs/msg/Bool", at, Message(data=k == COUNT - 1)),
        ]
    found.append(("/note", "std_msgs/msg/String", START, Message(data="put it there")))
    return sorted(found, key=lambda entry: int(entry[2]))


def recording(kit: Any, folder: Path) -> Path:
    path: Path = kit.write(folder / "lab" / "a.mcap", entries(kit))
    return path


def load(path: Path, spec: Path) -> Record:
    (source,) = open_sources([str(path)], SourceOptions(spec=str(spec)))
    return next(source.items).load()


def written(folder: Path, text: str) -> Path:
    spec = folder / "spec.yaml"
    spec.write_text(text)
    return spec


def test_topics_of_any_type_are_state_action_reward_and_outcome(kit: Any, tmp_path: Path) -> None:
    text = SPEC.replace("rate_hz: 20\n", "").replace("left_out: [/joint_states.velocity]\n", "")
    record = load(recording(kit, tmp_path), written(tmp_path, text))
    trajectory, episode, k = record.trajectory, record.episode, np.arange(COUNT)
    assert trajectory.state is not None and trajectory.action is not None
    assert trajectory.state.names == ("x", "y", "z", "b")
    np.testing.assert_allclose(trajectory.state.values, np.stack([k, 2 * k, 3 * k, -k], axis=1))
    np.testing.assert_allclose(trajectory.action.values, np.stack([k + 0.5, k + 0.25], axis=1))
    assert trajectory.reward is not None
    np.testing.assert_array_equal(trajectory.reward, k / 8)
    assert episode.instructions == ("put it there", "lift it")
    assert (episode.success, episode.success_source, episode.robot) == (True, "/done", "our arm")
    (camera,) = episode.cameras
    assert (camera.name, camera.role, camera.media.channels) == ("eye", "wrist", "bgr")


def test_the_rate_of_a_spec_and_the_topic_of_its_steps_decide(kit: Any, tmp_path: Path) -> None:
    path = kit.write(tmp_path / "lab" / "a.mcap", [*kit.images(5), *kit.states(COUNT)])
    assert kit.read(path).episode.num_steps == 5
    by_joints = load(path, written(tmp_path, "reference: me\ntimestamps: /joint_states\n"))
    assert (by_joints.episode.num_steps, by_joints.episode.rate_hz) == (COUNT, 10.0)
    even = load(path, written(tmp_path, "reference: me\ntimestamps: /joint_states\nrate_hz: 20\n"))
    assert (even.episode.num_steps, even.episode.rate_source) == (2 * COUNT - 1, "spec")


def test_topics_with_dots_in_their_names(kit: Any, tmp_path: Path) -> None:
    messages = [(f"/arm.{side}{topic}", *rest) for topic, *rest in kit.states(COUNT) for side in (1, 2)]
    path = kit.write(tmp_path / "lab" / "a.mcap", messages)
    assert {array.key for array in kit.read(path).arrays} == {"/arm.1/joint_states", "/arm.2/joint_states"}
    state = "state: [{key: /arm.2/joint_states, names: [a, b]}]"
    record = load(path, written(tmp_path, f"reference: me\n{state}\n"))
    assert record.trajectory.state is not None and record.trajectory.state.names == ("a", "b")


def test_every_topic_is_shown_with_its_type_count_and_rate(kit: Any, tmp_path: Path) -> None:
    shown = show_specs(request_for([str(recording(kit, tmp_path))]))
    kept = "kept as a separate signal (geometry_msgs/msg/PointStamped, 10 messages, 10 Hz)"
    assert f"#   /tool (T x 3 float64): {kept}" in shown
    assert (
        "#   /joint_states (T x 2 float64): state (sensor_msgs/msg/JointState, 10 messages, 10 Hz)" in shown
    )
    assert "camera /camera/front/image_raw/compressed (10 frames, 10 Hz)" in shown
    assert "#   /done (std_msgs/msg/Bool, 10 messages, 10 Hz): not stored" in shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("state: [{key: /tol, names: [x]}]", "did you mean '/tool'?"),
        ("state: [{key: /note, names: [x]}]", "it holds no numbers for each step"),
        (
            "action: [{key: /tool, start: 1, stop: 9, names: [x]}]",
            "takes 1 to 9 of /tool, which has 3 numbers",
        ),
        ("timestamps: /toool", "did you mean '/tool'?"),
        ("timestamps: /done", "it is to be a camera or a topic of state or action: /camera/front"),
        ("language: [/nte]", "language names '/nte'"),
        ("reward: /tool", "is not one number per step"),
    ],
)
def test_wrong_topics_are_one_line(kit: Any, tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        load(recording(kit, tmp_path), written(tmp_path, f"reference: me\n{text}\n"))
    assert message in str(caught.value) and "\n" not in str(caught.value), str(caught.value)
