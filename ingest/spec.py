"""The spec of a dataset: what its files do not state, down to the meaning of its signals."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ares.clock import TimeUnit
from ares.console import count_of
from ares.contract import (
    PROPERTIES,
    VALUES,
    PropertyName,
    StatedValues,
    is_allowed_property_value,
    is_dimension_group_name,
)
from ares.episode import Channels, Role, Turn
from ares.errors import SourceError
from ares.input import parse_yaml
from ares.registry import did_you_mean
from ares.signals import classify_by_name

_FOLDER = Path(__file__).resolve().parent / "specs"


def _read_degrees(value: object) -> object:
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    return str(value) if value else "none"


_Degrees = BeforeValidator(_read_degrees)


class SliceSpec(BaseModel):
    """A slice of the numbers of one feature, and what they mean.

    Attributes:
        key: The feature, as the record names it: "steps/observation/state".
        start: First number.
        stop: End of the slice, exclusive; None for the end of the feature.
        names: One for each number, or one that is numbered ("joint": joint_0, joint_1...).
        unit: "m", "rad", "m/s"; "" where there is none or it is unknown.
        convention: "euler xyz", "quaternion xyzw", "1 is open"; "" where it is unknown.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    start: int = Field(default=0, ge=0)
    stop: int | None = None
    names: tuple[str, ...] = Field(min_length=1)
    unit: str = ""
    convention: str = ""

    @model_validator(mode="after")
    def _fits(self) -> SliceSpec:
        if self.stop is not None:
            width = self.stop - self.start
            if width < 1:
                raise ValueError(f"stop {self.stop} is not after start {self.start}")
            if len(self.names) not in (1, width):
                raise ValueError(f"{count_of(len(self.names), 'name')} for {count_of(width, 'number')}")
        return self


class CameraSpec(BaseModel):
    """What a camera is.

    Attributes:
        key: Its array, feature, topic or name in the source; "" where it is the camera's name.
        role: Viewpoint; None where the name implies it.
        channels: Stored order of the colours; None for what the reader knows.
        turn: What makes its pictures stand upright: degrees clockwise (90, 180, 270), "vertical flip", "horizontal
            flip", or "none" where they do; None for what the reader knows.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str = ""
    role: Role | None = None
    channels: Channels | None = None
    turn: Annotated[Turn | Literal["none"] | None, _Degrees] = None

    def find_turn(self, known: Turn | Literal[""] = "") -> Turn | Literal[""]:
        """What makes the pictures stand upright, where the reader knows `known`; "" where they do."""
        turn = self.turn or known
        return "" if turn == "none" else turn


class TextSpec(BaseModel):
    """An instruction that no field of the source holds.

    Attributes:
        text: The instruction of every episode.
        path: Pattern of the end of an episode's path with `{text}`, such as "{text}/episode_*.npz". `*` and `{text}`
            match any text without "/"; underscores of the text become spaces.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str = ""
    path: str = ""

    @model_validator(mode="after")
    def _check_choice(self) -> TextSpec:
        if bool(self.text) == bool(self.path):
            raise ValueError("give either text or path")
        if self.path and self.path.count("{text}") != 1:
            raise ValueError(f"path {self.path!r} does not name {{text}} once")
        return self


class ContractSpec(BaseModel):
    """What the dimensions of one kind in a signal mean, as docs/contract.md has it.

    Attributes:
        mode: "absolute", "delta" or "velocity".
        unit: "rad", "deg", "percent", "normalised", "ticks", "m", "cm", "mm", "fraction", "signed" or "byte".
        rotation: "euler", "axis-angle", "quaternion xyzw", "quaternion wxyz" or "6d".
        gripper: "high is open" or "high is closed".
        role: "leader" or "follower".
        frame: "as the state", "tool", "base" or "world".
        same_as: Dataset in which the dimensions mean the same, as a person signs it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: str = ""
    unit: str = ""
    rotation: str = ""
    gripper: str = ""
    role: str = ""
    frame: str = ""
    same_as: str = ""

    @model_validator(mode="after")
    def _check_values(self) -> ContractSpec:
        for name, value in self.values().items():
            if not is_allowed_property_value(name, value):
                raise ValueError(f"{name} {value!r} is none of {', '.join(VALUES[name])}")
        return self

    def values(self) -> dict[PropertyName, str]:
        """The values that are stated."""
        return {name: value for name in PROPERTIES if (value := getattr(self, name))}


class BesideSpec(BaseModel):
    """A JSON object beside the file of an episode.

    Attributes:
        path: Where it is from the folder of the file on: "{stem}.json", "../instructions/{stem}.json"; with "*", all
            that match are one object, without the fields in which they contradict each other.
        entries: Field that lists the episodes of the file; that of this episode is the fact "entry".
        number: Field of an entry that is the number of the episode, as its group ends with.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(min_length=1)
    entries: str = ""
    number: str = "episode_id"

    @property
    def shown_path(self) -> str:
        """The path as messages have it, alike for all files."""
        return self.path.replace("{stem}", "*")


