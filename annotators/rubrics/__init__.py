"""Rubrics: those that are shipped, one YAML file each."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

from ares.errors import RequestError

if TYPE_CHECKING:
    from ares.rubric.rubric import Rubric


def load_rubric(name: str) -> Rubric:
    """A shipped rubric by name, or one in a YAML file. Raises RequestError for an unknown name or a wrong file."""
    from ares.rubric.rubric import read_rubric

    if name.endswith((".yaml", ".yml")):
        return read_rubric(Path(name))
    shipped = sorted(one.name[:-5] for one in files(__name__).iterdir() if one.name.endswith(".yaml"))
    if name not in shipped:
        raise RequestError(f"no rubric {name!r}", f"there are: {', '.join(shipped)}; or give a YAML file")
    with as_file(files(__name__).joinpath(f"{name}.yaml")) as path:
        return read_rubric(path)
