"""The files of an npz episode: its arrays, its JSON file, and the steps at which the episodes of one file end."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ares.episode import Json
from ares.errors import SourceError
from ares.input import read_json
from ares.io import describe_os_error, list_folder
from ares.media.readers import NpyArray, open_npy

SUFFIX, ARRAY_SUFFIX = ".npz", ".npy"


class NpyMember(NamedTuple):
    """An array of an episode, or why it cannot be read, and where its rows are.

    Attributes:
        array: The array.
        path: Its file.
        name: Its name in that file; "" for an .npy file.
    """

    array: NpyArray | SourceError
    path: str
    name: str


@contextmanager
def open_arrays(path: str) -> Iterator[dict[str, NpyMember]]:
    """The arrays of an .npz file by name, or those of the .npy files of a folder by their names.

    Raises SourceError for a file that cannot be read.
    """
    is_file = path.lower().endswith(SUFFIX)
    paths = [path] if is_file else [str(Path(path) / name) for name in array_names(path)]
    with ExitStack() as files:
        members: dict[str, NpyMember] = {}
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
                members[name or Path(file_path).stem] = NpyMember(array, file_path, name)
        yield members


def array_names(folder: str) -> list[str]:
    """The .npy files of a folder, in order."""
    names = list_folder(Path(folder)).files
    return sorted(name for name in names if name.lower().endswith(ARRAY_SUFFIX) and not name.startswith("."))


def json_file(path: str) -> str:
    """The JSON file of an episode: of the same name, or the only one in its folder of .npy files; "" for none."""
    if path.lower().endswith(SUFFIX):
        beside = Path(path).with_suffix(".json")
        # Not Path.is_file: it raises where the name is too long for a file.
        return str(beside) if os.path.isfile(beside) else ""  # noqa: PTH113
    names = [name for name in list_folder(Path(path)).files if name.endswith(".json")]
    return str(Path(path) / names[0]) if len(names) == 1 else ""


def read_document(path: str) -> dict[str, Json]:
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


def read_ends(members: Mapping[str, NpyMember], key: str, path: str) -> tuple[int, ...]:
    """The steps at which the episodes of a file end; empty where there is no such array. Raises SourceError."""
    member = members.get(key)
    if member is None:
        return ()
    array = member.array
    if isinstance(array, SourceError):
        raise array
    if array.ndim != 1 or array.dtype.kind not in "iu" or not array.size:
        raise SourceError("episode_ends is no list of whole numbers", f"{path}: {array.dtype} {array.shape}")
    ends = array[:].tolist()
    if ends != sorted(set(ends)) or ends[0] <= 0:
        raise SourceError("episode_ends does not rise", f"{path}: {key} is {ends[:10]!s}")
    return tuple(ends)