class RateSpec(BaseModel):
    """Steps per second by numbers of the source.

    Attributes:
        per: What is divided.
        divided_by: Facts whose product divides it, such as a step of physics and how many of them make a step.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    per: float = 1.0
    divided_by: tuple[str, ...] = Field(min_length=1)


class VideoSpec(BaseModel):
    """A video beside the file of an episode.

    Attributes:
        path: Where it is from the folder of the file on; "{stem}" is the name of the file, "{FACT}" a fact. With "*"
            each video that no other one of the layout is.
        role: Viewpoint.
        without: Pattern of names that are not taken.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(min_length=1)
    role: Role = "other"
    without: str = ""


Condition = int | str | bool
StateOrAction = Literal["state", "action"]


class EpisodeParts(BaseModel):
    """What a layout says of all its episodes, or a variant of some.

    Attributes:
        rate_hz: Steps per second, where no fact states them.
        robot: The robot, where no fact names it.
        channels: Stored order of the colours of the pictures in the file; None for "rgb".
        turn: What makes these pictures stand upright, as in `CameraSpec`; "unknown" asks the user.
        language: Choices of facts that are instructions; all of the first choice of which one is there.
        rate: Facts that are the steps per second; the first that is a number is used.
        names: Names of the numbers of the state and the action, used where they are as many.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rate_hz: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    robot: str = ""
    channels: Channels | None = None
    turn: Annotated[Turn | Literal["none", "unknown"] | None, _Degrees] = None
    language: tuple[tuple[str, ...], ...] = ()
    rate: tuple[str | RateSpec, ...] = ()
    names: dict[StateOrAction, tuple[str, ...]] = Field(default_factory=dict)


class VariantSpec(EpisodeParts):
    """What holds of the episodes that meet some conditions, in place of what the layout says of all.

    Attributes:
        when: All of: an array (with wildcards) that has so many numbers a step, a fact with this text, or an array or a
            fact that is there (true) or not (false).
    """

    when: dict[str, Condition] = Field(min_length=1)


class LayoutSpec(EpisodeParts):
    """Where the files of a family of datasets keep what an episode consists of.

    Arrays are named by their path below the group of the episode, with the wildcards of `fnmatch`, or by a regular
    expression after "re:". A *fact* is one of these:

    - "attributes.seed", or "seed": an attribute of the episode.
    - "parent.env_args": an attribute of the group above the episodes.
    - "NAME.field", "entry.field": a field of a JSON object beside the file.
    - "path.task": a named group of a pattern of the path.
    - "instructions": a small array of texts.

    A Zarr store has `ends`, `arrays`, `time`, `action`, `state` and `reward` alone; an HDF5 file has the others.

    Attributes:
        match: Sets of names of groups at the top of a file, of which one is there as a whole; that of the layout with
            most names decides.
        folder: Names of a folder that is an episode also where its file is lost: "recordings", "metadata_*.json".
        file: The name of that file.
        episodes: Pattern of the groups that are an episode each: "traj_{number}", "data/*"; "" where the file is one.
        masks: Group of lists of episodes, of which the one that is named like a split gives their split; or "".
        ends: Array with the step at which each episode of a file ends, or "" (Zarr).
        arrays: Group that holds the arrays of all these episodes.
        time: Array of the time of each step, or "".
        action: Choices of the arrays that are the action, side by side; the first that is complete is used.
        needs_action: Whether an episode without an action is broken.
        state: The same for the state.
        robots: Regular expression of the arrays of the state with the groups "robot" and "name"; those of one robot
            stand before those of the next. It decides before `state`.
        robot_arrays: These names, in order.
        reward: Array of the reward, or "".
        simulator_state: Array that is the flattened state of MuJoCo, whose model names its numbers; or "".
        constants: Arrays that hold for the whole episode and become metadata.
        left_out: Arrays that are not stored, with the warning that says so; "" where the values are stored elsewhere.
        expected: Arrays of which some should be there, with the warning where none is.
        image_names: Last parts of arrays that every camera has; the camera is named after the folder.
        final_observation: Whether the observations include that after the last action.
        beside: JSON objects beside the file, by a name for their facts.
        videos: Videos beside the file, by name of the camera.
        files: Other files that belong to an episode or its folder: patterns from the folder of the file on, with use.
        json_fields: Attributes that hold a JSON object.
        path: Regular expressions that find parts of the path of the file by the names of their groups; the groups
            "split" and "outcome" are those of the episode.
        outcomes: Outcome by the text of `path.outcome`.
        robot_facts: Facts that name the robot, or several of them.
        success: Facts that state the outcome, or arrays of which the last value does; the first decides.
        num_steps: Facts that should be the number of steps.
        metadata: Facts that become metadata; an object gives its fields.
        not_metadata: Facts that do not.
        variants: What holds of some of the episodes; the first that says a thing decides.
    """

    match: tuple[tuple[str, ...], ...] = ()
    folder: tuple[str, ...] = ()
    file: str = ""
    episodes: str = ""
    masks: str = ""
    ends: str = ""
    arrays: str = ""
    time: str = ""
    action: tuple[tuple[str, ...], ...] = ()
    needs_action: bool = True
    state: tuple[tuple[str, ...], ...] = ()
    robots: str = ""
    robot_arrays: tuple[str, ...] = ()
    reward: str = ""
    simulator_state: str = ""
    constants: tuple[str, ...] = ()
    left_out: dict[str, str] = Field(default_factory=dict)
    expected: dict[str, str] = Field(default_factory=dict)
    image_names: tuple[str, ...] = ()
    final_observation: bool = False
    beside: dict[str, BesideSpec] = Field(default_factory=dict)
    videos: dict[str, VideoSpec] = Field(default_factory=dict)
    files: dict[str, Literal["data", "metadata"]] = Field(default_factory=dict)
    json_fields: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    outcomes: dict[str, bool] = Field(default_factory=dict)
    robot_facts: tuple[str, ...] = ()
    success: tuple[str, ...] = ()
    num_steps: tuple[str, ...] = ()
    metadata: tuple[str, ...] = ()
    not_metadata: tuple[str, ...] = ()
    variants: tuple[VariantSpec, ...] = ()

    @model_validator(mode="after")
    def _check_expressions(self) -> LayoutSpec:
        for expression in (*self.path, self.robots, *_list_expressions(self.model_dump())):
            try:
                re.compile(expression)
            except (re.error, OverflowError) as error:
                raise ValueError(f"{expression!r} is no regular expression: {error}") from None
        if self.robots and not {"robot", "name"} <= {*re.compile(self.robots).groupindex}:
            raise ValueError(
                f"robots {self.robots!r} does not name the groups (?P<robot>...) and (?P<name>...)"
            )
        return self

    @model_validator(mode="after")
    def _check_format(self) -> LayoutSpec:
        others = sorted(self.model_fields_set - {"ends", "arrays", "time", "action", "state", "reward"})
        if bool(self.folder) != bool(self.file):
            raise ValueError("give folder and file together")
        if ((self.arrays or self.time) and not self.ends) or (self.ends and not self.arrays):
            raise ValueError("a layout of Zarr stores needs ends and arrays")
        if self.ends and others:
            raise ValueError(
                f"a layout with ends is of Zarr stores, and {', '.join(others)} is for HDF5 files"
            )
        return self


def _list_expressions(value: object) -> Iterator[str]:
    """What stands behind "re:" in the texts of a document."""
    if isinstance(value, str) and value.startswith("re:"):
        yield value.removeprefix("re:")
    for part in (
        [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, tuple) else ()
    ):
        yield from _list_expressions(part)


class DatasetSpec(BaseModel):
    """What is known about one dataset, of any format. It decides over what a reader would guess.

    A key is the name of a feature (RLDS), column (LeRobot), dataset (HDF5), array (Zarr, npz) or topic (MCAP, bags). A
    field of the episode's metadata is a key too, in the fields for texts and the outcome; a dot leads into an object.

    Attributes:
        rate_hz: Steps per second; decides over the rate of the source.
        robot: The robot, for episodes that do not name theirs.
        cameras: Role of a camera by its name, where the name does not imply it; or its `CameraSpec`.
        bgr: Cameras whose red and blue are swapped, with the height and width of the release that has the error
            (copies of another size are correct), or null for any size.
        state: Slices that make up the state, in order; without any, the state is chosen by feature names.
        action: The same for the action.
        reward: Key of the reward, one number per step; "" for the reader's choice.
        timestamps: Key of the time of each step (RLDS, HDF5, Zarr, npz, CSV, AgiBot), or topic whose messages
            are the steps (MCAP, bags). The other formats bring a clock.
        time_unit: Unit of these times; None where their name, size or rate tells it.
        episode_ends: Key of the step at which each episode of a file ends, in such arrays.
        episode_axis: Axis along which the episodes of a file lie in each of its arrays (npz), 0 for the first; the
            next one is that of the steps.
        left_out: Keys that are not stored.
        language: Instructions, the main one first; others are found by name and come after them.
        success: Key that holds the outcome, or "".
        outcome: Field that says success, failure, partial or aborted, or "".
        outcome_share: Field with the share of the task that was done, from 0 to 1, or "".
        intervention: Array that is 1 at the steps at which a person acts in place of the policy, or "".
        split: Field that holds the part of the dataset that an episode is in, or "".
        subtasks: Field that holds the parts of an episode, or "".
        spans: File of spans of episodes, relative to that of the spec; or "".
        outcome_in_path: Whether a word such as "success" or "failure" in the episode's path is its outcome.
        contract: What signals mean, by signal and kind of dimension, such as "action.gripper".
        layout: Where the files keep what an episode consists of (HDF5, Zarr); None for a layout that ARES knows.
        licence: Licence of the dataset, such as "cc-by-4.0"; it decides over what files say.
        consent: What the people in it have agreed to, in a sentence; it decides over what files say.
        faults: Known faults of the dataset; each ingestion warns of them.
        reference: Where this information comes from.
        verified: What of it was confirmed in actual records, and in how many; "" for nothing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rate_hz: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    robot: str = ""
    cameras: dict[str, Role | CameraSpec] = Field(default_factory=dict)
    bgr: dict[str, tuple[int, int] | None] = Field(default_factory=dict)
    state: tuple[SliceSpec, ...] = ()
    action: tuple[SliceSpec, ...] = ()
    reward: str = ""
    timestamps: str = ""
    time_unit: TimeUnit | None = None
    episode_ends: str = ""
    episode_axis: int | None = Field(default=None, ge=0)
    left_out: tuple[str, ...] = ()
    language: tuple[str | TextSpec, ...] = ()
    success: str = ""
    outcome: str = ""
    outcome_share: str = ""
    intervention: str = ""
    split: str = ""
    subtasks: str = ""
    spans: str = ""
    outcome_in_path: bool = False
    contract: dict[str, ContractSpec] = Field(default_factory=dict)
    layout: LayoutSpec | None = None
    licence: str = ""
    consent: str = ""
    faults: tuple[str, ...] = ()
    reference: str = Field(min_length=1)
    verified: str = ""

    @model_validator(mode="after")
    def _check_contract(self) -> DatasetSpec:
        for name in self.contract:
            if not is_dimension_group_name(name):
                raise ValueError(
                    f"contract names {name!r}; a signal is for example action.gripper or state.arm"
                )
        return self

    def camera(self, name: str) -> CameraSpec:
        """What is known of a camera."""
        camera = self.cameras.get(name, CameraSpec())
        return camera if isinstance(camera, CameraSpec) else CameraSpec(role=camera)


