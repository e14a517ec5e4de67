"""Loads HDF5 demonstrations under data/demo_*, with the names of their MuJoCo state dimensions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ares.episode import Json, RateSource, Record
from ares.errors import SourceError
from ares.input import (
    check_relative_path,
    open_hdf5,
    open_hdf5_object,
    parse_xml,
    read_xml,
    translate_hdf5_errors,
)
from ingest.hdf5.episode import ArrayRoles, EpisodeDetails, HDF5Entry, count_steps, make_record
from ingest.hdf5.reader import (
    HDF5EpisodeReader,
    find_datasets,
    keep_small_values,
    natural_key,
    parse_json_object,
    read_attributes,
    read_child_classes,
    read_small,
    to_plain_value,
)
from ingest.mapping import PICTURES_TURNED, PICTURES_UNKNOWN
from ingest.signals import resolve_rate

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


_FREE_POSE, _FREE_VELOCITY = ("x", "y", "z", "qw", "qx", "qy", "qz"), ("vx", "vy", "vz", "wx", "wy", "wz")
_AXES = {
    "free": (_FREE_POSE, _FREE_VELOCITY),
    "ball": (_FREE_POSE[3:], _FREE_VELOCITY[3:]),
    "hinge": (("",), ("",)),
    "slide": (("",), ("",)),
}


@dataclass(frozen=True, slots=True)
class _Joint:
    name: str
    type: str
    tree: int


def name_mujoco_state(model: object, path: str, width: int) -> tuple[str, ...]:
    """Names of a flattened MuJoCo state: the time, the positions of all joints in the model's order, the velocities.

    Joints of bodies that no actuator moves are called `object_NAME`, and a robot that floats has a `base_NAME`.

    Args:
        model: The attribute `model_file` of a demonstration: the model as MJCF, or the name of its file in the
            folder `models` beside the HDF5 file.
        path: Path of the HDF5 file.
        width: Dimensions of the state.

    Returns:
        One name for each dimension, or () where there is no such model or it has another number of them.
    """
    root = _read_model(model, path)
    joints = [] if root is None else list(_joints_in_order(root))
    moved = set() if root is None else _moved_trees(root, joints)
    labels = [(_joint_label(joint, moved), _AXES[joint.type]) for joint in joints]
    positions = [_axis_name(label, axis) for label, (axes, _) in labels for axis in axes]
    velocities = [_axis_name(label, axis or "vel") for label, (_, axes) in labels for axis in axes]
    names = ("time", *positions, *velocities)
    return names if len(names) == width == len(set(names)) else ()


def _read_model(model: object, path: str) -> Element | None:
    """The root of the model; None for one that is missing or cannot be read: names are a convenience."""
    if not isinstance(model, str):
        return None
    try:
        if model.lstrip().startswith("<"):
            return parse_xml(model, path)
        return read_xml(str(PurePosixPath(path).parent / "models" / check_relative_path(model, path)))
    except (SourceError, OSError):
        return None


def _joints_in_order(root: Element) -> Iterator[_Joint]:
    """The joints in the order of the state: depth first, each body's own before those of its children."""
    world = root.find("worldbody")
    for number, tree in enumerate(world.findall("body") if world is not None else ()):
        for element in _in_order(tree):
            joint_type = "free" if element.tag == "freejoint" else element.get("type", "hinge")
            if joint_type in _AXES:
                yield _Joint(element.get("name", ""), joint_type, number)


def _in_order(body: Element) -> Iterator[Element]:
    for element in body:
        if element.tag in ("joint", "freejoint"):
            yield element
    for child in body.findall("body"):
        yield from _in_order(child)


def _moved_trees(root: Element, joints: list[_Joint]) -> set[int]:
    """Numbers of the trees of bodies with a joint that an actuator moves; all trees where there is no actuator."""
    actuated = {element.get("joint", "") for part in root.findall("actuator") for element in part}
    trees = {joint.tree for joint in joints if joint.name and joint.name in actuated}
    return trees or {joint.tree for joint in joints}


def _joint_label(joint: _Joint, moved: set[int]) -> str:
    if joint.tree not in moved:
        return f"object_{joint.name}"
    return f"base_{joint.name}" if joint.type == "free" else joint.name


def _axis_name(label: str, axis: str) -> str:
    return f"{label}_{axis}" if axis else label


