"""Ingester for HDF5 files of robomimic, ALOHA, the projects in the table of families, and raw DROID folders."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.episode import ASSUMED_RATE_HZ, Record
from ares.errors import SourceError
from ares.formats import INFO_PATH
from ares.input import call_with_time_limit, input_budgets, open_hdf5, open_hdf5_object, translate_hdf5_errors
from ares.io import FolderEntries, absolute_path, folder_name, list_folder, walk_folders
from ingest.base import (
    FileUse,
    FolderClaim,
    FolderIngester,
    Item,
    Source,
    SourceFile,
    SourceOptions,
    failing_item,
)
from ingest.hdf5.demos import (
    check_demo_file,
    choose_split_of_masks,
    list_demos_with_masks,
    load_robomimic_demo,
    read_demo_file_attributes,
    simulator_rate_hz,
)
from ingest.hdf5.droid import RECORDINGS, TRAJECTORY_FILE, is_droid_folder, load_droid
from ingest.hdf5.episode import (
    FAMILY,
    FORMAT,
    NO_FAMILY,
    HDF5Entry,
    list_unknown_episode_groups,
    load_unknown_hdf5,
)
from ingest.hdf5.families import (
    BY_NAME,
    FAMILIES,
    Family,
    has_aloha_action_width,
    list_companion_files,
    list_episode_groups,
    load_aloha,
    load_family_episode,
    match_hdf5_family,
    shared_files,
)
from ingest.hdf5.reader import find_datasets, natural_key, read_attributes, read_child_classes
from ingest.signals import find_spec_time_array

if TYPE_CHECKING:
    from ingest.spec import DatasetSpec


SUFFIXES = frozenset({".hdf5", ".h5"})
_MOST_DESCRIBED = 8
_LOADERS: dict[str, Callable[[HDF5Entry], Record]] = {"aloha": load_aloha, "droid": load_droid}


@dataclass(frozen=True, slots=True, kw_only=True)
class HDF5File:
    """What the structure of a file says, before any episode is read.

    Attributes:
        path: Path of the file.
        family: "demos", "aloha", "droid" or the name of a family in the table; "" for a file that cannot be read.
        count: Episodes in the file; 1 for a file that cannot be read.
        has_rate: Whether the recording rate is known.
        warnings: Warnings about the file, not about one of its episodes.
        error: Why it cannot be read.
    """

    path: Path
    family: str = ""
    count: int = 1
    has_rate: bool = True
    warnings: tuple[str, ...] = ()
    error: SourceError | None = None


def _is_droid_listing(folder: FolderEntries) -> bool:
    return RECORDINGS in folder.folders and any(
        name.startswith("metadata_") and name.endswith(".json") for name in folder.files
    )


def _list_files(hdf5_files: Iterable[HDF5File]) -> Iterator[SourceFile]:
    """The HDF5 files, what lies beside them, and the recordings and metadata in the folders of DROID episodes."""
    folders: set[Path] = set()
    for file in hdf5_files:
        if file.error is None:
            yield SourceFile(path=str(file.path), use="data")
        else:
            yield SourceFile(path=str(file.path), use="unreadable", detail=str(file.error))
        yield from _list_companions(file, folders)
        if file.family == "droid" or is_droid_folder(file.path.parent):
            for parent, _, names in walk_folders(file.path.parent):
                for name in names:
                    use: FileUse = "metadata" if name.endswith(".json") else "data"
                    if name.endswith((".json", ".mp4", ".svo")):
                        yield SourceFile(path=str(parent / name), use=use)


def _list_companions(file: HDF5File, folders: set[Path]) -> Iterator[SourceFile]:
    """The files beside an HDF5 file that belong to it; those of its folder when the folder is not among `folders`."""
    for companion, use in list_companion_files(file.family, file.path):
        if companion.name in list_folder(companion.parent).files:
            yield SourceFile(path=str(companion), use=use)
    if file.path.parent not in folders:
        folders.add(file.path.parent)
        for companion in shared_files(file.family, file.path.parent):
            if companion.name in list_folder(companion.parent).files:
                yield SourceFile(path=str(companion), use="metadata")


def _hdf5_paths(folder: Path) -> Iterator[Path]:
    """HDF5 files in or below a folder in natural order; a DROID folder without its file yields the missing path."""
    for parent, subfolders, names in walk_folders(folder):
        subfolders.sort(key=natural_key)
        hdf5_names = [name for name in names if Path(name).suffix.lower() in SUFFIXES]
        if not hdf5_names and RECORDINGS in subfolders and is_droid_folder(parent):
            hdf5_names = [TRAJECTORY_FILE]
        yield from (parent / name for name in sorted(hdf5_names, key=natural_key))


def inspect_file(path: Path) -> HDF5File:
    """Find out a file's family and count its episodes, from its groups alone."""
    if is_droid_folder(path.parent) and not path.exists():
        return HDF5File(path=path, error=SourceError("DROID folder has no trajectory.h5", str(path.parent)))
    try:
        return call_with_time_limit(input_budgets().record_seconds, functools.partial(_inspect_file, path))
    except SourceError as error:
        # The caught error would keep the stack frames of its traceback alive.
        return HDF5File(path=path, error=SourceError(error.reason, error.detail))