@functools.cache
def find_builtin_spec(dataset: str, folder: Path = _FOLDER) -> DatasetSpec | None:
    """The spec that ARES has for a dataset of this name, or None. Raises SourceError for one that cannot be read."""
    names = {path.stem for path in folder.glob("*.yaml")}
    return read_spec(folder / f"{dataset}.yaml") if dataset in names else None


@functools.cache
def builtin_layouts(folder: Path = _FOLDER / "families") -> Mapping[str, LayoutSpec]:
    """The layouts of the families of datasets that ARES knows, by name of the family."""
    specs = {path.stem: read_spec(path) for path in sorted(folder.glob("*.yaml"))}
    return {name: spec.layout for name, spec in specs.items() if spec.layout}


# Fields that an earlier version had, each with what to do.
_GONE_FIELDS: Mapping[str, str] = {
    "span_unit": "the table says it: start_seconds and stop_seconds, or start_frame and stop_frame",
    "subtask_names": "write the new texts into a table of spans, and name that by `spans`",
    "kinematics": "it is gone, delete it: recorded positions are measured; compute a path from joints outside, and "
    "store it with ws.set_values",
}


def read_spec(path: Path) -> DatasetSpec:
    """Read a spec file. Raises SourceError with the file and the wrong field."""
    try:
        spec = DatasetSpec.model_validate(_read_document(path))
        spans = str(path.parent / Path(spec.spans).expanduser()) if spec.spans else ""
        return spec.model_copy(update={"spans": spans})
    except ValidationError as error:
        # Of a field that is a text or an object, the complaint about the object says more.
        errors = sorted(error.errors(), key=lambda part: part["type"] in ("string_type", "literal_error"))
        first = errors[0]
        field_path = ".".join(str(part) for part in first["loc"])
        hint = ""
        if first["type"] == "extra_forbidden":
            fields = (
                *DatasetSpec.model_fields,
                *SliceSpec.model_fields,
                *CameraSpec.model_fields,
                *ContractSpec.model_fields,
                *LayoutSpec.model_fields,
            )
            hint = f"; {did_you_mean(str(first['loc'][-1]), fields)}".rstrip("; ")
            if answer := _GONE_FIELDS.get(str(first["loc"][-1])):
                hint = f"; {answer}"
        raise SourceError(
            "dataset spec has a wrong field", f"{path}: {field_path}: {first['msg']}{hint}"
        ) from None


