"""Puts npz files that are one time step each together to episodes: by the numbers in their names, or by a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from ares.console import count_are, count_of
from ares.errors import AresError, SourceError
from ares.io import list_folder
from ares.media import (
    LAST_NUMBER,
    NpyArray,
    StackedSteps,
    is_single_image,
    open_npy,
    open_step,
    step_file_path,
    value_of_step,
)
from ares_ingest.array_roles import guess_array_roles

_FEWEST_FILES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEpisode:
    """An episode whose steps are files.

    Attributes:
        first: The file of its first step.
        num_steps: How many files it has, numbered through.
        missing: Files of them that do not exist.
    """

    first: Path
    num_steps: int
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEpisodes:
    """The episodes of a folder of steps.

    Attributes:
        episodes: In order of their numbers.
        table: The file that has their first and last numbers, or None where gaps in the numbers part them.
        num_outside: Files of steps that are in none of them.
    """

    episodes: tuple[StepEpisode, ...]
    table: Path | None
    num_outside: int = 0

    @property
    def warnings(self) -> Iterator[str]:
        """How the episodes were put together, where that is a guess or leaves files out."""
        if self.table is None:
            episodes = count_of(len(self.episodes), "episode")
            yield f"files are one time step each: put together by their numbers to {episodes}, one up to each gap"
        elif self.num_outside:
            yield f"{count_are(self.num_outside, 'file', 'one time step')} in no range of {self.table.name}"


def read_step_arrays(first: str, num_steps: int) -> dict[str, Any]:
    """The arrays of an episode by name: lists and single numbers as (T, D) values, others as `StackedSteps`.

    Raises SourceError for a step that cannot be read, or whose arrays are not those of the first.
    """
    import numpy as np

    with open_step(first) as arrays:
        lists = {key: a.shape for key, a in arrays.items() if isinstance(a, NpyArray) and a.ndim < 2}
        stacked: dict[str, Any] = {
            key: StackedSteps(first, num_steps, key, a) if isinstance(a, NpyArray) else a
            for key, a in arrays.items()
        }
    rows: dict[str, list[Any]] = {key: [] for key in lists}
    for number in range(num_steps):
        path = step_file_path(first, number)
        with open_step(path) as arrays:
            for key, shape in lists.items():
                rows[key].append(np.atleast_1d(value_of_step(arrays, key, shape, path)))
    return stacked | {key: np.stack(values) for key, values in rows.items()}


def group_step_files(paths: Sequence[Path]) -> list[Path | StepEpisodes]:
    """The files, and in place of those of one time step each, by folder, the episodes that they make."""
    groups: list[Path | StepEpisodes] = []
    by_folder: dict[Path, list[Path]] = {}
    for path in paths:
        by_folder.setdefault(path.parent, []).append(path)
    for files in by_folder.values():
        steps = join_step_files(files) if all(file.suffix.lower() == ".npz" for file in files) else None
        groups += files if steps is None else [steps]
    return groups


def join_step_files(paths: Sequence[Path]) -> StepEpisodes | None:
    """The episodes of the npz files of one folder; None where the files are no steps.

    Args:
        paths: The files.
    """
    numbered = [
        (match[1] + "\0" + match[3], int(match[2][:18]), path)
        for path in paths
        if (match := LAST_NUMBER.match(path.name))
    ]
    if len(numbered) < max(_FEWEST_FILES, len(paths)):
        return None
    table = _find_ranges(paths[0].parent, {number for _, number, _ in numbered})
    if not _is_step(paths[0], has_table=table is not None):
        return None
    numbered.sort(key=lambda part: part[:2])
    if table is None:
        return StepEpisodes(episodes=tuple(_consecutive_runs(numbered)), table=None)
    by_number = {number: path for _, number, path in numbered}
    episodes = tuple(_episode_of_range(start, stop, by_number) for start, stop in table[1])
    inside = {number for start, stop in table[1] for number in range(start, stop)}
    return StepEpisodes(episodes=episodes, table=table[0], num_outside=len(set(by_number) - inside))


def _is_step(path: Path, *, has_table: bool) -> bool:
    """Whether a file is one time step: by its pictures and lists of unlike lengths; with a table lists are enough."""
    try:
        with open_step(str(path)) as arrays:
            numeric = [a for a in arrays.values() if isinstance(a, NpyArray) and a.dtype.kind in "biuf"]
            lists = [a.shape[0] for a in numeric if a.ndim == 1]
            pictures = [a for a in numeric if is_single_image(a)]
            others = [a for a in numeric if a.ndim > 1 and not is_single_image(a)]
    except AresError:
        return False
    is_sure = bool(pictures) or (bool(lists) and max(lists) - min(lists) > 1)
    return bool(lists) and not others and (has_table or is_sure)


def _find_ranges(folder: Path, numbers: set[int]) -> tuple[Path, list[tuple[int, int]]] | None:
    """The table of first and last numbers of episodes in a folder, as half-open ranges; None for none.

    It is an .npy file of two whole numbers a row, of which the first is that of a file.
    """
    for name in list_folder(folder).files:
        if not name.endswith(".npy"):
            continue
        try:
            with open_npy(str(folder / name)) as arrays:
                array = arrays[""]
                if isinstance(array, SourceError) or array.ndim != 2 or array.shape[1] != 2:
                    continue
                rows = array[()].tolist() if array.dtype.kind in "iu" else []
        except (AresError, OSError):
            continue
        if rows and all(start in numbers and start <= stop for start, stop in rows):
            return folder / name, _half_open(sorted((start, stop) for start, stop in rows), numbers)
    return None


def _half_open(rows: Sequence[tuple[int, int]], numbers: set[int]) -> list[tuple[int, int]]:
    """Ranges whose last number belongs to the episode, unless it is the first of the next one or no file has it."""
    meets_next = any(stop == start for (_, stop), (start, _) in pairwise(rows))
    has_none = all(stop not in numbers and stop - 1 in numbers for _, stop in rows[-1:])
    added = 0 if meets_next or has_none else 1
    return [(start, stop + added) for start, stop in rows]


def _episode_of_range(start: int, stop: int, by_number: Mapping[int, Path]) -> StepEpisode:
    first = by_number[start]
    missing = [step_file_path(str(first), n - start) for n in range(start, stop) if n not in by_number]
    return StepEpisode(first=first, num_steps=stop - start, missing=tuple(missing))


def _consecutive_runs(numbered: Sequence[tuple[str, int, Path]]) -> Iterator[StepEpisode]:
    """Files of one name whose numbers follow each other."""
    start = 0
    for position in range(1, len(numbered) + 1):
        before, after = numbered[position - 1], numbered[position] if position < len(numbered) else None
        if after is None or after[0] != before[0] or after[1] != before[1] + 1:
            yield StepEpisode(first=numbered[start][2], num_steps=position - start)
            start = position


def require_rows_of_steps(arrays: Mapping[str, Any], stated: Sequence[str], where: str) -> None:
    """Raise SourceError for a file that is one time step: lists of unlike length, or lists beside one picture.

    Args:
        arrays: Its arrays by name, or why one cannot be read.
        stated: The signals that a spec names.
        where: The file.
    """
    numeric = {
        key: array
        for key, array in arrays.items()
        if not isinstance(array, SourceError) and array.ndim and array.dtype.kind in "biuf"
    }
    lists = {key: array.shape[0] for key, array in numeric.items() if array.ndim == 1}
    pictures = [key for key, array in numeric.items() if is_single_image(array)]
    if len(lists) + len(pictures) < len(numeric) or not lists:
        return
    roles = guess_array_roles(dict.fromkeys(lists, 2))
    keys = [key for key in (stated or (*roles.state, *roles.action)) if key in lists]
    lengths = {lists[key] for key in (keys if len(keys) > 1 else lists)}
    if pictures or max(lengths) - min(lengths) > 1:
        shapes = ", ".join(f"{key} {array.shape}" for key, array in list(numeric.items())[:8])
        raise SourceError(
            "the file is one time step, not an episode",
            f"{where} holds {shapes}; number the files of an episode through, or join its steps into arrays of"
            " (steps, numbers)",
        )
