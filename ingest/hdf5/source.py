"""Ingester for HDF5 files: finds them, recognises their layout and lists their episodes."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.episode import ASSUMED_RATE_HZ
from ares.errors import SourceError
from ares.input import call_with_time_limit, input_budgets, open_hdf5, open_hdf5_object, translate_hdf5_errors
from ares.io import FolderEntries, absolute_path, folder_name, list_folder, walk_folders
from ares_ingest.array_roles import match_labels, natural_key
from ares_ingest.base import (
    FolderClaim,
    FolderIngester,
    Item,
    Source,
    SourceFile,
    SourceOptions,
    failing_item,
)
from ares_ingest.episode_ends import NO_ENDS, EpisodeEnds, find_ends_keys
from ares_ingest.files import local_files
from ares_ingest.hdf5.episode import FORMAT, HDF5Entry
from ares_ingest.hdf5.episode_groups import (
    find_episode_ends,
    list_episodes,
    list_unknown_episode_groups,
    read_masks,
)
from ares_ingest.hdf5.facts import find_path_parts, has_rate_by_arrays, list_companions, read_facts
from ares_ingest.hdf5.load import known_rate, load_hdf5_episode
from ares_ingest.hdf5.values import find_datasets, read_child_classes, to_plain_value

if TYPE_CHECKING:
    from ares_ingest.spec import DatasetSpec, LayoutSpec


SUFFIXES = frozenset({".hdf5", ".h5"})
NO_FAMILY = "HDF5 file is of no known family"
_MOST_DESCRIBED = 8
_SPLITS = ("train", "valid", "validation", "val", "test")


@dataclass(frozen=True, slots=True, kw_only=True)
class HDF5File:
    """What the structure of a file says, before any episode is read.

    Attributes:
        path: Path of the file.
        layout: Where it keeps what; None for a file whose layout is not known.
        count: Items in the file; 1 for a file that cannot be read.
        has_rate: Whether the recording rate is known.
        warnings: Warnings about the file, not about one of its episodes.
        error: Why it cannot be read.
        ends: Where the episodes in its arrays end, where these hold several.
    """

    path: Path
    layout: LayoutSpec | None = None
    count: int = 1
    has_rate: bool = True
    warnings: tuple[str, ...] = ()
    error: SourceError | None = None
    ends: EpisodeEnds = NO_ENDS


Layouts = Mapping[str, "LayoutSpec"]
_RECORDINGS_FOLDER = "recordings"


def known_layouts(spec: DatasetSpec | None = None) -> Layouts:
    """The layouts that ARES knows, or that which the spec of the user states."""
    from ares_ingest.spec import builtin_layouts

    if spec and spec.layout:
        groups = " or ".join(map(" and ".join, spec.layout.match)) or "any group"
        return {f"the spec ({groups} at the top)": spec.layout}
    return {name: layout for name, layout in builtin_layouts().items() if not layout.ends}


def match_layout(groups: Iterable[str], layouts: Layouts) -> LayoutSpec | None:
    """The layout of which most names are among the groups at the top of a file, or None; one of episodes is first."""
    groups = list(groups)
    matches = [
        (bool(layout.episodes), len(names), layout)
        for layout in layouts.values()
        for names in layout.match or ((),)
        if all(match_labels(name, groups) for name in names)
    ]
    return max(matches, key=lambda match: match[:2], default=(False, 0, None))[2]


def find_episode_folder(names: Iterable[str], layouts: Layouts) -> LayoutSpec | None:
    """The layout of which a folder with these names is an episode, with or without its file; or None."""
    names = list(names)
    return next(
        (
            layout
            for layout in layouts.values()
            if layout.folder and all(match_labels(name, names) for name in layout.folder)
        ),
        None,
    )


def _list_files(hdf5_files: Iterable[HDF5File]) -> Iterator[SourceFile]:
    """The HDF5 files, and what lies beside them."""
    seen: set[tuple[Path, str]] = set()
    for file in hdf5_files:
        if file.error is None:
            yield SourceFile(path=str(file.path), use="data")
        else:
            yield SourceFile(path=str(file.path), use="unreadable", detail=str(file.error))
        if file.layout:
            for companion, use in list_companions(file.layout, file.path, seen):
                yield SourceFile(path=str(companion), use=use)


def _hdf5_paths(folder: Path, layouts: Layouts) -> Iterator[Path]:
    """HDF5 files in or below a folder in natural order; a folder that has lost its file yields the missing path."""
    for parent, subfolders, names in walk_folders(folder):
        subfolders.sort(key=natural_key)
        hdf5_names = [name for name in names if Path(name).suffix.lower() in SUFFIXES]
        if not hdf5_names and (layout := find_episode_folder((*subfolders, *names), layouts)):
            hdf5_names = [layout.file]
        yield from (parent / name for name in sorted(hdf5_names, key=natural_key))


def inspect_file(path: Path, layouts: Layouts) -> HDF5File:
    """Find out a file's layout and count its episodes, from its groups alone."""
    try:
        if not path.exists():
            raise SourceError("the file of an episode is missing", str(path))
        read = functools.partial(_inspect_file, path, layouts)
        return call_with_time_limit(input_budgets().record_seconds, read)
    except SourceError as error:
        entries = list_folder(path.parent)
        of_folder = find_episode_folder((*entries.folders, *entries.files), layouts)
        # The caught error would keep the stack frames of its traceback alive.
        return HDF5File(path=path, layout=of_folder, error=SourceError(error.reason, error.detail))


