"""Layouts of datasets whose episodes are folders; each stands in `ingest/specs/folders`."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ares.input import read_yaml

_FOLDER = Path(__file__).resolve().parent / "specs" / "folders"


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderLayout:
    """Where the folders of a family of datasets keep what an episode consists of.

    Attributes:
        match: How a folder of it is told: sets of names of `folders` in it, with wildcards, of which one is there as a
            whole; names of `tables` in it.
        robot: The robot, where episodes do not name theirs.
        rate_hz: Steps per second, where there are no stamps; None where episodes differ.
        videos: Folders of the videos of an episode, in order; `{episode}` is its key.
        depth: Folder of pictures of depth of an episode, or "".
        intrinsics: Folders of which the first that is there holds the parameters of the cameras of an episode.
        descriptions: By suffix of a file, the names under which it describes an episode.
        state: Arrays of the state in order, with the names of their dimensions by width.
        action: The same for the action.
        spans: Fields of the labels: style of their spans, and the fields of their start, end and text.
        columns: Regular expression of the columns of a table that have a role.
        texts: Columns that hold instructions.
        reference: Where this information comes from.
    """

    match: Mapping[str, Any] = field(default_factory=dict)
    robot: str = ""
    rate_hz: float | None = None
    videos: tuple[str, ...] = ()
    depth: str = ""
    intrinsics: tuple[str, ...] = ()
    descriptions: Mapping[str, list[str]] = field(default_factory=dict)
    state: Mapping[str, Mapping[int, list[str]]] = field(default_factory=dict)
    action: Mapping[str, Mapping[int, list[str]]] = field(default_factory=dict)
    spans: Mapping[str, tuple[str, str, str, str]] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    reference: str

    def has_folders(self, names: Collection[str]) -> bool:
        """Whether one of the sets of folders of `match` is among some names."""
        return any(all(fnmatch.filter(names, part) for part in parts) for parts in self.match["folders"])


@functools.cache
def read_folder_layout(name: str) -> FolderLayout:
    """The layout of a family by the name of its file."""
    return FolderLayout(**read_yaml(str(_FOLDER / f"{name}.yaml")))
