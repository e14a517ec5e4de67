"""What JSON and text files say of an episode that is a folder."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ares.episode import Json
from ares.errors import SourceError
from ares.input import read_input
from ares.io import describe_os_error, list_folder
from ares_ingest.files import read_json_object
from ares_ingest.folder_layouts import read_folder_layout
from ares_ingest.source_words import InvalidRowError, VideoRow, parse_video_row

TABLE_SUFFIXES = (".csv", ".tsv")
PICKLE_SUFFIXES = (".pkl", ".pickle")
PICKLE_REASON = "reading a pickle can run code, so none is read: save its arrays as npz or HDF5"
_TEXT_BYTES, _LONGEST_TEXT, _MOST_TEXTS = 2**16, 1000, 16
_LONGEST_LIST = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeDescription:
    """What is said about an episode.

    Attributes:
        row: Instruction, outcome, rate and robot of the JSON files.
        texts: Instructions of the text files.
        pickles: Names of the pickles beside the images.
    """

    row: VideoRow
    texts: tuple[str, ...] = ()
    pickles: tuple[str, ...] = ()


def list_table_paths(folder: Path) -> list[Path]:
    """The tables directly in a folder, sorted."""
    return [folder / name for name in _visible_files(folder) if name.lower().endswith(TABLE_SUFFIXES)]


def _visible_files(folder: Path) -> list[str]:
    return [name for name in list_folder(folder).files if name[0] != "."]


def choose_description_files(names: Collection[str], label: str) -> list[str]:
    """Of the files of a folder, those that describe an episode: named for that, or as the episode is."""
    selected = []
    for name in names:
        stem, _, suffix = name.lower().rpartition(".")
        stems = read_folder_layout("pictures").descriptions.get(suffix)
        if stems is not None and (stem in stems or stem == label.lower()):
            selected.append(name)
    return sorted(selected)


def find_description_files(folder: Path) -> list[Path]:
    """The files that describe an episode, in its folder and under its name beside it.

    Beside tables it is any JSON file of the folder, else the one of its name beside it.
    """
    names = _visible_files(folder)
    if any(name.lower().endswith(TABLE_SUFFIXES) for name in names):
        inside = [folder / name for name in names if name.lower().endswith(".json")]
        return inside or _find_beside(folder, (".json",))
    names = choose_description_files(list_folder(folder).files, folder.name)
    return [*(folder / name for name in names), *_find_beside(folder, (".json", ".txt"))]


def _find_beside(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Files of the name of a folder beside it; the folder around it may hold very many and is not listed."""
    paths = (folder.with_name(f"{folder.name}{suffix}") for suffix in suffixes)
    return [path for path in paths if path.is_file()]


def read_episode_description(folder: Path) -> EpisodeDescription:
    """Read what is said about an episode. Raises SourceError for a file that cannot be read or is no JSON object."""
    paths = find_description_files(folder)
    document: dict[str, Any] = {}
    for path in (path for path in paths if path.suffix.lower() == ".json"):
        document |= read_json_object(path)
    try:
        # The same names of fields as in tables about videos.
        fields = {name: value for name, value in document.items() if name not in ("video", "videos")}
        row = parse_video_row({"video": folder.name, **fields})
    except InvalidRowError as error:
        raise SourceError("JSON file has a wrong form", f"{', '.join(map(str, paths))}: {error}") from None
    return EpisodeDescription(
        row=row,
        texts=tuple(text for path in paths if path.suffix.lower() == ".txt" for text in _read_texts(path)),
        pickles=tuple(name for name in list_folder(folder).files if name.lower().endswith(PICKLE_SUFFIXES)),
    )


def _read_texts(path: Path) -> list[str]:
    """The lines of a text file; BridgeData V2 writes the confidence of an annotator as a separate line."""
    try:
        text = read_input(str(path), _TEXT_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise SourceError("text file cannot be read", f"{path}: {describe_os_error(error)}") from None
    lines = (line.strip()[:_LONGEST_TEXT] for line in text.splitlines())
    return [line for line in lines if line and not line.lower().startswith("confidence")][:_MOST_TEXTS]


def select_small_values(document: Mapping[str, Json]) -> dict[str, Json]:
    """The values that are small enough for the metadata of an episode: texts, numbers and short lists."""
    return {
        name: value
        for name, value in document.items()
        if not isinstance(value, list | Mapping) or (isinstance(value, list) and len(value) <= _LONGEST_LIST)
    }
