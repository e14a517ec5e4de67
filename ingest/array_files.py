"""The arrays of .npz and .npy files, and the episodes along an axis of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ares.episode import Json
from ares.errors import SourceError
from ares.input import read_json
from ares.io import (
    describe_os_error,
    list_folder,
)
from ares.media import NpyArray, has_zarr_images, open_npy
from ares_ingest.array_episode import ArrayMember
from ares_ingest.depth import is_depth_array

SUFFIX, ARRAY_SUFFIX = ".npz", ".npy"


class ArrayOfEpisode:
    """What an array that holds several episodes along an axis has of one of them.

    Args:
        array: The array.
        axis: The axis of the episodes.
        number: Number of the episode.
    """

    def __init__(self, array: NpyArray, axis: int, number: int) -> None:
        self._array, self._axis, self._number = array, axis, number
        self.shape = (*array.shape[:axis], *array.shape[axis + 1 :])
        self.ndim, self.dtype, self.size = array.ndim - 1, array.dtype, array.size // array.shape[axis]

    def __getitem__(self, rows: Any) -> Any:
        """Rows of the episode by a slice, or all of them."""
        if self._axis == 0:
            return self._array[self._number][rows]
        return self._array[rows].take(self._number, axis=self._axis)


def take_episode(members: Mapping[str, ArrayMember], axis: int, number: int) -> dict[str, ArrayMember]:
    """One episode of every array that has several along an axis, and all other arrays as they are; no images."""
    count = count_episodes_along(members, axis)
    of_episode = dict(members)
    for key, member in members.items():
        part: Any = member.array
        if not isinstance(part, NpyArray):
            continue
        has_axis = part.ndim > axis + 1 and part.shape[axis] == count
        if has_axis:
            part = ArrayOfEpisode(part, axis, number)
        if has_zarr_images(part) or is_depth_array(key, part):
            part = SourceError(f"images {'along an' if has_axis else 'without the'} axis of episodes", "")
        of_episode[key] = member._replace(array=part)
    return of_episode


def count_episodes_along(members: Mapping[str, ArrayMember], axis: int) -> int:
    """The most frequent length of the arrays along an axis; 0 where none has steps beside it."""
    arrays = [member.array for member in members.values() if isinstance(member.array, NpyArray)]
    counts = Counter(array.shape[axis] for array in arrays if array.ndim > max(axis + 1, 1))
    return max(counts.items(), key=lambda pair: (pair[1], -pair[0]), default=(0, 0))[0]


@contextmanager
def open_arrays(path: str) -> Iterator[dict[str, ArrayMember]]:
    """The arrays of an .npz file by name, or those of the .npy files of a folder by their names.

    Raises SourceError for a file that cannot be read.
    """
    is_file = path.lower().endswith(SUFFIX)
    paths = [path] if is_file else [str(Path(path) / name) for name in list_npy_files(path)]
    with ExitStack() as files:
        members: dict[str, ArrayMember] = {}
        for file_path in paths:
            try:
                arrays: Mapping[str, NpyArray | SourceError] = files.enter_context(open_npy(file_path))
            except OSError as error:
                raise SourceError("file cannot be read", f"{file_path}: {describe_os_error(error)}") from None
            except SourceError as error:
                if is_file:
                    raise
                arrays = {"": error}
            for name, array in arrays.items():
                members[name or Path(file_path).stem] = ArrayMember(array, file_path, name)
        yield members


def list_npy_files(folder: str) -> list[str]:
    """The .npy files of a folder, in order."""
    names = list_folder(Path(folder)).files
    return sorted(name for name in names if name.lower().endswith(ARRAY_SUFFIX) and not name.startswith("."))


def find_json_file(path: str) -> str:
    """The JSON file of an episode: of the same name, or the only one in its folder of .npy files; "" for none."""
    if path.lower().endswith(SUFFIX):
        beside = Path(path).with_suffix(".json")
        # Not Path.is_file: it raises where the name is too long for a file.
        return str(beside) if os.path.isfile(beside) else ""  # noqa: PTH113
    names = [name for name in list_folder(Path(path)).files if name.endswith(".json")]
    return str(Path(path) / names[0]) if len(names) == 1 else ""


def read_episode_json(path: str) -> dict[str, Json]:
    """The JSON object of an episode; empty for no file. Raises SourceError for anything else than an object."""
    if not path:
        return {}
    try:
        document: Any = read_json(path)
    except OSError as error:
        raise SourceError("file cannot be read", f"{path}: {describe_os_error(error)}") from None
    except ValueError as error:
        raise SourceError("JSON file of an episode is not JSON", f"{path}: {error}") from None
    if not isinstance(document, dict):
        raise SourceError("JSON file of an episode holds no object", f"{path}: {type(document).__name__}")
    return document
