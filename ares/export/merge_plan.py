"""The plan of a merge: what the cameras and dimensions of each source are called in one dataset.

Equal names are the same. `ares export --write-plan` lists the others, empty; a person writes what they are, and
`ares export --plan` obeys.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ares.episode import Role
from ares.errors import RequestError, SourceError, first_fault
from ares.input import read_yaml

# What a source may lack: black pictures or zeros are written, with a mask.
PaddedKind = Literal["camera", "state", "action"]
_HEADER = """\
# What each source of a set becomes in one dataset. Edit it, then:
#   ares export {set} FOLDER --format lerobot --plan {file}
# Names that the dataset has are the same. For each other one write what it is called there; "" leaves it out.
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
    """What becomes of the episodes of one dataset.

    Attributes:
        dataset: Name of the dataset.
        format: Its format.
        version: Its version.
        use: Whether they are written; false leaves them out, and the export says so.
        cameras: What cameras are called in the merged dataset whose name it does not have; "" leaves one out.
        state: The same for dimensions of the state.
        action: The same for dimensions of the action.
    """

    dataset: str
    format: str
    version: str = ""
    use: bool = True
    cameras: dict[str, str] = {}
    state: dict[str, str] = {}
    action: dict[str, str] = {}

    @property
    def key(self) -> tuple[str, str, str]:
        """What distinguishes it."""
        return self.format, self.dataset, self.version

    @property
    def label(self) -> str:
        """For example "bridge_dataset 1.0.0"."""
        return f"{self.dataset} {self.version}".strip()

    @property
    def parts(self) -> dict[PaddedKind, Mapping[str, str]]:
        """What the names become, by kind."""
        return {"camera": self.cameras, "state": self.state, "action": self.action}


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
        masks: Of what every episode says which part is its own, since a source lacks some of it.
        convert: Conversions of signals, as `ares export --convert` takes them, in the names of the merged dataset.
        tasks: For each task as it is written, the texts of sources that it stands for.
        sources: What becomes of each source.
    """

    plan: Literal[2] = 2
    set: str
    fps: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    retime: Literal["nearest", "hold"] = "nearest"
    cameras: dict[_Name, PlannedCamera] = {}
    state: tuple[_Name, ...] = ()
    action: tuple[_Name, ...] = ()
    masks: tuple[PaddedKind, ...] = ()
    convert: tuple[str, ...] = ()
    tasks: dict[str, tuple[str, ...]] = {}
    sources: tuple[PlannedSource, ...]

    @property
    def task_by_text(self) -> dict[str, str]:
        """The task that is written for each text of a source."""
        return {text: task for task, texts in self.tasks.items() for text in texts}

    @property
    def camera_names(self) -> dict[tuple[str, str, str], dict[str, str]]:
        """For each dataset, the names that the merged dataset has for its cameras; another for one that is left out."""
        return {
            source.key: {name: goal or f"{name} of {source.label}" for name, goal in source.cameras.items()}
            for source in self.sources
        }

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
        header = _HEADER.format(set=shlex.quote(self.set.partition("@")[0]), file=shlex.quote(path.name))
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(header + text)
        except FileExistsError:
            hint = f"{path}; remove it, name a new file, or export with --plan"
            raise RequestError("the plan exists already", hint) from None
        except OSError as error:
            raise RequestError("the plan cannot be written", f"{path}: {error}") from None


def read_merge_plan(path: Path) -> MergePlan:
    """Read and check a plan. Raises RequestError where it cannot be read, or contradicts itself: with all that does."""
    try:
        plan = MergePlan.model_validate(read_yaml(str(path)))
    except (OSError, SourceError) as error:
        raise RequestError("the plan cannot be read", f"{path}: {error}") from None
    except ValidationError as error:
        detail = f"{path}: {first_fault(error, 'plan')}; `ares export --write-plan` writes one"
        raise RequestError("the plan is not valid", detail) from None
    if faults := list(plan_faults(plan)):
        raise RequestError("the plan is not valid", f"{path}: {' | '.join(faults)}")
    return plan


def plan_faults(plan: MergePlan) -> Iterator[str]:
    """What contradicts itself in a plan: a name that is not there, or is there twice."""
    targets = plan.targets
    for kind, names in targets.items():
        yield from (f"{kind} {name!r} is listed twice" for name in _repeated_names(names))
    for key in _repeated_names(source.key for source in plan.sources):
        yield f"{key[1]}: the same source is listed twice"
    texts = [text for texts in plan.tasks.values() for text in texts]
    yield from (f"the text {text!r} stands for two tasks" for text in _repeated_names(texts))
    if not any(source.use for source in plan.sources):
        yield "no source is used"
    for source in plan.sources:
        for kind, mapping in source.parts.items() if source.use else ():
            goals = [goal for goal in mapping.values() if goal]
            yield from (
                f"{source.label}: two {kind} names become {goal!r}" for goal in _repeated_names(goals)
            )
            yield from (
                f"{source.label}: {kind} {goal!r} is not in the merged dataset"
                for goal in goals
                if goal not in targets[kind]
            )


_Key = TypeVar("_Key")


def _repeated_names(names: Iterable[_Key]) -> list[_Key]:
    return [name for name, count in Counter(names).items() if count > 1]