def _inspect_file(path: Path, layouts: Layouts) -> HDF5File:
    with open_hdf5(str(path)) as file:
        return _inspect_groups(path, file, layouts)


def _inspect_groups(path: Path, file: Any, layouts: Layouts) -> HDF5File:
    """Recognise the layout of an open file. Raises SourceError when it is damaged or of no known layout."""
    import h5py  # type: ignore[import-untyped]

    classes = read_child_classes(file)
    layout = match_layout((name for name, cls in classes.items() if cls is h5py.Group), layouts)
    if layout is None:
        labels = find_datasets(file)
        ends = " or ".join(find_ends_keys(labels))
        says = f"{ends} says where its episodes end; it " if ends else ""
        raise SourceError(
            NO_FAMILY,
            f"{path}: {says}holds {_describe_contents(file) or 'nothing'}; known are those of {', '.join(layouts)};"
            " `ares ingest PATH --show-spec > spec.yaml` guesses which is what: edit it, and read the file with --spec"
            " spec.yaml",
        )
    names = list_episodes(file, layout)
    if not names:
        raise SourceError("file holds no episode", f"{path}: no group {layout.episodes}")
    has_rate, warnings = _inspect_first(file, layout, names)
    return HDF5File(
        path=path,
        layout=layout,
        count=len(names),
        has_rate=has_rate,
        warnings=(*warnings, *_check_masks(file, layout, names)),
    )


def _inspect_first(file: Any, layout: LayoutSpec, names: Iterable[str]) -> tuple[bool, list[str]]:
    """Whether the rate is known, and warnings, by the first episode that can be read; each other fails alone."""
    import h5py

    for name in names:
        entry = HDF5Entry(dataset="", key="", path=file.filename, group=name, layout=layout)
        with suppress(SourceError):
            group = open_hdf5_object(file, name)
            if isinstance(group, h5py.Group):
                datasets = find_datasets(group)
                has_rate = has_rate_by_arrays(layout, datasets) or (
                    known_rate(read_facts(entry, group, datasets))[0] is not None
                )
                return has_rate, _precision_warnings(datasets)
    return True, []


def _describe_contents(file: Any) -> str:
    """The first datasets of a file with their shapes and types. Raises SourceError when it is damaged."""
    datasets = find_datasets(file)
    named = [
        f"{label} {dataset.shape} {dataset.dtype}"
        for label, dataset in islice(datasets.items(), _MOST_DESCRIBED)
    ]
    more = len(datasets) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _precision_warnings(datasets: Mapping[str, Any]) -> list[str]:
    """A warning when float64 numbers lose digits."""
    has_float64 = any(dataset.dtype == "float64" for dataset in datasets.values())
    return ["float64 numbers are stored as float32"] if has_float64 else []