def _read_document(path: Path) -> Any:
    """The content of a spec file; `like: NAME` adds the fields of another built-in spec."""
    try:
        document = parse_yaml(path.read_text(), str(path), is_shipped=path.is_relative_to(_FOLDER))
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError("dataset spec cannot be read", f"{path}: {error}") from None
    except SourceError as error:
        raise SourceError("dataset spec is not YAML", str(error)) from None
    if not isinstance(document, dict) or "like" not in document:
        return document
    base, built_in = document.pop("like"), sorted(file.stem for file in _FOLDER.glob("*.yaml"))
    if base not in built_in:
        hint = f"{did_you_mean(str(base), built_in)}there are: {', '.join(built_in)}"
        raise SourceError("dataset spec is like no built-in one", f"{path}: {str(base)[:100]!r}; {hint}")
    return _read_document(_FOLDER / f"{base}.yaml") | document


# How slices of a spec say the convention of a rotation or a gripper.
_CONVENTIONS: Mapping[str, tuple[PropertyName, str]] = {
    "euler xyz": ("rotation", "euler"),
    "axis-angle": ("rotation", "axis-angle"),
    "quaternion xyzw": ("rotation", "quaternion xyzw"),
    "quaternion wxyz": ("rotation", "quaternion wxyz"),
    "1 is open": ("gripper", "high is open"),
    "1 is closed": ("gripper", "high is closed"),
    "0 is open, 1 is closed": ("gripper", "high is closed"),
}