# Arrays that make up the state, in this order; all arrays of one robot come before those of the next.
PROPRIOCEPTION = (
    "joint_pos", "joint_pos_cos", "joint_pos_sin", "joint_position", "joint_positions", "joint_states",
    "joint_vel", "joint_velocity", "cartesian_position", "eef_pos", "ee_pos", "eef_quat", "ee_ori",
    "eef_vel_lin", "eef_vel_ang", "gripper_qpos", "gripper_states", "gripper_pos", "gripper_position",
    "gripper_qvel",
)  # fmt: skip
_PROPRIOCEPTION_LABEL = re.compile(
    r"obs/(?:.*/)?(?P<robot>(?:robot\d+_)?)(?:(?:left|right)_)?(?P<name>" + "|".join(PROPRIOCEPTION) + ")"
)
_SPLITS = ("train", "valid", "validation", "val", "test")
LIBERO_RATE_HZ = 20.0


@dataclass(frozen=True, slots=True)
class DemoFileAttributes:
    """What the attributes of the group `data` say about all its demonstrations.

    Attributes:
        rate_hz: Steps per second, or None.
        rate_source: Where the rate comes from.
        robot: Names of the robots joined by "+", or "".
        instructions: Instructions as written.
        metadata: Other attributes, small JSON.
        pixel_order: Colours and turn of the stored pictures, as `MediaRef.channels` has them.
        turn_remark: What is said of the turn of the pictures, for an episode that has some; "" where nothing is.
        warnings: Warnings about the attributes.
    """

    rate_hz: float | None
    rate_source: RateSource
    robot: str
    instructions: tuple[str, ...]
    metadata: Mapping[str, Json]
    pixel_order: str
    turn_remark: str
    warnings: tuple[str, ...]


def read_demo_file_attributes(data: Any) -> DemoFileAttributes:
    """Read the attributes of the group `data`. Raises SourceError when the file is damaged."""
    attributes = read_attributes(data)
    documents = {
        name: parse_json_object(attributes.get(name)) for name in ("env_args", "env_info", "problem_info")
    }
    warnings = [
        f"{name} is no JSON object"
        for name, parsed in documents.items()
        if name in attributes and parsed is None
    ]
    env_args = documents["env_args"] or documents["env_info"] or {}
    env_kwargs = env_args.get("env_kwargs")
    merged = {**env_args, **(env_kwargs if isinstance(env_kwargs, dict) else {})}
    metadata = {name: value for name, value in attributes.items() if name not in documents}
    metadata["env_name"] = env_args.get("env_name")
    own_hz = _rate_hz(merged)
    pixel_order, turn_remark = _picture_turn(attributes, env_args)
    return DemoFileAttributes(
        rate_hz=own_hz or (LIBERO_RATE_HZ if "problem_info" in attributes else None),
        rate_source="source" if own_hz else "format",
        robot=_robot_names(merged.get("robots")),
        instructions=(_problem_instruction(documents["problem_info"] or {}),),
        metadata=keep_small_values(
            {name: value for name, value in metadata.items() if name not in ("total", "num_demos")}
        ),
        pixel_order=pixel_order,
        turn_remark=turn_remark,
        warnings=tuple(warnings),
    )


# robosuite's own flag, which LIBERO stores: "opengl" pictures begin with their bottom row, "opencv" ones with the top.
_CONVENTION = "macros_image_convention"


def _picture_turn(attributes: Mapping[str, Any], env_args: Mapping[str, Any]) -> tuple[str, str]:
    """Colours and turn of the stored pictures, and what is said of it.

    LIBERO stores what robosuite renders. robomimic turns its pictures before it stores them, and writes `env_args`
    without a flag.
    """
    convention = attributes.get(_CONVENTION)
    if convention == "opengl":
        return "rgb vertical flip", PICTURES_TURNED
    is_libero = not {"problem_info", "bddl_file_name"}.isdisjoint(attributes) or "bddl_file" in env_args
    is_known = convention == "opencv" or (env_args and not is_libero and convention is None)
    return "rgb", "" if is_known else PICTURES_UNKNOWN


def _problem_instruction(problem_info: Mapping[str, Any]) -> str:
    language = problem_info.get("language_instruction", "")
    # Some LIBERO files store the letters as a list; LIBERO's own loader joins them.
    text = "".join(map(str, language)) if isinstance(language, list) else str(language)
    return text.strip().strip('"')