def _check_masks(file: Any, layout: LayoutSpec, episodes: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Warnings about the masks of a file, and the number of its episodes that it states. Raises SourceError."""
    if not layout.masks:
        return
    folder, slash, _ = layout.episodes.rpartition("/")
    with translate_hdf5_errors(f"{file.filename} {folder}"):
        num_demos = to_plain_value((file[folder] if folder else file).attrs.get("num_demos"))
    if isinstance(num_demos, int) and num_demos != len(episodes):
        yield "num_demos is not the number of demonstrations in the file"
    listed = [name for members in read_masks(file, layout).values() for name in members]
    if any(f"{folder}{slash}{name}" not in episodes for name in listed):
        yield "a mask names demonstrations that are not in the file"
    if any(len(set(_SPLITS) & set(masks)) > 1 for masks in episodes.values()):
        yield "a demonstration is in several splits; the first is used"


def _accept_unknown(file: HDF5File, spec: DatasetSpec | None) -> HDF5File:
    """The file, to be read by the names of its datasets where it is of no known family."""
    if file.error is None or file.error.reason != NO_FAMILY:
        return file
    groups = list_unknown_episode_groups(str(file.path))
    try:
        ends = find_episode_ends(str(file.path), spec) if groups == [""] else NO_ENDS
    except SourceError as error:
        return HDF5File(path=file.path, error=SourceError(error.reason, error.detail))
    return HDF5File(path=file.path, count=max(ends.num_items, len(groups)), ends=ends)


def _file_items(file: HDF5File, entry: HDF5Entry) -> Iterator[Item]:
    """One item for each episode; the file is opened again, so that the names of only one file are in memory."""
    if file.error is not None:
        yield failing_item(entry.episode_id, entry.path, file.error)
        return
    try:
        groups = _list_groups(file)
    except SourceError as error:
        for number in range(file.count):
            failing = replace(entry, key=f"{entry.key}/{number}")
            yield failing_item(failing.episode_id, entry.path, error)
        return
    entry = replace(entry, file_ends=file.ends._replace(ends=()))  # not all of them with each episode
    companions = list_companions(file.layout, file.path, set()) if file.layout else ()
    described_by = local_files(str(path) for path, use in companions if use == "metadata")
    for number, rows in enumerate(pairwise((0, *file.ends.ends))):
        part = replace(entry, key=f"{entry.key}/{number}", rows=rows)
        yield replace(_make_item(part, str(number)), described_by=described_by)
    yield from file.ends.items_of_unread_rows(entry, entry.path)
    split = find_path_parts(file.layout, entry.path).get("split", "") if file.layout else ""
    for group, masks in groups.items() if not file.ends.ends else ():
        name = group.rpartition("/")[2]
        episode = replace(
            entry,
            split=next((word for word in _SPLITS if word in masks), split),
            key=f"{entry.key}/{name}".rstrip("/"),
            group=group,
            masks=masks,
            layout=file.layout,
        )
        yield replace(_make_item(episode, name), described_by=described_by)


def _make_item(episode: HDF5Entry, name: str) -> Item:
    load = functools.partial(load_hdf5_episode, episode)
    location = f"{episode.path}, {name}" if name else episode.path
    return Item(episode_id=episode.episode_id, location=location, load=load, key=episode.key)


def _list_groups(file: HDF5File) -> Mapping[str, tuple[str, ...]]:
    """The groups of a file that are episodes, with their masks. Raises SourceError."""
    if file.layout is None:
        return dict.fromkeys(list_unknown_episode_groups(str(file.path)), ())
    if not file.layout.episodes:
        return {"": ()}
    with open_hdf5(str(file.path)) as opened:
        return list_episodes(opened, file.layout)


class Hdf5Ingester(FolderIngester):
    """Opens datasets of the format `hdf5`."""

    name = FORMAT
    uses = frozenset({"video"})
    opens_files = True

    def claims(self, folder: FolderEntries) -> FolderClaim | None:
        """Whether HDF5 files lie in a folder, or it is an episode that has lost its file."""
        if not SUFFIXES.isdisjoint(folder.suffixes):
            return "data"
        # Only episodes of DROID are folders; the layouts, which take a third of a second, are not read for others.
        may_be_episode = _RECORDINGS_FOLDER in folder.folders
        names = (*folder.folders, *folder.files)
        return "data" if may_be_episode and find_episode_folder(names, known_layouts()) else None

    def open(self, path: str, options: SourceOptions) -> list[Source]:
        """Open a folder, or a single file, as one dataset. Raises SourceError when there is no HDF5 file."""
        from ares_ingest.spec import read_spec

        root = absolute_path(path)
        folder = root.parent if root.is_file() else root
        spec = read_spec(Path(options.spec)) if options.spec else None
        layouts = known_layouts(spec)
        paths = [root] if root.is_file() else _hdf5_paths(folder, layouts)
        hdf5_files = [inspect_file(file, layouts) for file in paths]
        if options.reads_unknown or (spec and spec.layout is None):
            hdf5_files = [_accept_unknown(file, spec) for file in hdf5_files]
        if not hdf5_files:
            raise SourceError(
                "folder holds no HDF5 file", f"{path}: no {' or '.join(sorted(SUFFIXES))} in it or below"
            )
        dataset = options.dataset or folder_name(folder)
        entries = (
            HDF5Entry(
                dataset=dataset,
                key=file.path.relative_to(folder).as_posix(),
                path=str(file.path),
                rate_hz=options.rate_hz,
                spec=spec,
            )
            for file in hdf5_files
        )
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
                    for file, entry in zip(hdf5_files, entries, strict=True)
                    for item in _file_items(file, entry)
                ),
                warnings=tuple(warnings),
                fragile=True,
                folder=str(folder),
                files=functools.partial(_list_files, tuple(hdf5_files)),
            )
        ]


hdf5 = Hdf5Ingester()