def _inspect_file(path: Path) -> HDF5File:
    with open_hdf5(str(path)) as file:
        return _inspect_groups(path, file)


def _inspect_groups(path: Path, file: Any) -> HDF5File:
    """Recognise the family of an open file. Raises SourceError when it is damaged or of no supported family."""
    import h5py  # type: ignore[import-untyped]

    classes = read_child_classes(file)
    if classes.get("data") is h5py.Group:
        return _inspect_demos(path, file)
    family = match_hdf5_family(name for name, cls in classes.items() if cls is h5py.Group)
    if family:
        return _inspect_family(path, file, family, classes)
    if classes.get("observations") is h5py.Group:
        datasets = find_datasets(file)
        is_aloha = "action" in datasets and has_aloha_action_width(datasets["action"])
        return HDF5File(
            path=path, family="aloha", has_rate=is_aloha, warnings=tuple(_precision_warnings(datasets))
        )
    if classes.get("action") is h5py.Group and classes.get("observation") is h5py.Group:
        return HDF5File(path=path, family="droid", warnings=tuple(_precision_warnings(find_datasets(file))))
    raise SourceError(
        NO_FAMILY,
        f"{path}: holds {_describe_contents(file) or 'nothing'}; known are data/demo_* (robomimic, LIBERO, Isaac Lab, "
        f"robosuite), observations with action (ALOHA), observation and action (DROID), "
        f"{', '.join(family.name for family in FAMILIES)}; `ares ingest PATH --show-spec > spec.yaml` guesses which is"
        " what: edit it, and read the file with --spec spec.yaml",
    )


def _describe_contents(file: Any) -> str:
    """The first datasets of a file with their shapes and types. Raises SourceError when it is damaged."""
    datasets = find_datasets(file)
    named = [
        f"{label} {dataset.shape} {dataset.dtype}"
        for label, dataset in islice(datasets.items(), _MOST_DESCRIBED)
    ]
    more = len(datasets) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _inspect_family(path: Path, file: Any, family: Family, classes: Mapping[str, Any]) -> HDF5File:
    names = list_episode_groups(family, classes) if family.episodes else [""]
    first = open_hdf5_object(file, names[0])
    datasets = find_datasets(first) if first is not None else {}
    return HDF5File(
        path=path,
        family=family.name,
        count=len(names),
        has_rate=family.rate_hz is not None or "additional_info/frequency" in datasets,
        warnings=tuple(_precision_warnings(datasets)),
    )


def _inspect_demos(path: Path, file: Any) -> HDF5File:
    import h5py

    names = list(list_demos_with_masks(file))
    if not names:
        raise SourceError("file holds no demonstrations", f"{path}: no group under data")
    with translate_hdf5_errors(str(path)):
        data = file["data"]
    groups = [name for name, cls in read_child_classes(data).items() if cls is h5py.Group]
    with translate_hdf5_errors(str(path)):
        first = find_datasets(data[groups[0]]) if groups else {}
        attributes = read_attributes(data[groups[0]]) if groups else {}
        clock_hz = simulator_rate_hz(first, attributes, str(path))
    return HDF5File(
        path=path,
        family="demos",
        count=len(names),
        has_rate=clock_hz is not None or read_demo_file_attributes(data).rate_hz is not None,
        warnings=(*_precision_warnings(first), *check_demo_file(file)),
    )


def _precision_warnings(datasets: dict[str, Any]) -> list[str]:
    """A warning when float64 numbers lose digits."""
    has_float64 = any(dataset.dtype == "float64" for dataset in datasets.values())
    return ["float64 numbers are stored as float32"] if has_float64 else []


def _accept_unknown(file: HDF5File) -> HDF5File:
    """The file, to be read by the names of its datasets where it is of no known family."""
    if file.error is None or file.error.reason != NO_FAMILY:
        return file
    return HDF5File(path=file.path, family=FAMILY, count=len(list_unknown_episode_groups(str(file.path))))


def _unknown_items(file_entry: HDF5Entry, spec: DatasetSpec | None) -> Iterator[Item]:
    """One item for each episode of a file of no known family."""
    for group in list_unknown_episode_groups(file_entry.path):
        key = f"{file_entry.key}/{group}".rstrip("/")
        entry = replace(file_entry, key=key, group=group)
        load = functools.partial(load_unknown_hdf5, entry, spec)
        yield Item(episode_id=entry.episode_id, location=_entry_location(entry), load=load, key=entry.key)


def _file_items(
    file: HDF5File, folder: Path, dataset: str, rate_hz: float | None, spec: DatasetSpec | None
) -> Iterator[Item]:
    """One item for each episode of a file."""
    key = file.path.relative_to(folder).as_posix()
    file_entry = HDF5Entry(dataset=dataset, key=key, path=str(file.path), rate_hz=rate_hz)
    file_entry = replace(file_entry, time=find_spec_time_array(spec))
    if file.error is not None:
        yield failing_item(file_entry.episode_id, _entry_location(file_entry), file.error)
    elif file.family == FAMILY:
        yield from _unknown_items(file_entry, spec)
    elif file.family in BY_NAME:
        yield from _family_items(file_entry, file)
    elif file.family != "demos":
        load = functools.partial(_LOADERS[file.family], file_entry)
        yield Item(episode_id=file_entry.episode_id, location=file_entry.path, load=load, key=key)
    else:
        yield from _demo_items(file_entry, file)


