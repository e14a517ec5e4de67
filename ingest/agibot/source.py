"""Ingester for AgiBot World: `task_info`, `observations`, `proprio_stats` and `parameters`, by task and episode."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from ares.console import count_are
from ares.errors import SourceError
from ares.io import FolderEntries, absolute_path, folder_name, list_folder, walk_folders
from ares_ingest.agibot.episode import FORMAT, PROPRIO_FILE, AgibotEntry, load_episode
from ares_ingest.agibot.task_info import FAMILY, AgibotTaskInfo, read_agibot_task_file
from ares_ingest.base import (
    FolderClaim,
    FolderIngester,
    Item,
    Source,
    SourceFile,
    SourceOptions,
    failing_item,
    find_claimed_folders,
    stamp_labels,
)
from ares_ingest.folder_layouts import read_folder_layout
from ares_ingest.signals import SpecTimeArray, find_spec_time_array

_PARTS = ("observations", "proprio_stats")
_ARCHIVES = (".tar", ".gz", ".zip")


def _is_dataset(folders: Collection[str]) -> bool:
    """By the names of its folders; `observations` and `task_info` alone are AgiBot World without its signals."""
    return read_folder_layout(FAMILY).has_folders(folders)


def _open_source(root: Path, options: SourceOptions) -> Source:
    from ares_ingest.spec import read_spec

    dataset = options.dataset or folder_name(root)
    time = find_spec_time_array(read_spec(Path(options.spec)) if options.spec else None)
    tasks = {task: _names_of(root, task) for task in _names_of(root)}
    return Source(
        format=FORMAT,
        dataset=dataset,
        total=sum(len(names) + _count_absent(root, task, names) for task, names in tasks.items()),
        items=(
            item
            for task, names in tasks.items()
            for item in _task_items(root, dataset, task, names, options, time)
        ),
        warnings=tuple(_source_warnings(root, tasks)),
        fragile=True,
        folder=str(root),
        files=functools.partial(_list_files, root),
    )


def _names_of(root: Path, *task: str) -> list[str]:
    """Tasks, or episodes of a task, with a folder here, in order of their numbers."""
    names = {child.name for part in _PARTS for child in _visible_folders(root.joinpath(part, *task))}
    return sorted(names, key=lambda name: (len(name), name))


def _count_absent(root: Path, task: str, present: Sequence[str]) -> int:
    """Episodes that task_info names and that have no folder here; none where it cannot be read."""
    try:
        return len(_read_task_info(root, task).keys() - set(present))
    except SourceError:
        return 0  # the items of the task report it


def _visible_folders(folder: Path) -> Iterator[Path]:
    yield from (folder / name for name in list_folder(folder).folders if not name.startswith("."))


def _task_items(
    root: Path, dataset: str, task: str, episodes: list[str], options: SourceOptions, time: SpecTimeArray
) -> Iterator[Item]:
    """One item for each episode of a task; its JSON file is read once. A file that cannot be read fails them all."""
    infos, fault = dict[str, AgibotTaskInfo](), None
    try:
        infos = _read_task_info(root, task)
    except SourceError as error:
        fault = error
    present = set(episodes)
    for name in (*episodes, *(name for name in infos if name not in present)):
        entry = AgibotEntry(
            root=str(root),
            dataset=dataset,
            key=f"{task}/{name}",
            info=infos.get(name),
            rate_hz=options.rate_hz,
            time=time,
        )
        location = f"{root}, task {task}, episode {name}"
        if fault is None and name not in present:
            detail = f"{location}: not downloaded or not unpacked"
            absent = SourceError("episode of task_info is not here", detail)
            yield failing_item(entry.episode_id, location, absent)
        elif fault is not None:
            yield failing_item(entry.episode_id, location, fault)
        else:
            load = functools.partial(load_episode, entry)
            info = entry.info or AgibotTaskInfo()
            stamp = stamp_labels(info.instruction, info.metadata, info.spans)
            yield Item(
                episode_id=entry.episode_id,
                location=location,
                load=load,
                key=entry.key,
                label_stamp=stamp,
            )


def _read_task_info(root: Path, task: str) -> dict[str, AgibotTaskInfo]:
    path = root / "task_info" / f"task_{task}.json"
    return read_agibot_task_file(path) if path.exists() else {}


def _source_warnings(root: Path, tasks: dict[str, list[str]]) -> Iterator[str]:
    """What is described but not here."""
    described = {
        name.removeprefix("task_").removesuffix(".json") for name in list_folder(root / "task_info").files
    }
    absent = len(described - tasks.keys())
    if absent:
        yield f"{count_are(absent, 'task', 'task_info')} without an episode here: not downloaded or not unpacked"


def _list_files(root: Path) -> Iterable[SourceFile]:
    for part in ("task_info", *_PARTS, "parameters"):
        for folder, _, names in walk_folders(root / part):
            for name in names:
                yield _describe_file(folder, name, part)


def _describe_file(folder: Path, name: str, part: str) -> SourceFile:
    path = str(folder / name)
    if name.endswith(_ARCHIVES):
        return SourceFile(path=path, use="unused", detail="an archive: unpack it with tar -xf")
    if part in ("task_info", "parameters"):
        return SourceFile(path=path, use="metadata")
    if name == PROPRIO_FILE or (part == "observations" and name.lower().endswith(".mp4")):
        return SourceFile(path=path, use="data")
    if folder.name == "depth":
        return SourceFile(path=path, use="data")
    return SourceFile(path=path, use="unused", detail="no part of AgiBot World is named so")


class AgibotIngester(FolderIngester):
    """Opens datasets of the format `agibot`."""

    name = FORMAT
    uses = frozenset({"hdf5", "video"})

    def claims(self, folder: FolderEntries) -> FolderClaim | None:
        """Whether a folder is AgiBot World, by the names of its folders."""
        return "dataset" if _is_dataset(folder.folders) else None

    def open(self, path: str, options: SourceOptions) -> list[Source]:
        """Open every copy of AgiBot World at or under a folder. Raises SourceError when there is none."""
        roots = list(find_claimed_folders(self, absolute_path(path)))
        if not roots:
            raise SourceError(
                "folder holds no AgiBot World data", f"{path}: no task_info beside proprio_stats"
            )
        if options.dataset and len(roots) > 1:
            raise SourceError(
                "one name for several datasets", f"{options.dataset!r} for {len(roots)} under {path}"
            )
        return [_open_source(root, options) for root in roots]


agibot = AgibotIngester()
