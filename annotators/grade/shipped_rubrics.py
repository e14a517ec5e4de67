"""Loads rubrics: those that come with ARES, one YAML file each in the folder `rubrics`, or a file of the user."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

from ares.errors import RequestError

if TYPE_CHECKING:
    from ares.rubric import Rubric


def load_rubric(name: str) -> Rubric:
    """A shipped rubric by name, or one in a YAML file. Raises RequestError for an unknown name or a wrong file."""
    from ares.rubric import read_rubric

    if name.endswith((".yaml", ".yml")):
        return read_rubric(Path(name))
    folder = files("annotators.grade").joinpath("rubrics")
    names = sorted(file.name[:-5] for file in folder.iterdir() if file.name.endswith(".yaml"))
    if name not in names:
        raise RequestError(f"no rubric {name!r}", f"there are: {', '.join(names)}; or give a YAML file")
    with as_file(folder.joinpath(f"{name}.yaml")) as path:
        return read_rubric(path)
