"""What is said of an HDF5 episode outside its signals: attributes, small arrays, its path, documents beside it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.episode import Camera, Json, NotRead
from ares.errors import SourceError
from ares.input import open_hdf5_object, parse_json
from ares.io import FileState, describe_os_error, file_state, list_folder, parse_path
from ares_ingest.array_roles import match_labels
from ares_ingest.base import FileUse
from ares_ingest.files import read_json_object
from ares_ingest.hdf5.episode import HDF5Entry, make_video_camera
from ares_ingest.hdf5.reader import HDF5EpisodeReader
from ares_ingest.hdf5.values import (
    LONGEST_LIST,
    keep_small_values,
    parse_json_object,
    read_attributes,
    read_small,
    to_plain_value,
)
from ares_ingest.mapping import PICTURES_FLIPPED, PICTURES_TURNED, PICTURES_UNKNOWN, find_field

if TYPE_CHECKING:
    from ares_ingest.spec import BesideSpec, Condition, LayoutSpec, VideoSpec


@dataclass(frozen=True, slots=True)
class EpisodeFacts:
    """The facts of an episode.

    Attributes:
        layout: The layout, with what its variants say of this episode.
        document: Attributes, parts of the path and documents by name.
        datasets: The datasets of the episode.
        where: The file of the episode.
        warnings: What was missing or contradictory when the documents were read.
    """

    layout: LayoutSpec
    document: Mapping[str, Any]
    datasets: Mapping[str, Any]
    where: Path
    warnings: tuple[str, ...] = ()

    def find(self, key: str) -> Any:
        """A fact, as a Python value: a field of the document, of the attributes, or a small array; None for none."""
        for document in (self.document, self.document["attributes"]):
            value = find_field(document, key)
            if value is not None:
                return value
        dataset = self.datasets.get(key)
        if dataset is None or dataset.shape is None or dataset.size > LONGEST_LIST:
            return None
        return read_small(dataset) if dataset.dtype.kind in "SObiuf" else None

    def rate_hz(self) -> float | None:
        """Steps per second, as the source states them."""
        rates = (self._rate_of(*_rate_parts(part)) for part in self.layout.rate)
        return next((rate for rate in rates if rate), None)

    def _rate_of(self, per: float | None, keys: Sequence[str]) -> float | None:
        values = [value for key in keys if (value := _plausible_rate(self.find(key)))]
        if len(values) < len(keys):
            return None
        return values[0] if per is None else per / prod(values)

    def robot(self) -> str:
        """The names of the robots joined by "+"; "" where nothing names one."""
        for key in self.layout.robot_facts:
            value = self.find(key)
            names = [
                name for name in (value if isinstance(value, list) else [value]) if isinstance(name, str)
            ]
            if names:
                return "+".join(names)
        return self.layout.robot

    def instructions(self) -> tuple[list[str], list[str]]:
        """The texts of the first choice that has any, and warnings."""
        for keys in self.layout.language:
            texts = [text for key in keys for text in _read_texts(self.find(key))]
            if texts:
                is_of_path = any(key.startswith("path.") for key in keys)
                return texts, ["the instruction is the name of the task's folder"] if is_of_path else []
        return [], []

    def success(self) -> tuple[bool | None, str, list[str]]:
        """The outcome, what states it ("folder" for the path, else the name of a field), and warnings."""
        stated = [(key, value) for key in self.layout.success if (value := self._outcome(key)) is not None]
        if not stated:
            return None, "", []
        key, success = stated[0]
        used = self._name_source(key)
        others = [self._name_source(other) for other, value in stated if value != success]
        warnings = [f"{used} and {', '.join(others)} disagree on success; {used} is used"] if others else []
        return success, "folder" if key.startswith("path.") else key.rpartition(".")[2], warnings

    def _name_source(self, key: str) -> str:
        """Where a fact is, for messages: the folder, the file beside the episode, or its attribute or array."""
        first = key.partition(".")[0]
        if first == "path":
            return "the folder"
        beside = self.layout.beside.items()
        files = (part for name, part in beside if first == name or (first == "entry" and part.entries))
        return next((part.shown_path for part in files), key)

    def _outcome(self, key: str) -> bool | None:
        if key == "path.outcome":
            return self.layout.outcomes.get(self.document["path"].get("outcome", ""))
        values = self.datasets.get(key)
        if values is None:
            value = self.find(key)
            return value if isinstance(value, bool) else None
        if values.dtype.kind != "b" or values.ndim != 1 or not len(values):
            return None
        return bool(read_small(values)[-1])

    def step_count_warnings(self, steps: int) -> list[str]:
        """Warnings of facts that count other steps."""
        return [
            f"{key.rpartition('.')[2]} is not the number of actions"
            for key in self.layout.num_steps
            if self.find(key) not in (None, steps)
        ]

    def metadata(self) -> dict[str, Json]:
        """The facts that become metadata, where they are small."""
        values: dict[str, Any] = {}
        for key in self.layout.metadata:
            value = find_field(self.document, key)
            fields = value if isinstance(value, Mapping) else {key.rpartition(".")[2]: value}
            values |= {
                name: part
                for name, part in fields.items()
                if part is not None and f"{key}.{name}" not in self.layout.not_metadata
            }
        return keep_small_values(values)

    def channels(self) -> str:
        """Order of the colours and turn of the pictures, as `MediaRef.channels` has them."""
        channels = self.layout.channels or "rgb"
        return channels if self.layout.turn in (None, "none", "unknown") else f"{channels} {self.layout.turn}"

    def turn_remark(self) -> list[str]:
        """What is to be said of the turn of the pictures, for an episode that has some."""
        if self.layout.turn in (None, "none"):
            return []
        remarks = {"unknown": PICTURES_UNKNOWN, "vertical flip": PICTURES_FLIPPED}
        return [remarks.get(self.layout.turn, PICTURES_TURNED)]


def _rate_parts(part: Any) -> tuple[float | None, Sequence[str]]:
    return (None, (part,)) if isinstance(part, str) else (part.per, part.divided_by)


def _plausible_rate(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 1e-6 < value < 1e6 else None  # type: ignore[operator,arg-type]


def _read_texts(value: object) -> Iterator[str]:
    """The texts of a fact: of a list, of a list as JSON, or of letters that a LIBERO file stores one by one."""
    if isinstance(value, str):
        try:
            listed = parse_json(value, "attribute") if value.startswith("[") else None
        except (ValueError, SourceError):
            listed = None
        if isinstance(listed, list):
            yield from (to_plain_value(text) for text in listed if isinstance(text, str))
        else:
            yield value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
    elif isinstance(value, list):
        texts = [text for text in value if isinstance(text, str)]
        yield from ["".join(texts)] if len(texts) > 1 and all(len(text) <= 1 for text in texts) else texts


def read_facts(entry: HDF5Entry, group: Any, datasets: Mapping[str, Any]) -> EpisodeFacts:
    """Read what is said of an episode. Raises SourceError when the file is damaged."""
    from ares_ingest.spec import LayoutSpec

    layout = entry.layout or LayoutSpec(metadata=("attributes",))
    where, warnings = parse_path(entry.path), list[str]()
    document: dict[str, Any] = {
        "attributes": _parse_fields(read_attributes(group), layout, warnings),
        "path": find_path_parts(layout, entry.path),
    }
    if "/" in layout.episodes:
        parent = open_hdf5_object(group.file, layout.episodes.rpartition("/")[0])
        document["parent"] = _parse_fields(read_attributes(parent), layout, warnings)
    for name, beside in layout.beside.items():
        document[name] = _read_beside(beside, where, warnings)
        if beside.entries:
            document["entry"] = _find_entry(document[name], beside, entry.group, warnings)
    facts = EpisodeFacts(layout, document, datasets, where, tuple(warnings))
    update: dict[str, Any] = {}
    for variant in layout.variants:
        if all(_is_met(facts, key, condition) for key, condition in variant.when.items()):
            update = {name: getattr(variant, name) for name in variant.model_fields_set - {"when"}} | update
    return replace(facts, layout=layout.model_copy(update=update))


def _is_met(facts: EpisodeFacts, key: str, condition: Condition) -> bool:
    arrays = match_labels(key, facts.datasets)
    if isinstance(condition, bool):
        return bool(arrays or facts.find(key)) is condition
    if isinstance(condition, int):
        return any((facts.datasets[label].shape or ())[1:] == (condition,) for label in arrays)
    return str(facts.find(key)) == condition


def has_rate_by_arrays(layout: LayoutSpec, datasets: Mapping[str, Any]) -> bool:
    """Whether the widths of the arrays alone tell the rate, so that no attribute needs to be read."""
    facts = EpisodeFacts(layout, {"attributes": {}, "path": {}}, datasets, Path())
    return bool(layout.rate_hz) or any(
        variant.rate_hz
        and all(type(part) is int and _is_met(facts, key, part) for key, part in variant.when.items())
        for variant in layout.variants
    )


def find_path_parts(layout: LayoutSpec, path: str) -> dict[str, str]:
    """What the regular expressions of a layout find in the path of a file, by the names of their groups."""
    parts: dict[str, str] = {}
    for expression in layout.path:
        match = re.search(expression, path)
        parts |= {name: text for name, text in match.groupdict().items() if text} if match else {}
    return parts | ({"text": parts["text"].replace("_", " ")} if "text" in parts else {})


def _parse_fields(attributes: dict[str, Any], layout: LayoutSpec, warnings: list[str]) -> dict[str, Any]:
    """The attributes, with those that are JSON as objects."""
    for name in layout.json_fields:
        if name in attributes:
            attributes[name] = parse_json_object(attributes[name])
            if attributes[name] is None:
                warnings.append(f"{name} is no JSON object")
    return attributes


def _read_beside(beside: BesideSpec, where: Path, warnings: list[str]) -> dict[str, Any]:
    """The objects beside a file as one; empty, and a warning, where there is none.

    Nothing says which of several is right: what they contradict each other in is left out, and named.
    """
    folder, name = resolve_beside(where, beside.path)
    shown = beside.shown_path
    paths = sorted(folder.glob(name)) if "*" in name else [folder / name]
    if not paths:
        warnings.append(f"{shown} is missing")
    values: dict[str, list[Any]] = {}
    for path in paths:
        try:
            document = read_json_once(path)
        except SourceError as error:
            # The same for every episode.
            warnings.append(
                f"{shown} beside the file cannot be read ({error.reason.replace(path.name, 'it')})"
            )
            continue
        for field, value in document.items():
            if value not in (known := values.setdefault(field, [])):
                known.append(value)
    disputed = [field for field, variants in values.items() if len(variants) > 1]
    if disputed:
        warnings.append(
            NotRead(f"{len(paths)} {shown} contradict each other in {', '.join(disputed)}: left out")
        )
    return {field: variants[0] for field, variants in values.items() if len(variants) == 1}


def resolve_beside(file: Path, path: str) -> tuple[Path, str]:
    """Folder and name of a path from the folder of a file on, with the stem of the file."""
    folder = file.parent
    *parts, name = path.replace("{stem}", file.stem).split("/")
    for part in parts:
        folder = folder.parent if part == ".." else folder / part
    return folder, name


def read_json_once(path: Path) -> dict[str, Any]:
    """The object in a JSON file, read once for all the episodes that it describes. Raises SourceError."""
    try:
        state = file_state(str(path))
    except (FileNotFoundError, NotADirectoryError):
        raise SourceError("file is missing", str(path)) from None
    except OSError as error:
        raise SourceError("file cannot be read", f"{path}: {describe_os_error(error)}") from None
    return _read_json_cached(str(path), state)


@functools.lru_cache(maxsize=8)
def _read_json_cached(path: str, state: FileState) -> dict[str, Any]:
    document: dict[str, Any] = to_plain_value(read_json_object(parse_path(path)))
    return document


def _find_entry(
    document: Mapping[str, Any], beside: BesideSpec, group: str, warnings: list[str]
) -> dict[str, Any]:
    """The entry of an episode by the number of its group, which is nearly always at that index."""
    entries = document.get(beside.entries)
    entries = entries if isinstance(entries, list) else []
    match = re.search(r"\d{1,18}$", group)
    number = int(match[0]) if match else -1
    for entry in (*entries[number : number + 1], *entries):
        if isinstance(entry, dict) and entry.get(beside.number) == number:
            return entry
    if document:
        warnings.append(f"{beside.shown_path} beside the file does not describe the episode")
    return {}


def add_videos_to_reader(facts: EpisodeFacts, reader: HDF5EpisodeReader) -> tuple[Camera, ...]:
    """Hash the videos beside the file into a reader; returns a camera for each that can be read.

    The reader gets a warning for each that is missing or cannot be read.
    """
    used_paths, cameras = set[Path](), list[Camera]()
    for name, video in facts.layout.videos.items():
        for path in _video_paths(facts, video):
            if path in used_paths:
                continue
            used_paths.add(path)
            is_named = "*" not in video.path
            if is_named and not path.exists():
                reader.warnings.append(f"camera {name} has no video")
                reader.missing.append(name)
                continue
            label = name if is_named else path.stem
            hash_label = "" if "{stem}" in video.path else path.stem
            camera = make_video_camera(label, video.role, str(path), reader, hash_label=hash_label)
            if camera:
                cameras.append(camera)
    return tuple(cameras)


def _video_paths(facts: EpisodeFacts, video: VideoSpec) -> list[Path]:
    """The videos of a part of the layout; none where a fact of their path is missing."""
    keys = re.findall(r"\{([^}]+)\}", video.path.replace("{stem}", ""))
    values = {key: facts.find(key) for key in keys}
    if not all(values.values()):
        return []
    # A fact is a part of a name: it leads to no other folder.
    names = {key: str(value).replace("/", "_") for key, value in values.items()}
    path = functools.reduce(lambda text, key: text.replace(f"{{{key}}}", names[key]), keys, video.path)
    folder, name = resolve_beside(facts.where, path)
    if "*" not in name:
        return [folder / name]
    return [match for match in sorted(folder.glob(name)) if not fnmatchcase(match.name, video.without)]


def list_companions(
    layout: LayoutSpec, path: Path, seen: set[tuple[Path, str]]
) -> Iterator[tuple[Path, FileUse]]:
    """The files beside an HDF5 file that belong to it, with their use; those of its folder once for all of `seen`."""
    named: list[tuple[str, FileUse]] = [(part.path, "metadata") for part in layout.beside.values()]
    named += [(part.path, "data") for part in layout.videos.values()]
    for pattern, use in (*named, *layout.files.items()):
        folder, name = resolve_beside(path, pattern)
        name = re.sub(r"\{[^}]+\}", "*", name)
        if (folder, name) in seen:
            continue
        if "{stem}" not in pattern:
            seen.add((folder, name))
        files = list_folder(folder).files
        match = match_labels(name, files) if "*" in name else [name] if name in files else []
        yield from ((folder / file, use) for file in match)