def _family_items(file_entry: HDF5Entry, file: HDF5File) -> Iterator[Item]:
    """One item for each episode of a file of a project in the table."""
    family = BY_NAME[file.family]
    split = next((part for part in reversed(file.path.parts) if part in family.splits), "")
    try:
        names = _episode_names(file_entry.path, family)
    except SourceError as error:
        yield from _failing_items(file_entry, file.count, error)
        return
    for name in names:
        key = f"{file_entry.key}/{name}" if name else file_entry.key
        entry = replace(file_entry, split=split, key=key, group=name)
        load = functools.partial(load_family_episode, family.name, entry)
        yield Item(episode_id=entry.episode_id, location=_entry_location(entry), load=load, key=entry.key)


def _episode_names(path: str, family: Family) -> list[str]:
    """The groups that are episodes, or "" for a file that is one. Raises SourceError."""
    if not family.episodes:
        return [""]
    with open_hdf5(path) as file:
        return list_episode_groups(family, read_child_classes(file))


def _failing_items(file_entry: HDF5Entry, count: int, error: SourceError) -> Iterator[Item]:
    """Failing items for the episodes of a file that could be opened before."""
    for number in range(count):
        entry = _demo_entry(file_entry, str(number), ())
        yield failing_item(entry.episode_id, _entry_location(entry), error)


def _demo_items(file_entry: HDF5Entry, demo_file: HDF5File) -> Iterator[Item]:
    """One item for each demonstration; the file is opened again, so that the names of only one file are in memory."""
    try:
        with open_hdf5(file_entry.path) as file:
            demos = list_demos_with_masks(file)
    except SourceError as error:
        yield from _failing_items(file_entry, demo_file.count, error)
        return
    for name, masks in demos.items():
        entry = _demo_entry(file_entry, name, masks)
        load = functools.partial(load_robomimic_demo, entry)
        location = f"{entry.path}, {name}"
        yield Item(episode_id=entry.episode_id, location=location, load=load, key=entry.key)


def _demo_entry(file_entry: HDF5Entry, name: str, masks: tuple[str, ...]) -> HDF5Entry:
    return replace(
        file_entry,
        split=choose_split_of_masks(masks),
        key=f"{file_entry.key}/{name}",
        group=f"data/{name}",
        masks=masks,
    )


def _entry_location(entry: HDF5Entry) -> str:
    return f"{entry.path} {entry.group}".strip()


class Hdf5Ingester(FolderIngester):
    """Opens datasets of the format `hdf5`."""

    name = FORMAT
    uses = frozenset({"video"})

    def recognises(self, path: str) -> bool:
        """Whether a path is an HDF5 file, or a folder with an HDF5 file or DROID episode at any depth."""
        root = absolute_path(path)
        if root.is_file():
            return root.suffix.lower() in SUFFIXES
        if (root / INFO_PATH).exists():
            return False
        return next(_hdf5_paths(root), None) is not None

    def claims(self, folder: FolderEntries) -> FolderClaim | None:
        """Whether HDF5 files lie in a folder, or it is a DROID episode that has lost its file."""
        is_data = not SUFFIXES.isdisjoint(folder.suffixes) or _is_droid_listing(folder)
        return "data" if is_data else None

    def open(self, path: str, options: SourceOptions) -> list[Source]:
        """Open a folder, or a single file, as one dataset. Raises SourceError when there is no HDF5 file."""
        from ingest.spec import read_spec

        root = absolute_path(path)
        folder = root.parent if root.is_file() else root
        hdf5_files = [inspect_file(file) for file in ([root] if root.is_file() else _hdf5_paths(folder))]
        spec = read_spec(Path(options.spec)) if options.spec else None
        if spec or options.reads_unknown:
            hdf5_files = [_accept_unknown(file) for file in hdf5_files]
        if not hdf5_files:
            raise SourceError(
                "folder holds no HDF5 file", f"{path}: no {' or '.join(sorted(SUFFIXES))} in it or below"
            )
        dataset = options.dataset or folder_name(folder)
        warnings = dict.fromkeys(warning for file in hdf5_files for warning in file.warnings)
        if options.rate_hz is None and not all(file.has_rate for file in hdf5_files):
            warnings[f"rate is not known, {ASSUMED_RATE_HZ:g} Hz assumed (give --rate)"] = None
        return [
            Source(
                format=FORMAT,
                dataset=dataset,
                total=sum(file.count for file in hdf5_files),
                items=(
                    item
                    for file in hdf5_files
                    for item in _file_items(file, folder, dataset, options.rate_hz, spec)
                ),
                warnings=tuple(warnings),
                fragile=True,
                folder=str(folder),
                files=functools.partial(_list_files, tuple(hdf5_files)),
            )
        ]


hdf5 = Hdf5Ingester()