def read_stated_contract(spec: DatasetSpec | None) -> StatedValues:
    """The values by signal group; those under `contract:` decide over those of the slices."""
    if spec is None:
        return {}
    stated: dict[str, dict[PropertyName, str]] = {}
    for signal, slices in (("state", spec.state), ("action", spec.action)):
        for kind, values in _slice_values(slices).items():
            stated[f"{signal}.{kind}"] = values
    for signal, part in spec.contract.items():
        stated.setdefault(signal, {}).update(part.values())
    return {signal: values for signal, values in stated.items() if values}


def _slice_values(slices: Sequence[SliceSpec]) -> dict[str, dict[PropertyName, str]]:
    """By kind of dimension, what all slices of the kind say alike."""
    by_kind: dict[str, list[dict[PropertyName, str]]] = {}
    for part in slices:
        for kind in dict.fromkeys(classify_by_name(part.names)):
            by_kind.setdefault(kind, []).append(_values_of(part, kind))
    return {
        kind: {name: value for name, value in parts[0].items() if all(p.get(name) == value for p in parts)}
        for kind, parts in by_kind.items()
    }


def _values_of(part: SliceSpec, kind: str) -> dict[PropertyName, str]:
    values: dict[PropertyName, str] = {}
    if part.unit.endswith("/s") and is_allowed_property_value("unit", part.unit.removesuffix("/s")):
        values |= {"unit": part.unit.removesuffix("/s"), "mode": "velocity"}
    elif is_allowed_property_value("unit", part.unit):
        values["unit"] = part.unit
    name, value = _CONVENTIONS.get(part.convention, ("rotation", ""))
    if value and (name == "gripper") == (kind == "gripper") and (name == "rotation") == (kind == "rotation"):
        values[name] = value
    return values
