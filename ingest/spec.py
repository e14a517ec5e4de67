"""DatasetSpec: what a dataset does not say about itself, from ingest/specs/<dataset>.yaml."""

from __future__ import annotations

import functools
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ares.episode import Role
from ares.errors import SourceError

_FOLDER = Path(__file__).parent / "specs"


class DatasetSpec(BaseModel):
    """What is known of one dataset.

    Attributes:
        rate_hz: Steps per second, which RLDS does not store.
        robot: The robot, for episodes that do not name theirs.
        cameras: Role of a camera by its name, where the name does not tell.
        state_names: Names of the state's dimensions; used where their number fits.
        action_names: Names of the action's dimensions; used where their number fits.
        outcome_in_path: Whether a folder "success" or "failure" in the episode's file_path is its outcome.
        reference: Where all this is written.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rate_hz: float | None = Field(default=None, gt=0)
    robot: str = ""
    cameras: dict[str, Role] = Field(default_factory=dict)
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    outcome_in_path: bool = False
    reference: str


@functools.cache
def dataset_spec(dataset: str, folder: Path = _FOLDER) -> DatasetSpec | None:
    """The spec of a dataset by its own name, or None. Raises SourceError for a spec that cannot be read."""
    path = folder / f"{dataset}.yaml"
    if not dataset or path.parent != folder or not path.is_file():
        return None
    return read_spec(path)


def read_spec(path: Path) -> DatasetSpec:
    """A spec file. Raises SourceError naming the file and the field that is wrong."""
    import yaml

    try:
        return DatasetSpec.model_validate(yaml.safe_load(path.read_text()))
    except yaml.YAMLError as error:
        raise SourceError("dataset spec is not YAML", f"{path}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SourceError("dataset spec has a wrong field", f"{path}: {place}: {first['msg']}") from None
