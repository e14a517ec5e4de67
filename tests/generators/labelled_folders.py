"""Folders of episodes with tables of labels beside them: outcomes, texts and splits by the name of the episode.

Everything is drawn: format and number of the episodes, their names, where they lie, and the form of the table.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_VERBS = ("lift", "push", "open", "turn", "wipe", "close")
_THINGS = ("red cup", "drawer", "sponge", "valve", "blue block", "lid")
_STEMS = ("episode", "ep", "demo", "traj", "run", "take", "2024-05-17")
_OUTCOMES: tuple[tuple[Any, Any], ...] = (
    (True, False), (1, 0), ("success", "failure"), ("yes", "no"), ("passed", "failed")
)  # fmt: skip
_FORMS = (".csv", ".jsonl", ".parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What is true of one episode; None and "" where no file says so."""

    success: bool | None = None
    text: str = ""
    split: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledFolder:
    """A folder, and what is right for it.

    Attributes:
        path: The folder.
        labels: What is true, by key of the episode.
        num_unknown: Names in the files that no episode has.
        num_twice: Episodes that a file names twice with two outcomes.
        num_no_outcome: Values of the outcome that are none.
        description: How it was drawn, for messages.
    """

    path: Path
    labels: Mapping[str, Label]
    num_unknown: int = 0
    num_twice: int = 0
    num_no_outcome: int = 0
    description: str = ""


@dataclass(slots=True, kw_only=True)
class _Faults:
    unknown: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    no_outcome: list[str] = field(default_factory=list)


def make_labelled_folder(folder: Path, seed: int, *, with_faults: bool = False) -> LabelledFolder:
    """Draw a folder.

    Args:
        folder: Where it is made.
        seed: Of everything that is drawn.
        with_faults: Whether the table has unknown names, names twice and values that are no outcome.
    """
    rng = np.random.default_rng(seed)
    keys = _write_episodes(folder, rng)
    form = str(rng.choice(_FORMS))
    labels = {key: _draw_label(rng) for key in keys}
    names = _draw_names(keys, rng)
    faults = _draw_faults(keys, rng) if with_faults else _Faults()
    _write_labels(folder / f"labels{form}", labels, names, faults, rng)
    if rng.random() < 0.5:
        labels = _write_splits(folder, labels, names, rng)
    for key in faults.no_outcome + faults.twice:
        labels[key] = Label(text=labels[key].text, split=labels[key].split)
    return LabelledFolder(
        path=folder,
        labels=labels,
        num_unknown=len(faults.unknown),
        num_twice=len(faults.twice),
        num_no_outcome=len(faults.no_outcome),
        description=f"{form}, named {next(iter(names.values()))!r} for {keys[0]!r}",
    )


def _write_episodes(folder: Path, rng: np.random.Generator) -> list[str]:
    """Write npz files, or demonstrations of one HDF5 file; their keys in order."""
    count, steps = int(rng.integers(4, 12)), int(rng.integers(8, 20))
    below = folder / str(rng.choice(["", "data", "raw/day_2"]))
    below.mkdir(parents=True, exist_ok=True)
    if rng.random() < 0.5:
        return _write_npz_files(folder, below, rng, count, steps)
    import h5py  # type: ignore[import-untyped]

    name = f"{rng.choice(_STEMS)}.hdf5"
    with h5py.File(below / name, "w") as file:
        for number in range(count):
            group = file.create_group(f"data/demo_{number}")
            group.attrs["num_samples"] = steps
            group["actions"] = rng.normal(size=(steps, 4)).astype(np.float32)
            group["obs/joint_pos"] = rng.normal(size=(steps, 4)).astype(np.float32)
    relative = (below / name).relative_to(folder).as_posix()
    return [f"{relative}/demo_{number}" for number in range(count)]


def _write_npz_files(
    folder: Path, below: Path, rng: np.random.Generator, count: int, steps: int
) -> list[str]:
    stem, start, digits = rng.choice(_STEMS), int(rng.integers(0, 30)), int(rng.choice([1, 4, 6]))
    paths = [below / f"{stem}_{number:0{digits}d}.npz" for number in range(start, start + count)]
    for path in paths:
        values = rng.normal(size=(steps, 3)).astype(np.float32)
        np.savez(path, state=values, action=values[::-1])
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def _draw_label(rng: np.random.Generator) -> Label:
    text = f"{rng.choice(_VERBS)} the {rng.choice(_THINGS)}"
    return Label(success=bool(rng.random() < 0.6), text=text)


def _draw_names(keys: Sequence[str], rng: np.random.Generator) -> dict[str, Any]:
    """What the file calls each episode: its key, its file name, that without its ending, or its number."""
    kind = rng.choice(["key", "name", "stem", "number"])
    names: dict[str, Any] = {}
    for key in keys:
        name = key.rpartition("/")[2]
        stem = name.removesuffix(".npz")
        number = int(stem.rpartition("_")[2])
        names[key] = {"key": key, "name": name, "stem": stem, "number": number}[kind]
    return names


def _draw_faults(keys: Sequence[str], rng: np.random.Generator) -> _Faults:
    drawn = [str(key) for key in rng.permutation(list(keys))]
    return _Faults(
        unknown=[f"gone_{number}" for number in range(int(rng.integers(1, 4)))],
        twice=drawn[:1],
        no_outcome=drawn[1:2],
    )


def _write_labels(
    path: Path,
    labels: Mapping[str, Label],
    names: Mapping[str, Any],
    faults: _Faults,
    rng: np.random.Generator,
) -> None:
    """Write the table of outcomes and texts."""
    good, bad = _OUTCOMES[int(rng.integers(len(_OUTCOMES)))]
    if path.suffix == ".parquet" and faults.no_outcome:
        good, bad = "success", "failure"  # a column there has one type
    rows = [
        {"episode": names[key], "success": good if label.success else bad, "instruction": label.text}
        for key, label in labels.items()
    ]
    if faults.unknown:
        _spoil_rows(rows, list(labels), faults, (good, bad))
    _write_table(path, rows)


def _spoil_rows(
    rows: list[dict[str, Any]], keys: Sequence[str], faults: _Faults, outcomes: tuple[Any, Any]
) -> None:
    for key in faults.no_outcome:
        rows[keys.index(key)]["success"] = "perhaps"
    for key in faults.twice:
        row = dict(rows[keys.index(key)])
        row["success"] = outcomes[0] if row["success"] == outcomes[1] else outcomes[1]
        rows.append(row)
    is_number = isinstance(rows[0]["episode"], int)
    rows.extend(
        {"episode": 9000 + number if is_number else unknown, "success": outcomes[0], "instruction": "do it"}
        for number, unknown in enumerate(faults.unknown)
    )


def _write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row) for row in rows))
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


def _write_splits(
    folder: Path, labels: Mapping[str, Label], names: Mapping[str, Any], rng: np.random.Generator
) -> dict[str, Label]:
    """Write which episodes are for training and which are not, in a separate table; the labels with it."""
    words = ("train", str(rng.choice(["val", "test", "validation"])))
    split = {key: words[int(number % 3 == 2)] for number, key in enumerate(labels)}
    rows = [{"episode": names[key], "split": split[key]} for key in labels]
    _write_table(folder / f"splits{rng.choice(_FORMS)}", rows)
    return {
        key: Label(success=label.success, text=label.text, split=split[key]) for key, label in labels.items()
    }