def _rate_hz(env_args: Mapping[str, Any]) -> float | None:
    """Steps per second, from robosuite's control_freq or from Isaac Lab's physics step and decimation."""
    simulation = env_args.get("sim_args")
    if isinstance(simulation, dict) and _is_positive(simulation.get("dt")):
        decimation = simulation.get("decimation")
        return 1.0 / (simulation["dt"] * decimation) if _is_positive(decimation) else None
    frequency = env_args.get("control_freq")
    return float(frequency) if _is_positive(frequency) else None  # type: ignore[arg-type]


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 1e-6 < value < 1e6


def _robot_names(robots: object) -> str:
    names = robots if isinstance(robots, list) else [robots]
    return "+".join(name for name in names if isinstance(name, str))


def list_demos_with_masks(file: Any) -> dict[str, tuple[str, ...]]:
    """Every demonstration of a file, in natural order, with the masks that list it. Raises SourceError."""
    import h5py  # type: ignore[import-untyped]

    data = open_hdf5_object(file, "data")
    # A broken link has the class None: a demonstration that is missing.
    names = [name for name, cls in read_child_classes(data).items() if cls in (h5py.Group, None)]
    masks: dict[str, list[str]] = {name: [] for name in sorted(names, key=natural_key)}
    for mask, members in read_filter_keys(file).items():
        for name in members:
            if name in masks:
                masks[name].append(mask)
    return {name: tuple(mask_names) for name, mask_names in masks.items()}


def read_filter_keys(file: Any) -> dict[str, list[str]]:
    """The names of demonstrations in each dataset of the group `mask`. Raises SourceError."""
    import h5py

    group = open_hdf5_object(file, "mask")
    if not isinstance(group, h5py.Group):
        return {}
    values = {
        mask: read_small(group[mask])
        for mask, cls in read_child_classes(group).items()
        if cls is h5py.Dataset
    }
    return {
        mask: [name for name in names if isinstance(name, str)]
        for mask, names in values.items()
        if isinstance(names, list)
    }


def choose_split_of_masks(masks: Sequence[str]) -> str:
    """The split among the masks of a demonstration, or ""; robomimic also masks by operator and by size."""
    return next((split for split in _SPLITS if split in masks), "")


def check_demo_file(file: Any) -> list[str]:
    """Warnings about a file and its masks. Raises SourceError."""
    demo_masks = list_demos_with_masks(file)
    with translate_hdf5_errors(f"{file.filename} data"):
        num_demos = to_plain_value(file["data"].attrs.get("num_demos"))
    warnings = []
    if isinstance(num_demos, int) and num_demos != len(demo_masks):
        warnings.append("num_demos is not the number of demonstrations in the file")
    if any(name not in demo_masks for members in read_filter_keys(file).values() for name in members):
        warnings.append("a mask names demonstrations that are not in the file")
    if any(len(set(_SPLITS) & set(masks)) > 1 for masks in demo_masks.values()):
        warnings.append("a demonstration is in several splits; the first is used")
    return warnings


def load_robomimic_demo(entry: HDF5Entry) -> Record:
    """Read one demonstration. Raises SourceError when it is damaged or has no action."""
    where = f"{entry.path} {entry.group}"
    with open_hdf5(entry.path) as file:
        data, demo = open_hdf5_object(file, "data"), open_hdf5_object(file, entry.group)
        if demo is None:
            raise SourceError("HDF5 link leads nowhere", where)
        datasets, attributes, environment = (
            find_datasets(demo),
            read_attributes(demo),
            read_demo_file_attributes(data),
        )
        steps = count_steps(datasets, ["actions"], where)
        clock_hz = None if environment.rate_hz else simulator_rate_hz(datasets, attributes, entry.path)
        rate_hz, rate_source = resolve_rate(
            entry.rate_hz, environment.rate_hz or clock_hz, "source" if clock_hz else environment.rate_source
        )
        reader = HDF5EpisodeReader(entry.path, entry.group, steps, rate_hz, environment.pixel_order)
        reader.warnings += environment.warnings
        if attributes.get("num_samples", steps) != steps:
            reader.warnings.append("num_samples is not the number of actions")
        initial = _initial_state(datasets, reader)
        success = attributes.get("success")
        metadata = {**environment.metadata, **keep_small_values(_other_attributes(attributes)), **initial}
        details = EpisodeDetails(
            rate_source=rate_source,
            robot=environment.robot,
            instructions=(*_demo_instructions(attributes), *environment.instructions),
            success=success if isinstance(success, bool) else None,
            success_source="success" if isinstance(success, bool) else "",
            metadata=metadata,
        )
        roles = _array_roles(datasets, reader)
        names = _simulator_names(roles.state, datasets, attributes.get("model_file"), entry.path)
        record = make_record(entry, reader, datasets, replace(roles, state_names=names), details)
    varying = {array.key for array in record.arrays if names and array.use == "state"}
    arrays = (replace(array, names_vary=array.key in varying) for array in record.arrays)
    remark = (environment.turn_remark,) if environment.turn_remark and record.episode.cameras else ()
    return replace(record, arrays=tuple(arrays), warnings=(*record.warnings, *remark))


