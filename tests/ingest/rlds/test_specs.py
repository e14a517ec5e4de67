"""Every built-in spec gives the right names and values for a dataset of the shape that its reference describes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ares.episode import Record
from ares.media import frames_at
from ares_ingest.base import Source, SourceOptions
from ares_ingest.rlds import rlds
from ares_ingest.spec import DatasetSpec, SliceSpec, find_builtin_spec
from tests.ingest.conftest import MakeRlds
from tests.ingest.rlds.conftest import tfds_steps

OBS, ACT, PNG = "steps/observation/", "steps/action", "png 24 32 3"
_RLDS_STANDARD = {
    "steps/is_first": "bool",
    "steps/is_last": "bool",
    "steps/is_terminal": "bool",
    "steps/reward": "float32",
}
_NATURAL = {
    OBS + "natural_language_instruction": "string",
    OBS + "natural_language_embedding": "float32 512",
}
_TEXT = {
    "steps/language_instruction": "text",
    "steps/discount": "float32",
    "episode_metadata/file_path": "text",
}
_ARM = {ACT + "/world_vector": "float32 3", ACT + "/rotation_delta": "float32 3"}
_BASE = {
    ACT + "/base_displacement_vector": "float32 2",
    ACT + "/base_displacement_vertical_rotation": "float32 1",
}
_AUSTIN_STATE = {
    OBS + "state": "float32 8",
    OBS + "state_ee": "float32 16",
    OBS + "state_gripper": "float32 1",
}
_TWO = {OBS + "image": PNG, OBS + "wrist_image": PNG}
_TWO_LARGE = {
    "steps/observation/image": "png 224 224 3",
    "steps/observation/wrist_image": "png 224 224 3",
}


def shapes(action: int, state: int, **more: str) -> dict[str, str]:
    return _TEXT | {OBS + "image": PNG, ACT: f"float32 {action}", OBS + "state": f"float32 {state}"} | more


# By the catalogue of tensorflow_datasets; pictures are smaller here where their size means nothing.
SHAPES: dict[str, dict[str, str]] = {
    "bridge": _NATURAL | _ARM | {ACT + "/open_gripper": "bool", ACT + "/terminate_episode": "float32",
        OBS + "image": PNG, OBS + "state": "float32 7"},
    "bridge_dataset": _TEXT | {ACT: "float32 7",
        OBS + "state": "float32 7"} | {OBS + f"image_{n}": PNG for n in range(4)},
    "fractal20220817_data": _NATURAL | _ARM | _BASE | {ACT + "/gripper_closedness_action": "float32 1",
        ACT + "/terminate_episode": "int32 3", OBS + "image": PNG, OBS + "base_pose_tool_reached": "float32 7",
        OBS + "gripper_closed": "float32 1", OBS + "height_to_bottom": "float32 1",
        OBS + "workspace_bounds": "float32 3 3",
        "aspects/has_aspects": "bool", "aspects/success": "bool", "attributes/env_name": "string"},
    "kuka": _NATURAL | _ARM | _BASE | {ACT + "/gripper_closedness_action": "float32 1",
        ACT + "/terminate_episode": "int32 3",
        OBS + "image": PNG, OBS + "clip_function_input/base_pose_tool_reached": "float32 7 zlib",
        OBS + "clip_function_input/workspace_bounds": "float32 3 3 zlib", OBS + "gripper_closed": "float32 1 zlib",
        OBS + "task_id": "float32 1 zlib", "success": "bool"},
    "droid": _TEXT | {"steps/language_instruction_2": "text", "steps/language_instruction_3": "text", ACT: "float64 7",
        "steps/action_dict/cartesian_velocity": "float64 6", "steps/action_dict/gripper_position": "float64 1",
        "steps/action_dict/joint_position": "float64 7", OBS + "cartesian_position": "float64 6",
        OBS + "gripper_position": "float64 1", OBS + "joint_position": "float64 7",
        OBS + "exterior_image_1_left": PNG,
        OBS + "exterior_image_2_left": PNG, OBS + "wrist_image_left": PNG},
    "taco_play": _NATURAL | {ACT + "/actions": "float32 7", ACT + "/rel_actions_world": "float32 7",
        ACT + "/rel_actions_gripper": "float32 7", ACT + "/terminate_episode": "float32",
        OBS + "robot_obs": "float32 15",
        OBS + "depth_static": "float32 20 20", OBS + "rgb_static": PNG, OBS + "rgb_gripper": PNG,
        OBS + "structured_language_instruction": "string"},
    "jaco_play": _NATURAL | {ACT + "/world_vector": "float32 3", ACT + "/gripper_closedness_action": "float32 1",
        ACT + "/terminate_episode": "int32 3", OBS + "end_effector_cartesian_pos": "float32 7",
        OBS + "end_effector_cartesian_velocity": "float32 6", OBS + "joint_pos": "float32 8", OBS + "image": PNG,
        OBS + "image_wrist": PNG},
    "berkeley_cable_routing": _NATURAL | _ARM | {ACT + "/terminate_episode": "float32",
        OBS + "robot_state": "float32 7",
        OBS + "image": PNG, OBS + "top_image": PNG, OBS + "wrist45_image": PNG, OBS + "wrist225_image": PNG},
    "roboturk": _NATURAL | _ARM | {ACT + "/gripper_closedness_action": "float32 1",
        ACT + "/terminate_episode": "float32",
        OBS + "front_rgb": PNG},
    "viola": _NATURAL | _ARM | {ACT + "/gripper_closedness_action": "float32", ACT + "/terminate_episode": "float32",
        OBS + "agentview_rgb": PNG, OBS + "eye_in_hand_rgb": PNG, OBS + "ee_states": "float32 16",
        OBS + "gripper_states": "float32 1", OBS + "joint_states": "float32 7"},
    "berkeley_autolab_ur5": _NATURAL | _ARM | {ACT + "/gripper_closedness_action": "float32",
        ACT + "/terminate_episode": "float32", OBS + "hand_image": "png 480 640 3", OBS + "image": PNG,
        OBS + "robot_state": "float32 15"},
    "toto": _NATURAL | _ARM | {ACT + "/open_gripper": "bool", ACT + "/terminate_episode": "float32",
        OBS + "image": PNG,
        OBS + "state": "float32 7"},
    "language_table": {ACT: "float32 2", OBS + "instruction": "int32 512", OBS + "rgb": PNG,
        OBS + "effector_translation": "float32 2", OBS + "effector_target_translation": "float32 2"},
    "bc_z": _NATURAL | {ACT + "/future/xyz_residual": "float32 30", ACT + "/future/axis_angle_residual": "float32 30",
        ACT + "/future/target_close": "int64 10", OBS + "present/xyz": "float32 3",
        OBS + "present/axis_angle": "float32 3",
        OBS + "present/sensed_close": "float32 1", OBS + "present/intervention": "int64", OBS + "image": PNG,
        OBS + "episode_success": "float32", OBS + "sequence_length": "int64"},
    "stanford_hydra_dataset_converted_externally_to_rlds": shapes(7, 27) | {OBS + "image": "png 240 320 3",
        OBS + "wrist_image": "png 240 320 3"},
    "austin_buds_dataset_converted_externally_to_rlds": shapes(7, 24) | _TWO,
    "austin_sailor_dataset_converted_externally_to_rlds": shapes(7,
        8) | _TWO | _AUSTIN_STATE | {OBS + "state_joint": "float32 7"},
    "austin_sirius_dataset_converted_externally_to_rlds": shapes(7,
        8) | _TWO | _AUSTIN_STATE | {OBS + "state_joint": "float32 7",
        "steps/action_mode": "float32 1", "steps/intv_label": "float32 1"},
    "utaustin_mutex": shapes(7, 24) | {OBS + "image": "png 128 128 3", OBS + "wrist_image": "png 128 128 3"},
    "berkeley_fanuc_manipulation": shapes(6, 13) | _TWO_LARGE | {OBS + "end_effector_state": "float32 7"},
    "cmu_stretch": shapes(8, 4),
    "ucsd_kitchen_dataset_converted_externally_to_rlds": shapes(8, 21),
    "nyu_rot_dataset_converted_externally_to_rlds": shapes(7, 7),
    "dlr_edan_shared_control_converted_externally_to_rlds": shapes(7, 7),
    "iamlab_cmu_pickup_insert_converted_externally_to_rlds": shapes(8, 20) | _TWO,
    "fmb": _TEXT | {ACT: "float32 7", OBS + "eef_pose": "float32 7", OBS + "state_gripper_pose": "float32",
        OBS + "joint_pos": "float32 7", OBS + "joint_vel": "float32 7", OBS + "image_side_1": PNG,
        OBS + "image_side_2": PNG,
        OBS + "image_wrist_1": PNG, OBS + "image_wrist_2": PNG, OBS + "image_side_1_depth": "float32 20 20",
        OBS + "primitive": "string", "episode_metadata/episode_language_instruction": "string"},
    "libero_spatial_no_noops": shapes(7, 8) | _TWO | {OBS + "joint_state": "float32 7"},
    "liber_o10": shapes(7, 8) | _TWO | {OBS + "joint_state": "float32 7"},
    "aloha_mobile": _TEXT | {ACT: "float32 16", OBS + "state": "float32 14", OBS + "cam_high": PNG,
        OBS + "cam_left_wrist": PNG, OBS + "cam_right_wrist": PNG},
    "metaworld_sawyer": shapes(4, 4) | _TWO,
    "asu_table_top_converted_externally_to_rlds": shapes(7, 7) | {OBS + "state_vel": "float32 7",
        "steps/ground_truth_states/EE": "float32 6", "steps/ground_truth_states/coke": "float32 6",
        "steps/goal_object": "text"},
    "berkeley_mvp_converted_externally_to_rlds": _TEXT | {ACT: "float32 8", OBS + "gripper": "bool",
        OBS + "hand_image": PNG, OBS + "joint_pos": "float32 7", OBS + "pose": "float32 7"},
    "cmu_play_fusion": shapes(9, 8),
    "imperialcollege_sawyer_wrist_cam": shapes(8, 1) | _TWO,
    "kaist_nonprehensile_converted_externally_to_rlds": shapes(20, 21)
        | {OBS + "partial_pointcloud": "float32 512 3"},
    "tokyo_u_lsmo_converted_externally_to_rlds": shapes(7, 13),
    "ucsd_pick_and_place_dataset_converted_externally_to_rlds": shapes(4, 7) | {"episode_metadata/success": "bool"},
    "cmu_franka_exploration_dataset_converted_externally_to_rlds": _TEXT | {ACT: "float32 8", OBS + "image": PNG,
        OBS + "highres_image": PNG, "steps/structured_action": "float32 8"},
}  # fmt: skip
ALIASES = {"fmb_dataset", "liber_o10", *(f"libero_{n}{end}" for n in ("spatial", "object", "goal", "10", "90")
                                        for end in ("", "_no_noops"))}  # fmt: skip


def require_spec(name: str) -> DatasetSpec:
    spec = find_builtin_spec(name)
    assert spec is not None
    return spec


def write_and_load(make_rlds: MakeRlds, name: str) -> tuple[Any, Source, Record]:
    dataset = make_rlds(
        name, {key: leaf.replace("string", "text") for key, leaf in (_RLDS_STANDARD | SHAPES[name]).items()}
    )
    (source,) = rlds.open(str(dataset.path), SourceOptions())
    (item,) = source.items
    return dataset, source, item.load()


def expected_signal(
    slices: tuple[SliceSpec, ...], values: Mapping[str, NDArray[Any]]
) -> tuple[list[str], NDArray[Any]]:
    names: list[str] = []
    columns = []
    for spec_slice in slices:
        feature_values = np.asarray(values[spec_slice.key], np.float32).reshape(
            len(values[spec_slice.key]), -1
        )
        part = feature_values[:, spec_slice.start : spec_slice.stop]
        columns.append(part)
        width = part.shape[1]
        names += (
            spec_slice.names
            if len(spec_slice.names) == width
            else [f"{spec_slice.names[0]}_{n}" for n in range(width)]
        )
    return names, np.concatenate(columns, axis=1)


@pytest.mark.parametrize("name", SHAPES)
def test_names_values_and_pictures_are_in_their_places_and_nothing_is_lost(
    make_rlds: MakeRlds, name: str
) -> None:
    """The values are those that tensorflow_datasets reads."""
    dataset, source, record = write_and_load(make_rlds, name)
    spec, episode, steps = require_spec(name), record.episode, tfds_steps(dataset.path, record)
    said = " ".join(source.warnings)
    assert "does not fit" not in said and "does not exist" not in said
    for slices, signal in ((spec.state, record.trajectory.state), (spec.action, record.trajectory.action)):
        assert (signal is not None) or not slices
        if slices and signal is not None:
            truth = {part.key: np.stack([_value_at(step, part.key) for step in steps]) for part in slices}
            names, values = expected_signal(slices, truth)
            assert list(signal.names) == names and len(set(names)) == len(names)
            assert np.array_equal(signal.values, values)
    assert (record.trajectory.state is None) == (not spec.state)
    assert {camera.name: camera.role for camera in episode.cameras} == spec.cameras
    rate = (spec.rate_hz, "spec") if spec.rate_hz else (10.0, "assumed")
    assert (episode.rate_hz, episode.rate_source) == rate
    assert episode.robot == spec.robot and set(spec.faults) <= set(source.warnings) and episode.instruction
    for camera in episode.cameras:
        pictures = np.stack([_value_at(step, camera.media.key) for step in steps])
        colours = pictures[..., ::-1] if camera.name in spec.bgr else pictures
        assert np.array_equal(frames_at(camera.media, [n / episode.rate_hz for n in range(4)]), colours)
    for key in numeric_keys(name):
        width = np.asarray(dataset.values[key]).reshape(4, -1).shape[1]
        parts = [part for part in (*spec.state, *spec.action) if part.key == key]
        is_covered = sum((part.stop or width) - part.start for part in parts) == width
        is_extra = key.removeprefix("steps/").removeprefix("observation/") in record.trajectory.extra
        assert is_covered or is_extra or f"{key} is not stored" in said or key in spec.language, key


def numeric_keys(name: str) -> list[str]:
    """Keys of the features of steps that are neither texts nor pictures."""
    leaves = SHAPES[name].items()
    return [
        key
        for key, leaf in leaves
        if key.startswith("steps/") and leaf.split()[0] not in ("text", "string", "png")
    ]


def test_every_spec_with_slices_has_a_shape_here() -> None:
    folder = Path(__file__).parents[3] / "ingest" / "specs"
    sliced = {
        path.stem
        for path in folder.glob("*.yaml")
        if require_spec(path.stem).state or require_spec(path.stem).action
    }
    assert sliced - set(SHAPES) - ALIASES == {"libero"} and sliced >= ALIASES | set(SHAPES)


def _value_at(step: Any, key: str) -> Any:
    """The value under a key whose last part may have a slash itself."""
    rest = key.removeprefix("steps/")
    while rest not in step:
        first, _, rest = rest.partition("/")
        step = step[first]
    return step[rest]


def test_names_that_people_know(make_rlds: MakeRlds) -> None:
    _, _, viola = write_and_load(make_rlds, "viola")
    assert viola.episode.action_names == ("x", "y", "z", "roll", "pitch", "yaw", "gripper", "terminate")
    assert viola.episode.state_names[:8] == (*(f"joint_{n}" for n in range(7)), "gripper")
    _, _, kuka = write_and_load(make_rlds, "kuka")
    assert kuka.episode.state_names == ("x", "y", "z", "qx", "qy", "qz", "qw", "gripper")
    assert kuka.episode.success_source == "success"
    _, _, bc_z = write_and_load(make_rlds, "bc_z")
    assert bc_z.episode.action_names == ("x", "y", "z", "rx", "ry", "rz", "gripper")
    assert bc_z.trajectory.extra["action/future/xyz_residual"].values.shape == (4, 30)


def test_outcomes_that_specs_name(make_rlds: MakeRlds) -> None:
    leaves = _RLDS_STANDARD | SHAPES["bc_z"] | {OBS + "natural_language_instruction": "text"}

    def load_outcome(folder: str, values: list[float]) -> Record:
        changed = {OBS + "episode_success": np.array(values, np.float32)}
        spec = Path(__file__).parents[3] / "ingest" / "specs" / "bc_z.yaml"
        dataset = make_rlds(folder, leaves, changed=changed)
        (source,) = rlds.open(str(dataset.path), SourceOptions(spec=str(spec)))
        return next(source.items).load()

    cases = {"a": [1.0] * 4, "b": [0.0] * 4, "c": [0.0, 0.0, 0.5, 1.0]}
    good, bad, both = (load_outcome(folder, values) for folder, values in cases.items())
    assert (good.episode.success, good.episode.success_source) == (True, OBS + "episode_success")
    assert bad.episode.success is False and both.episode.success is None
    assert f"outcome {OBS}episode_success is neither 0 nor 1 throughout" in both.warnings


def test_a_mended_copy_is_not_swapped_again(make_rlds: MakeRlds) -> None:
    name = "stanford_hydra_dataset_converted_externally_to_rlds"
    resized = {OBS + "image": "png 256 256 3", OBS + "wrist_image": "png 256 256 3"}
    dataset = make_rlds(name, _RLDS_STANDARD | SHAPES[name] | resized)
    (source,) = rlds.open(str(dataset.path), SourceOptions())
    record = next(source.items).load()
    assert [camera.media.channels for camera in record.episode.cameras] == ["rgb", "rgb"]
    assert sum("taken as RGB" in warning for warning in source.warnings) == 2
    assert np.array_equal(
        frames_at(record.episode.cameras[0].media, [0.0])[0], dataset.values[OBS + "image"][0]
    )
