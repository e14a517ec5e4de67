"""The plan of a merge: what the cameras, dimensions, rates, splits and tasks of each source become in one dataset.

A plan is a YAML file that `ares export --write-plan` writes, a person edits, and `ares export --plan` obeys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ares.episode import Role
from ares.errors import RequestError, SourceError
from ares.input import read_yaml

# What a person writes for a camera or a dimension that the merged dataset does not have, and what a plan has where
# nothing says which one it is.
DROP, ASK = "drop", "ask"
# What may be padded: "camera wrist", "state gripper", "action gripper".
PaddedKind = Literal["camera", "state", "action"]
_LISTED = 6
_HEADER = """\
# What each source of a set becomes in one dataset. Edit it, then:
#   ares export {set} FOLDER --format lerobot --plan {file}
# - Each camera and dimension of a source is followed by what it is called in the merged dataset, or by "drop".
# - "ask" is a question that nothing in the data answers: write a name, or "drop".
# - `pad` lists what a source lacks ("camera NAME", "state NAME"; "state" is all that it lacks): black pictures or zeros
#   are written, and a mask says so.
# - `confirm` lists what was concluded and not seen: each needs `ok: true`.
# docs/merge.md explains it.
"""


class _PlanModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_Name = Annotated[str, Field(min_length=1, max_length=200)]


class PlannedCamera(_PlanModel):
    """A camera of the merged dataset.

    Attributes:
        width: Pixels; pictures of another size are made to fit, their sides kept, with black bars.
        height: Pixels.
        role: Its viewpoint.
    """

    width: int = Field(ge=2, le=8192)
    height: int = Field(ge=2, le=8192)
    role: Role = "other"


class PlannedSource(_PlanModel):
    """What becomes of the episodes of one dataset that have the same cameras and dimensions.

    Attributes:
        dataset: Name of the dataset.
        format: Its format.
        version: Its version.
        episodes: How many members of the set it has.
        rate_hz: Their rates, in steps per second.
        use: Whether they are written; false leaves them out, and the export says so.
        cameras: What each of its cameras is called in the merged dataset, DROP or ASK.
        state: The same for each dimension of its state.
        action: The same for each dimension of its action.
        pad: What it lacks and gets: "camera NAME", "state NAME", "action NAME"; "state" alone is all that it lacks.
        splits: What each of its splits is called.
    """

    dataset: str
    format: str
    version: str = ""
    episodes: int = Field(default=0, ge=0)
    rate_hz: tuple[float, ...] = ()
    use: bool = True
    cameras: dict[str, _Name] = {}
    state: dict[str, _Name] = {}
    action: dict[str, _Name] = {}
    pad: tuple[str, ...] = ()
    splits: dict[str, str] = {}

    @property
    def label(self) -> str:
        """For example "bridge_dataset 1.0.0"."""
        return f"{self.dataset} {self.version}".strip()

    @property
    def parts(self) -> Iterator[tuple[PaddedKind, Mapping[str, str]]]:
        """Cameras, state and action, with what each name becomes."""
        yield "camera", self.cameras
        yield "state", self.state
        yield "action", self.action

    def padded(self, kind: PaddedKind, names: Sequence[str]) -> frozenset[str]:
        """Names of the cameras or dimensions of one kind that it gets, of those of the merged dataset."""
        mapping = dict(self.parts)[kind]
        if kind in self.pad:
            return frozenset(names).difference(mapping.values())
        return frozenset(entry.removeprefix(f"{kind} ") for entry in self.pad if entry.startswith(f"{kind} "))


class Confirmation(_PlanModel):
    """Something that was concluded and not seen, which a person confirms.

    Attributes:
        text: What was concluded, and by what.
        ok: Whether a person says that it is so.
    """

    text: str
    ok: bool = False


class SourceKey(NamedTuple):
    """What tells the sources of a plan apart: dataset, and the names of cameras and dimensions.

    Attributes:
        cameras: Sorted.
        state: In their order.
        action: In their order.
    """

    format: str
    dataset: str
    version: str
    cameras: tuple[str, ...]
    state: tuple[str, ...]
    action: tuple[str, ...]


class MergePlan(_PlanModel):
    """How the sources of a set become one dataset.

    Attributes:
        plan: Version of this form.
        set: The set that it was written for, such as "mixed@1".
        fps: Steps per second of the merged dataset; None where all sources have one rate.
        retime: Which step is written for a second.
        cameras: Its cameras by name.
        state: Names of the dimensions of its state, in order.
        action: Names of the dimensions of its action, in order.
        convert: Conversions of signals, as `ares export --convert` takes them, in the names of the merged dataset.
        tasks: For each task as it is written, the texts of sources that it stands for.
        sources: What becomes of each source.
        confirm: What a person has to confirm.
    """

    plan: Literal[1] = 1
    set: str
    fps: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    retime: Literal["nearest", "hold"] = "nearest"
    cameras: dict[_Name, PlannedCamera] = {}
    state: tuple[_Name, ...] = ()
    action: tuple[_Name, ...] = ()
    convert: tuple[str, ...] = ()
    tasks: dict[str, tuple[str, ...]] = {}
    sources: tuple[PlannedSource, ...]
    confirm: tuple[Confirmation, ...] = ()

    @property
    def task_by_text(self) -> dict[str, str]:
        """The task that is written for each text of a source."""
        return {text: task for task, texts in self.tasks.items() for text in texts}

    @property
    def targets(self) -> dict[PaddedKind, tuple[str, ...]]:
        """Names of the merged dataset, by kind."""
        return {"camera": tuple(self.cameras), "state": self.state, "action": self.action}

    def write(self, path: Path) -> None:
        """Write the plan as YAML, for a person to edit.

        Raises:
            RequestError: The file exists already, or cannot be written.
        """
        import yaml

        document = {"plan": self.plan, **self.model_dump(mode="json", exclude_defaults=True)}
        text = yaml.safe_dump(
            document, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110
        )
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(_HEADER.format(set=self.set.partition("@")[0], file=path.name) + text)
        except FileExistsError:
            raise RequestError("the plan exists already", f"{path}; name a new file, or use --plan") from None
        except OSError as error:
            raise RequestError("the plan cannot be written", f"{path}: {error}") from None


class OpenQuestionsError(RequestError):
    """A plan has questions that a person has not answered.

    Args:
        path: Its file.
        questions: A line for each.
    """

    def __init__(self, path: Path, questions: tuple[str, ...]) -> None:
        super().__init__("the plan has open questions", f"{path}: {' | '.join(questions)}")
        self.lines = questions


def source_key(source: PlannedSource) -> SourceKey:
    """The key of a source; mappings of YAML keep their order."""
    return SourceKey(
        source.format,
        source.dataset,
        source.version,
        tuple(sorted(source.cameras)),
        tuple(source.state),
        tuple(source.action),
    )


def read_merge_plan(path: Path) -> MergePlan:
    """Read and check a plan.

    Raises:
        RequestError: It cannot be read, or names what is not there.
        OpenQuestionsError: A question is not answered.
    """
    try:
        plan = MergePlan.model_validate(read_yaml(str(path)))
    except (OSError, SourceError) as error:
        raise RequestError("the plan cannot be read", f"{path}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "plan"
        raise RequestError("the plan is not valid", f"{path}: {field}: {first['msg']}") from None
    faults = list(plan_faults(plan))
    if faults:
        raise RequestError("the plan is not valid", f"{path}: {_first_few(faults)}")
    questions = tuple(open_questions(plan))
    if questions:
        raise OpenQuestionsError(path, questions)
    return plan


def _first_few(lines: Sequence[str]) -> str:
    more = f" | and {len(lines) - _LISTED} more" if len(lines) > _LISTED else ""
    return " | ".join(lines[:_LISTED]) + more


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(map(repr, names[:_LISTED])) + more


def plan_faults(plan: MergePlan) -> Iterator[str]:
    """What contradicts itself in a plan: a name that is not there, is there twice, or is neither given nor padded."""
    for kind, names in plan.targets.items():
        yield from (f"{kind} {name!r} is listed twice" for name in _repeated_names(names))
        yield from (f"{kind} {name!r} is a word of the plan" for name in names if name in (DROP, ASK))
    keys = Counter(source_key(source) for source in plan.sources)
    yield from (f"{key.dataset}: the same source is listed twice" for key, count in keys.items() if count > 1)
    texts = [text for texts in plan.tasks.values() for text in texts]
    yield from (f"the text {text!r} stands for two tasks" for text in _repeated_names(texts))
    if not any(source.use for source in plan.sources):
        yield "no source is used"
    for source in plan.sources:
        if source.use:
            yield from (f"{source.label}: {fault}" for fault in _source_faults(source, plan))


def _repeated_names(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _source_faults(source: PlannedSource, plan: MergePlan) -> Iterator[str]:
    kinds = plan.targets
    for entry in source.pad:
        if entry not in kinds and entry not in {f"{kind} {name}" for kind in kinds for name in kinds[kind]}:
            yield f"pad: {entry!r} is no camera or dimension of the merged dataset"
    for kind, mapping in source.parts:
        goals = [goal for goal in mapping.values() if goal not in (DROP, ASK)]
        yield from (f"two {kind} names become {goal!r}" for goal in _repeated_names(goals))
        padded = source.padded(kind, kinds[kind])
        for goal in goals:
            if goal not in kinds[kind]:
                yield f"{kind} {goal!r} is not in the merged dataset"
            elif goal in padded:
                yield f"{kind} {goal!r} is both mapped and padded"
        if ASK not in mapping.values():
            missing = [name for name in kinds[kind] if name not in goals and name not in padded]
            if missing:
                names = _list_names(missing)
                yield f"nothing becomes {kind} {names}: map one, or list it under `pad` (`{kind}` is all)"


def open_questions(plan: MergePlan) -> Iterator[str]:
    """What a person has not answered, a line each."""
    for source in plan.sources:
        for kind, mapping in source.parts if source.use else ():
            if unanswered := [name for name, goal in mapping.items() if goal == ASK]:
                names = _list_names(plan.targets[kind]) or "none"
                yield f"{source.label}: which {kind} is {_list_names(unanswered)}? one of: {names}; or {DROP}"
    yield from (f"confirm (ok: true): {entry.text}" for entry in plan.confirm if not entry.ok)
