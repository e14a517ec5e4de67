"""Loads rubrics: those that come with ARES, one YAML file each in the folder `rubrics`, or a file of the user."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

from ares.errors import RequestError
from ares.registry import did_you_mean

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from ares.rubric import Rubric


def load_rubric(name: str) -> Rubric:
    """A shipped rubric by name, or one in a YAML file. Raises RequestError for an unknown name or a wrong file."""
    from ares.rubric import read_rubric

    if name.endswith((".yaml", ".yml")):
        return read_rubric(Path(name))
    names = rubric_names()
    if name not in names:
        raise RequestError(
            f"no rubric {name!r}",
            f"{did_you_mean(name, names)}there are: {', '.join(names)}; or give a YAML file",
        )
    with as_file(_folder().joinpath(f"{name}.yaml")) as path:
        return read_rubric(path)


def rubric_names() -> list[str]:
    """Names of the rubrics that come with ARES, sorted."""
    return sorted(file.name[:-5] for file in _folder().iterdir() if file.name.endswith(".yaml"))


def _folder() -> Traversable:
    return files("annotators.grade").joinpath("rubrics")
