"""Files that hold many demonstrations under data/demo_i: robomimic, LIBERO, Isaac Lab and raw robosuite."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ares.episode import Json, RateSource, Record
from ares.media.hdf5 import opened, reading
from ingest.hdf5_record import About, Entry, Layout, count_steps, make_record, rate
from ingest.hdf5_values import Reader, arrays, attributes, children, document, natural, notes, plain

# What the state is made of, in this order, of every robot before the next one.
PROPRIOCEPTION = (
    "joint_pos", "joint_pos_cos", "joint_pos_sin", "joint_position", "joint_positions", "joint_states",
    "joint_vel", "joint_velocity", "cartesian_position", "eef_pos", "ee_pos", "eef_quat", "ee_ori",
    "eef_vel_lin", "eef_vel_ang", "gripper_qpos", "gripper_states", "gripper_pos", "gripper_position",
    "gripper_qvel",
)  # fmt: skip
_NAMED = re.compile(
    r"obs/(?:.*/)?(?P<robot>(?:robot\d+_)?)(?:(?:left|right)_)?(?P<name>" + "|".join(PROPRIOCEPTION) + ")"
)
_SPLITS = ("train", "valid", "validation", "val", "test")
LIBERO_RATE_HZ = 20.0


@dataclass(frozen=True, slots=True)
class Environment:
    """What the attributes of the group `data` say of all its demonstrations.

    Attributes:
        rate_hz: Steps per second, or None.
        rate_source: Who says so.
        robot: Which robot, or "".
        instructions: As written.
        metadata: What else it says, small JSON.
        warnings: What is odd about it.
    """

    rate_hz: float | None
    rate_source: RateSource
    robot: str
    instructions: tuple[str, ...]
    metadata: Mapping[str, Json]
    warnings: tuple[str, ...]


def environment(data: Any) -> Environment:
    """Read the attributes of the group `data`. Raises SourceError when the file is damaged."""
    said = attributes(data)
    documents = {name: document(said.get(name)) for name in ("env_args", "env_info", "problem_info")}
    wrong = [f"{name} is no JSON object" for name, made in documents.items() if name in said and made is None]
    about = documents["env_args"] or documents["env_info"] or {}
    inner = about.get("env_kwargs")
    merged = {**about, **(inner if isinstance(inner, dict) else {})}
    problem = documents["problem_info"] or {}
    language = problem.get("language_instruction", "")
    # LIBERO's own loader joins it: some files keep the letters as a list.
    text = "".join(map(str, language)) if isinstance(language, list) else str(language)
    metadata = {name: value for name, value in said.items() if name not in documents}
    metadata["env_name"] = about.get("env_name")
    own_hz = _rate_hz(merged)
    return Environment(
        rate_hz=own_hz or (LIBERO_RATE_HZ if "problem_info" in said else None),
        rate_source="source" if own_hz else "spec",
        robot=_robot(merged.get("robots")),
        instructions=(text.strip().strip('"'),),
        metadata=notes(
            {name: value for name, value in metadata.items() if name not in ("total", "num_demos")}
        ),
        warnings=tuple(wrong),
    )


def _rate_hz(about: Mapping[str, Any]) -> float | None:
    """Steps per second, from robosuite's control_freq or from Isaac Lab's physics step and decimation."""
    simulation = about.get("sim_args")
    if isinstance(simulation, dict) and _positive(simulation.get("dt")):
        every = simulation.get("decimation")
        return 1.0 / (simulation["dt"] * every) if _positive(every) else None
    frequency = about.get("control_freq")
    return float(frequency) if _positive(frequency) else None  # type: ignore[arg-type]


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 1e-6 < value < 1e6


def _robot(robots: object) -> str:
    named = robots if isinstance(robots, list) else [robots]
    return "+".join(name for name in named if isinstance(name, str))


def names_and_masks(file: Any) -> dict[str, tuple[str, ...]]:
    """Every demonstration of a file, sorted by number, with the masks that name it. Raises SourceError."""
    import h5py  # type: ignore[import-untyped]

    with reading(f"{file.filename} data"):
        data = file["data"]
    # A link that leads nowhere has no class: a demonstration that is missing.
    names = [name for name, kind in children(data).items() if kind in (h5py.Group, None)]
    masks: dict[str, list[str]] = {name: [] for name in sorted(names, key=natural)}
    for mask, members in all_masks(file).items():
        for name in members:
            if name in masks:
                masks[name].append(mask)
    return {name: tuple(named) for name, named in masks.items()}


def all_masks(file: Any) -> dict[str, list[str]]:
    """The names of demonstrations in each dataset of the group `mask`. Raises SourceError."""
    import h5py

    with reading(f"{file.filename} mask"):
        group = file.get("mask")
        if not isinstance(group, h5py.Group):
            return {}
        read = {mask: plain(one[()]) for mask, one in group.items() if isinstance(one, h5py.Dataset)}
    return {
        mask: [name for name in names if isinstance(name, str)]
        for mask, names in read.items()
        if isinstance(names, list)
    }


def split_of(masks: Sequence[str]) -> str:
    """The split among the masks of a demonstration, or ""; robomimic also masks by operator and by size."""
    return next((split for split in _SPLITS if split in masks), "")


def odd(file: Any) -> list[str]:
    """What is odd about a file as a whole. Raises SourceError."""
    named = names_and_masks(file)
    with reading(f"{file.filename} data"):
        said = plain(file["data"].attrs.get("num_demos"))
        libero = "problem_info" in file["data"].attrs
    found = []
    if isinstance(said, int) and said != len(named):
        found.append("num_demos is not the number of demonstrations in the file")
    if any(name not in named for members in all_masks(file).values() for name in members):
        found.append("a mask names demonstrations that are not in the file")
    if any(len(set(_SPLITS) & set(masks)) > 1 for masks in named.values()):
        found.append("a demonstration is in several splits; the first is taken")
    if libero:
        found.append("LIBERO stores its pictures upside down; they are kept as they are")
    return found


def load_demo(entry: Entry) -> Record:
    """Read one demonstration. Raises SourceError when it is broken or has no action."""
    where = f"{entry.path} {entry.group}"
    with opened(entry.path) as file:
        with reading(where):
            data, demo = file["data"], file[entry.group]
        named, said, about = arrays(demo), attributes(demo), environment(data)
        steps = count_steps(named, ["actions"], where)
        rate_hz, rate_source = rate(entry.rate_hz, about.rate_hz, about.rate_source)
        reader = Reader(entry.path, entry.group, steps, rate_hz)
        reader.warnings += about.warnings
        if said.get("num_samples", steps) != steps:
            reader.warnings.append("num_samples is not the number of actions")
        initial = _initial_state(named, reader)
        success = said.get("success")
        metadata = {**about.metadata, **notes(_rest(said)), **initial}
        parts = About(
            rate_source=rate_source,
            robot=about.robot,
            instructions=(*_language(said), *about.instructions),
            success=success if isinstance(success, bool) else None,
            success_source="success" if isinstance(success, bool) else "",
            metadata=metadata,
        )
        return make_record(entry, reader, named, _layout(named, reader), parts)


def _layout(named: Mapping[str, Any], reader: Reader) -> Layout:
    """What the arrays of a demonstration are."""
    next_obs = [label for label in named if label.startswith("next_obs")]
    if next_obs:
        reader.warnings.append("next_obs is not stored (it is obs one step on)")
    if not any(label.startswith("obs") for label in named):
        reader.warnings.append("episode has no obs, only what the simulator kept")
    initial = [label for label in named if label.startswith("initial_state")]
    return Layout(
        action=("actions",),
        state=state_labels(named),
        reward="rewards",
        left_out=frozenset({*next_obs, *initial}),
    )


def state_labels(labels: Iterable[str]) -> list[str]:
    """The arrays that make up the state, in the order of PROPRIOCEPTION.

    Without any of them it is `obs` where that is one array, else the simulator's `states`, else the joints in
    Isaac Lab's tree of states.
    """
    labels = list(labels)
    matches = [(match, label) for label in labels if (match := _NAMED.fullmatch(label))]
    matches.sort(key=lambda pair: (natural(pair[0]["robot"]), PROPRIOCEPTION.index(pair[0]["name"]), pair[1]))
    if matches:
        return [label for _, label in matches]
    for whole in ("obs", "states"):
        if whole in labels:
            return [whole]
    return [label for label in labels if re.fullmatch(r"states/.*/joint_(position|velocity)", label)]


def _initial_state(named: Mapping[str, Any], reader: Reader) -> dict[str, Json]:
    """Isaac Lab's state before the first step, as metadata where it is small."""
    found: dict[str, Json] = {}
    for label, values in named.items():
        if label.startswith("initial_state/"):
            with reading(f"{reader.path} {label}"):
                small = values.size <= 64
                made = notes({label: plain(values[()])}) if small else {}
            found.update(made)
            if not made:
                reader.warnings.append(f"{label} is not stored (too long for the metadata)")
    return found


def _language(said: Mapping[str, Any]) -> list[str]:
    """The instruction that newer robomimic files keep with each demonstration."""
    language = (document(said.get("ep_meta")) or {}).get("lang")
    return [language] if isinstance(language, str) else []


def _rest(said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name not in ("num_samples", "success", "ep_meta")}
