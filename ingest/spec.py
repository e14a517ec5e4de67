"""DatasetSpec: what a dataset does not say about itself, from ingest/specs/<dataset>.yaml or a file of the user."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ares.episode import Role
from ares.errors import SourceError

_FOLDER = Path(__file__).parent / "specs"


class SliceSpec(BaseModel):
    """Some numbers of one feature, and what they are.

    Attributes:
        key: The feature, as the record names it: "steps/observation/state".
        start: First number.
        stop: Number after the last; None for all from `start` on.
        names: One for each number, or one for all that is then numbered ("joint": joint_0, joint_1...).
        unit: "m", "rad", "m/s"; "" where it has none or nobody says.
        convention: How to read them: "euler xyz", "quaternion xyzw", "1 is open"; "" where nobody says.
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
                raise ValueError(f"{len(self.names)} names for {width} numbers")
        return self


class DatasetSpec(BaseModel):
    """What is known of one dataset. Keys are those of the records.

    Attributes:
        rate_hz: Steps per second, which RLDS does not store.
        robot: The robot, for episodes that do not name theirs.
        cameras: Role of a camera by its name, where the name does not tell.
        bgr: Cameras whose red and blue are swapped, with the height and width of the release where that is so
            (copies of another size were mended), or null for any size.
        state: What the state is made of, in order; found from the features when there is none.
        action: The same for the action.
        language: Keys of the instructions, the main one first; others that are found come after.
        success: Key that holds the outcome, or "".
        outcome_in_path: Whether a folder "success" or "failure" in the episode's file_path is its outcome.
        faults: What is known to be wrong with the dataset, said at each ingestion.
        reference: Where all this is written.
        verified: What of it was seen in records themselves, and in how many; "" where nothing was.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rate_hz: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    robot: str = ""
    cameras: dict[str, Role] = Field(default_factory=dict)
    bgr: dict[str, tuple[int, int] | None] = Field(default_factory=dict)
    state: tuple[SliceSpec, ...] = ()
    action: tuple[SliceSpec, ...] = ()
    language: tuple[str, ...] = ()
    success: str = ""
    outcome_in_path: bool = False
    faults: tuple[str, ...] = ()
    reference: str = Field(min_length=1)
    verified: str = ""


@functools.cache
def dataset_spec(dataset: str, folder: Path = _FOLDER) -> DatasetSpec | None:
    """The spec of a dataset by its own name, or None. Raises SourceError for a spec that cannot be read."""
    path = folder / f"{dataset}.yaml"
    if not dataset or path.parent != folder or not path.is_file():
        return None
    return read_spec(path)


def read_spec(path: Path) -> DatasetSpec:
    """A spec file. Raises SourceError naming the file and the field that is wrong."""
    try:
        return DatasetSpec.model_validate(_document(path))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SourceError("dataset spec has a wrong field", f"{path}: {place}: {first['msg']}") from None


def _document(path: Path) -> Any:
    """What a file says; one that is `like` another says what that one says, too."""
    import yaml

    try:
        document = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError("dataset spec cannot be read", f"{path}: {error}") from None
    except yaml.YAMLError as error:
        raise SourceError("dataset spec is not YAML", f"{path}: {error}") from None
    if not isinstance(document, dict) or "like" not in document:
        return document
    other = _FOLDER / f"{document.pop('like')}.yaml"
    return _document(other) | document