# Steps are even where no period differs by more than this share.
_UNEVEN_PERIOD = 0.01


def simulator_rate_hz(datasets: Mapping[str, Any], attributes: Mapping[str, Any], path: str) -> float | None:
    """Steps per second by the time that MuJoCo keeps in the state of a demonstration; None where it is uneven.

    Args:
        datasets: Those of the demonstration.
        attributes: Its attributes, of which one names the model.
        path: The file, for a model beside it.
    """
    import numpy as np

    state = datasets.get("states")
    if state is None or state.ndim != 2 or len(state) < 3:
        return None
    if name_mujoco_state(attributes.get("model_file"), path, state.shape[1])[:1] != ("time",):
        return None
    periods = np.diff(state[:, 0])
    usual = float(np.median(periods))
    is_even = usual > 0 and bool((np.abs(periods - usual) <= _UNEVEN_PERIOD * usual).all())
    return round(1 / usual, 3) if is_even else None


def _simulator_names(
    state: Sequence[str], datasets: Mapping[str, Any], model: object, path: str
) -> tuple[str, ...]:
    """Names of the state where it is that of the simulator, by its model; () otherwise."""
    if list(state) != ["states"] or datasets["states"].ndim != 2:
        return ()
    return name_mujoco_state(model, path, datasets["states"].shape[1])


def _array_roles(datasets: Mapping[str, Any], reader: HDF5EpisodeReader) -> ArrayRoles:
    """Assign roles to the arrays of a demonstration."""
    next_obs = [label for label in datasets if label.startswith("next_obs")]
    if next_obs:
        reader.warnings.append("next_obs is not stored (it is obs one step on)")
    if not any(label.startswith("obs") for label in datasets):
        reader.warnings.append("episode has no obs, only what the simulator kept")
    initial = [label for label in datasets if label.startswith("initial_state")]
    return ArrayRoles(
        action=("actions",),
        state=choose_state_arrays(datasets),
        reward="rewards",
        left_out=frozenset({*next_obs, *initial}),
    )


def choose_state_arrays(labels: Iterable[str]) -> list[str]:
    """The arrays that make up the state, in the order of PROPRIOCEPTION.

    Without any of them the state is `obs` where that is one array, else the simulator's `states`, else the joint
    arrays in Isaac Lab's tree of states.
    """
    labels = list(labels)
    matches = [(match, label) for label in labels if (match := _PROPRIOCEPTION_LABEL.fullmatch(label))]
    matches.sort(
        key=lambda pair: (natural_key(pair[0]["robot"]), PROPRIOCEPTION.index(pair[0]["name"]), pair[1])
    )
    if matches:
        return [label for _, label in matches]
    for label in ("obs", "states"):
        if label in labels:
            return [label]
    return [label for label in labels if re.fullmatch(r"states/.*/joint_(position|velocity)", label)]


def _initial_state(datasets: Mapping[str, Any], reader: HDF5EpisodeReader) -> dict[str, Json]:
    """Isaac Lab's state before the first step, as metadata where it is small."""
    metadata: dict[str, Json] = {}
    for label, values in datasets.items():
        if label.startswith("initial_state/"):
            is_small = values.shape is not None and values.size <= 64
            note = keep_small_values({label: read_small(values)}) if is_small else {}
            metadata.update(note)
            if not note:
                reader.warnings.append(f"{label} is not stored (too long for the metadata)")
    return metadata


def _demo_instructions(attributes: Mapping[str, Any]) -> list[str]:
    """The instruction that newer robomimic files store with each demonstration."""
    language = (parse_json_object(attributes.get("ep_meta")) or {}).get("lang")
    return [language] if isinstance(language, str) else []


def _other_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in attributes.items() if name not in ("num_samples", "success", "ep_meta")
    }
