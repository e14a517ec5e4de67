"""A hostile file or dataset, what plants it beside good episodes, and what must happen."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tests.torture.datasets import WRITERS

# What must become of the hostile episodes: none is stored, all are, or either.
Outcome = Literal["failed", "kept", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where a case is planted.

    Attributes:
        root: Folder that is ingested; good episodes lie in `root/good`.
        outside: Folder that is not ingested and holds a secret.
        secret: Text that must not get into the workspace.
        marker: File that must not come to exist: code in the data would make it.
        url: Address of a server that must not be asked.
        rng: Random choices of the case.
    """

    root: Path
    outside: Path
    secret: str
    marker: Path
    url: str
    rng: random.Random

    @property
    def hostile(self) -> Path:
        """Folder of the hostile data."""
        folder = self.root / "hostile"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def dataset(self, kind: str, count: int = 2, name: str = "hostile") -> Path:
        """Write good episodes that the case then changes; returns the folder of the dataset."""
        WRITERS[kind](self.hostile, count, name)
        if kind == "lerobot":
            return self.hostile / f"{name}_lerobot"
        if kind == "rlds":
            return self.hostile / f"{name}_rlds" / "0.1.0"
        return self.hostile

    def path(self, *names: str) -> Path:
        """A path in the hostile folder; its parent exists."""
        path = self.hostile.joinpath(*names)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A hostile case.

    Attributes:
        group: Class of the case, for the table.
        name: What it is.
        kind: Kind of the good episodes beside it, and of the ingester.
        plant: Writes the hostile files.
        outcome: What must become of its episodes.
        reason: Text that a failure or warning must have, or "".
    """

    group: str
    name: str
    kind: str
    plant: Callable[[Site], None]
    outcome: Outcome = "any"
    reason: str = ""


def edit_json(path: Path, **changes: Any) -> None:
    """Set keys of a JSON document."""
    with json_of(path) as document:
        document.update(changes)


@contextmanager
def json_of(path: Path) -> Iterator[Any]:
    """A JSON document, which is written again as it was changed."""
    document = json.loads(path.read_text())
    yield document
    path.write_text(json.dumps(document))


@contextmanager
def action_feature(folder: Path) -> Iterator[Any]:
    """What features.json of an RLDS dataset says of the action, to be changed."""
    with json_of(folder / "features.json") as document:
        steps = document["featuresDict"]["features"]["steps"]["sequence"]["feature"]
        yield steps["featuresDict"]["features"]["action"]["tensor"]


def write_demo(site: Site, **options: Any) -> Any:
    """An open HDF5 file with one good demonstration in `data/demo_0`."""
    import h5py  # type: ignore[import-untyped]

    file = h5py.File(site.path("hostile.hdf5"), "w", **options)
    group = file.create_group("data/demo_0")
    group["actions"] = np.ones((9, 7), np.float32)
    group["obs/robot0_joint_pos"] = np.ones((9, 7), np.float32)
    return file
