"""Folders of episodes with files of labels beside them, as labs keep them: outcomes, texts and splits by name.

Everything is drawn: format and number of the episodes, their names, where the file lies, its kind and its form.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

_VERBS = ("lift", "push", "open", "turn", "wipe", "close")
_THINGS = ("red cup", "drawer", "sponge", "valve", "blue block", "lid")
_STEMS = ("episode", "ep", "demo", "traj", "run", "take", "2024-05-17")
_NAME_COLUMNS = ("episode", "name", "file", "demo", "episode_id", "trajectory")
_SUCCESS_COLUMNS = ("success", "is_success", "outcome", "result")
_TEXT_COLUMNS = ("instruction", "task", "prompt", "caption", "language_instruction")
_OUTCOMES: tuple[tuple[Any, Any], ...] = (
    (True, False), (1, 0), ("success", "failure"), ("yes", "no"), ("passed", "failed")
)  # fmt: skip
_FORMS = ("mapping", "rows", "nested rows", "nested mapping", "columns", "lists", "table")


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
        with_faults: Whether the file of labels has unknown names, names twice and values that are no outcome; it
            is then a list of rows.
    """
    rng = np.random.default_rng(seed)
    keys = _write_episodes(folder, rng)
    form = "rows" if with_faults else str(rng.choice(_FORMS))
    labels = {key: _draw_label(rng, only_success=form == "lists") for key in keys}
    names = _draw_names(keys, rng, has_numbers=form in ("rows", "table", "nested rows"))
    faults = _draw_faults(keys, rng) if with_faults else _Faults()
    suffix = _write_labels(folder, form, labels, names, faults, rng)
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
        description=f"{form} in {suffix}, named {next(iter(names.values()))!r} for {keys[0]!r}",
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


def _draw_label(rng: np.random.Generator, *, only_success: bool) -> Label:
    text = f"{rng.choice(_VERBS)} the {rng.choice(_THINGS)}"
    return Label(success=bool(rng.random() < 0.6), text="" if only_success else text)


def _draw_names(keys: Sequence[str], rng: np.random.Generator, *, has_numbers: bool) -> dict[str, Any]:
    """What the file calls each episode: its key, its file name, that without its ending, or its number."""
    kinds = ["key", "name", "stem"] + (["number"] if has_numbers else [])
    kind = rng.choice(kinds)
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
    folder: Path,
    form: str,
    labels: Mapping[str, Label],
    names: Mapping[str, Any],
    faults: _Faults,
    rng: np.random.Generator,
) -> str:
    """Write the file of outcomes and texts; its ending."""
    good, bad = _OUTCOMES[int(rng.integers(len(_OUTCOMES)))]
    columns = (
        str(rng.choice(_NAME_COLUMNS)),
        str(rng.choice(_SUCCESS_COLUMNS)),
        str(rng.choice(_TEXT_COLUMNS)),
    )
    stem = str(rng.choice(["meta", "labels", "annotations", "episodes_info", "results"]))
    if form == "lists":
        lists = {
            name: [names[key] for key in labels if labels[key].success is is_good]
            for name, is_good in (("success", True), ("failure", False))
        }
        return _write_document(folder / stem, lists, rng)
    rows = [
        {columns[0]: names[key], columns[1]: good if label.success else bad, columns[2]: label.text}
        for key, label in labels.items()
    ]
    if faults.unknown:
        _spoil_rows(rows, columns, list(labels), faults, (good, bad))
        return (
            _write_document(folder / stem, rows, rng)
            if rng.random() < 0.5
            else _write_table(folder / stem, rows)
        )
    if form == "table":
        return _write_table(folder / stem, rows)
    return _write_document(folder / stem, _arrange_rows(form, rows, columns), rng)


def _spoil_rows(
    rows: list[dict[str, Any]],
    columns: tuple[str, str, str],
    keys: Sequence[str],
    faults: _Faults,
    outcomes: tuple[Any, Any],
) -> None:
    name, success, text = columns
    for key in faults.no_outcome:
        rows[keys.index(key)][success] = "perhaps"
    for key in faults.twice:
        row = dict(rows[keys.index(key)])
        row[success] = outcomes[0] if row[success] == outcomes[1] else outcomes[1]
        rows.append(row)
    is_number = isinstance(rows[0][name], int)
    rows.extend(
        {name: 9000 + number if is_number else unknown, success: outcomes[0], text: "do it"}
        for number, unknown in enumerate(faults.unknown)
    )


def _arrange_rows(form: str, rows: list[dict[str, Any]], columns: tuple[str, str, str]) -> Any:
    name, success, text = columns
    mapping = {str(row[name]): {success: row[success], text: row[text]} for row in rows}
    head = {"robot_id": "arm-3", "recorded_by": "us", "version": 2}
    return {
        "mapping": mapping,
        "rows": rows,
        "nested rows": {**head, "episodes": rows},
        "nested mapping": {**head, "episodes": mapping},
        "columns": {
            success: {key: row[success] for key, row in mapping.items()},
            text: {key: row[text] for key, row in mapping.items()},
        },
    }[form]


def _write_document(path: Path, document: Any, rng: np.random.Generator) -> str:
    if isinstance(document, list) and rng.random() < 0.3:
        path.with_suffix(".jsonl").write_text("\n".join(json.dumps(row) for row in document))
        return ".jsonl"
    if rng.random() < 0.6:
        path.with_suffix(".json").write_text(json.dumps(document))
        return ".json"
    suffix = str(rng.choice([".yaml", ".yml"]))
    path.with_suffix(suffix).write_text(yaml.safe_dump(document, sort_keys=False))
    return suffix


def _write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    with path.with_suffix(".csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return ".csv"


def _write_splits(
    folder: Path, labels: Mapping[str, Label], names: Mapping[str, Any], rng: np.random.Generator
) -> dict[str, Label]:
    """Write which episodes are for training and which are not, in a file of its own; the labels with it."""
    words = ("train", str(rng.choice(["val", "test", "validation"])))
    split = {key: words[int(number % 3 == 2)] for number, key in enumerate(labels)}
    lists = {word: [names[key] for key in labels if split[key] == word] for word in words}
    _write_document(folder / "splits", {"splits": lists} if rng.random() < 0.3 else lists, rng)
    return {
        key: Label(success=label.success, text=label.text, split=split[key]) for key, label in labels.items()
    }
