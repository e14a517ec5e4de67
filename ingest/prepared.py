"""Datasets that tensorflow-datasets has prepared, by name: "tfds:NAME", below the folder where it keeps them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ares.errors import RequestError
from ares.io import absolute_path, is_url, list_folder
from ares.registry import did_you_mean
from ares.settings import tfds_data_dir

_PREFIX = "tfds:"
_METADATA = "features.json"
_NAME = re.compile(r"(?P<name>\w[\w.-]*)(/(?P<config>\w[\w.+-]*))?(:(?P<version>\d+\.\d+\.\d+))?")


def prepared_paths(sources: Sequence[str], data_dir: str = "") -> list[str]:
    """The sources, with the folder of a prepared dataset for "tfds:NAME", "tfds:NAME/CONFIG" or "tfds:NAME:VERSION".

    Args:
        sources: Paths, URLs and names of prepared datasets.
        data_dir: Folder of the prepared datasets; "" for that of tensorflow-datasets, which TFDS_DATA_DIR names.

    Raises RequestError for a name that has a wrong form or is not there, and for a `data_dir` without any name.
    """
    names = [source for source in sources if source.startswith(_PREFIX)]
    if data_dir and not names:
        raise RequestError("--data-dir is for names such as tfds:bridge_dataset", f"got {', '.join(sources)}")
    return [_prepared_path(source, data_dir) if source in names else source for source in sources]


def _prepared_path(source: str, data_dir: str) -> str:
    match = _NAME.fullmatch(source.removeprefix(_PREFIX))
    if not match:
        raise RequestError(
            f"{source!r} is no name of a prepared dataset", "give tfds:NAME[/CONFIG][:VERSION]"
        )
    folder = absolute_path(data_dir or tfds_data_dir())
    if is_url(str(folder)) or not folder.is_dir():
        raise RequestError(
            "the folder of the prepared datasets is missing", f"{folder}: give --data-dir FOLDER"
        )
    for part in filter(None, (match["name"], match["config"])):
        folder = _child(folder, part, source)
    if match["version"]:
        return str(_child(folder, match["version"], source))
    versions = [name for name in list_folder(folder).folders if _is_dataset(folder / name)]
    if not versions:
        configs = ", ".join(list_folder(folder).folders) or "no folder"
        raise RequestError(
            f"{source!r} has no version here", f"{folder} holds {configs}; give tfds:NAME/CONFIG"
        )
    return str(folder / max(versions, key=_version_key))


def _child(folder: Path, name: str, source: str) -> Path:
    """A folder in a folder. Raises RequestError, with those that there are, where it is missing."""
    names = list_folder(folder).folders
    if name in names:
        return folder / name
    listed = ", ".join(names[:24]) or "nothing"
    raise RequestError(
        f"{source!r} is not prepared here",
        f"{folder} has no {name!r}; {did_you_mean(name, names)}it holds {listed}",
    )


def _is_dataset(folder: Path) -> bool:
    return list_folder(folder).has_file(_METADATA)


def _version_key(name: str) -> tuple[tuple[int, ...], str]:
    return tuple(int(part) for part in re.findall(r"\d+", name)), name
