"""Names of simulated states, from models as robosuite stores them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares.signals import classify_by_name
from ares_ingest.hdf5.mujoco import name_mujoco_state

MODEL = """<mujoco><worldbody>
  <body name="cube"><joint name="cube_joint0" type="free"/></body>
  <body name="arm"><joint name="robot0_joint1"/>
    <body name="hand"><body name="finger"><joint name="gripper0_finger_joint1" type="slide"/></body></body>
    <body name="elbow"><joint name="robot0_joint2" type="hinge"/></body>
  </body></worldbody>
  <actuator><motor joint="robot0_joint1"/><motor joint="robot0_joint2"/></actuator></mujoco>"""
CUBE = ("x", "y", "z", "qw", "qx", "qy", "qz")
WIDTH = 1 + 7 + 3 + 6 + 3


def test_joints_in_the_order_of_the_state() -> None:
    names = name_mujoco_state(MODEL, "demo.hdf5", WIDTH)
    assert names[:8] == ("time", *(f"object_cube_joint0_{axis}" for axis in CUBE))
    assert names[8:11] == ("robot0_joint1", "gripper0_finger_joint1", "robot0_joint2")
    assert names[-3:] == ("robot0_joint1_vel", "gripper0_finger_joint1_vel", "robot0_joint2_vel")
    kinds = dict(zip(names, classify_by_name(names), strict=True))
    assert (kinds["robot0_joint1"], kinds["gripper0_finger_joint1"]) == ("arm", "gripper")
    assert set(classify_by_name(names[:8] + names[11:])) == {"other"}


def test_a_robot_that_floats_is_no_object() -> None:
    model = """<mujoco><worldbody><body><freejoint name="root"/><body><joint name="left_hip"/></body></body>
      </worldbody><actuator><motor joint="left_hip"/></actuator></mujoco>"""
    assert name_mujoco_state(model, "demo.hdf5", 16)[1:9] == (*(f"base_root_{a}" for a in CUBE), "left_hip")


@pytest.mark.parametrize(
    "model",
    [
        None,
        "../model.xml",
        "missing.xml",
        "<mujoco><worldbody>",
        MODEL.replace("<mujoco>", "<!DOCTYPE a [<!ENTITY b 'c'>]><mujoco>"),
        MODEL.replace("robot0_joint2", "robot0_joint1"),
    ],
)
def test_a_model_that_is_none_names_nothing(model: str | None) -> None:
    assert name_mujoco_state(model, "demo.hdf5", WIDTH) == ()


def test_a_model_of_another_width_names_nothing() -> None:
    assert name_mujoco_state(MODEL, "demo.hdf5", WIDTH + 1) == ()


def test_the_model_beside_a_demonstration_names_its_state(h5: Any, tmp_path: Path) -> None:
    path = h5.demo(
        tmp_path / "demo.hdf5", {"data/demo_0": {"model_file": "model_1.xml"}}, states=h5.numbers(9, WIDTH)
    )
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "model_1.xml").write_text(MODEL)
    assert h5.only(path).episode.state_names[8] == "robot0_joint1"


@pytest.mark.parametrize(("gap", "rate"), [(0.0, (25.0, "source")), (0.5, (10.0, "assumed"))])
def test_the_time_in_the_state_gives_the_rate_where_it_is_even(
    h5: Any, tmp_path: Path, gap: float, rate: tuple[float, str]
) -> None:
    states = h5.numbers(9, WIDTH)
    states[:, 0] = 1.5 + 0.04 * np.arange(9)
    states[5:, 0] += gap
    path = h5.demo(tmp_path / "demo.hdf5", {"data/demo_0": {"model_file": MODEL}}, states=states)
    episode = h5.only(path).episode
    assert (episode.rate_hz, episode.rate_source) == rate
