"""Reads a rubric by its name: one that comes with ARES, or a file of the user."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

from ares.errors import RequestError
from ares.registry import did_you_mean
from ares.rubric import Rubric, read_rubric

_RUBRICS = files("ares_annotators.grade").joinpath("rubrics")


def load_rubric(name: str) -> Rubric:
    """A shipped rubric by name, or one in a YAML file. Raises RequestError for an unknown name or a wrong file."""
    if name.endswith((".yaml", ".yml")):
        return read_rubric(Path(name))
    names = list_shipped_rubrics()
    if name not in names:
        raise RequestError(
            f"no rubric {name!r}",
            f"{did_you_mean(name, names)}there are: {', '.join(names)}; or give a YAML file",
        )
    with as_file(_RUBRICS.joinpath(f"{name}.yaml")) as path:
        return read_rubric(path)


def list_shipped_rubrics() -> list[str]:
    """Names of the rubrics that come with ARES, sorted."""
    return sorted(file.name[:-5] for file in _RUBRICS.iterdir() if file.name.endswith(".yaml"))
