"""Ingest HDF5 files of robomimic, LIBERO, Isaac Lab, robosuite and ALOHA, and raw folders of DROID."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ares import files
from ares.episode import ASSUMED_RATE_HZ, Record
from ares.errors import SourceError
from ares.media.hdf5 import opened, reading
from ingest import hdf5_aloha, hdf5_demos, hdf5_droid
from ingest.base import Ingester, Item, Options, Source
from ingest.hdf5_record import FORMAT, Entry
from ingest.hdf5_values import arrays, children, natural

SUFFIXES = frozenset({".hdf5", ".h5"})
_LOADERS: dict[str, Callable[[Entry], Record]] = {
    "aloha": hdf5_aloha.load_aloha,
    "droid": hdf5_droid.load_droid,
    "demos": hdf5_demos.load_demo,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file that was looked at.

    Attributes:
        path: Where it is.
        family: "demos", "aloha" or "droid"; "" for a file that cannot be read.
        count: Episodes in it; 1 for a file that cannot be read.
        rated: Whether its rate is known.
        warnings: What is odd about it as a whole.
        error: Why it cannot be read.
    """

    path: Path
    family: str = ""
    count: int = 1
    rated: bool = True
    warnings: tuple[str, ...] = ()
    error: SourceError | None = None


def recognises(path: str) -> bool:
    """Whether a path is an HDF5 file, or a folder with one (or an episode of DROID) in it or below it."""
    place = files.absolute(path)
    if place.is_file():
        return place.suffix.lower() in SUFFIXES
    if (place / "meta" / "info.json").exists():
        return False
    return next(_files(place), None) is not None


def open_hdf5(path: str, options: Options) -> list[Source]:
    """The folder (or the one file) as a dataset. Raises SourceError when there is no HDF5 file."""
    asked = files.absolute(path)
    folder = asked.parent if asked.is_file() else asked
    found = [look(file) for file in ([asked] if asked.is_file() else _files(folder))]
    if not found:
        raise SourceError(
            "folder holds no HDF5 file", f"{path}: no {' or '.join(sorted(SUFFIXES))} in it or below"
        )
    dataset = options.dataset or files.title(folder)
    warnings = dict.fromkeys(warning for one in found for warning in one.warnings)
    if options.rate_hz is None and not all(one.rated for one in found):
        warnings[f"rate is not known, {ASSUMED_RATE_HZ:g} Hz assumed (give --rate)"] = None
    return [
        Source(
            format=FORMAT,
            dataset=dataset,
            version="",
            total=sum(one.count for one in found),
            items=(item for one in found for item in _items(one, folder, dataset, options.rate_hz)),
            warnings=tuple(warnings),
            fragile=True,
        )
    ]


def _files(folder: Path) -> Iterator[Path]:
    """Every HDF5 file in or below a folder, sorted by number, and the one that a DROID folder should have."""
    for place, below, names in files.walk(folder):
        below.sort(key=natural)
        found = [name for name in names if Path(name).suffix.lower() in SUFFIXES]
        if not found and hdf5_droid.RECORDINGS in below and hdf5_droid.is_folder(place):
            found = [hdf5_droid.FILE]
        yield from (place / name for name in sorted(found, key=natural))


def look(path: Path) -> Found:
    """Tell a file's family by its groups and count its episodes; nothing but structure is read."""
    if hdf5_droid.is_folder(path.parent) and not path.exists():
        return Found(path=path, error=SourceError("DROID folder has no trajectory.h5", str(path.parent)))
    try:
        with opened(str(path)) as file:
            return _family(path, file)
    except SourceError as error:
        # A new one: the error that was caught holds on to the frames in which it was raised.
        return Found(path=path, error=SourceError(error.reason, error.detail))


def _family(path: Path, file: Any) -> Found:
    """What a file holds. Raises SourceError when it is damaged or of no family."""
    import h5py  # type: ignore[import-untyped]

    kinds = children(file)
    if kinds.get("data") is h5py.Group:
        return _demos(path, file)
    if kinds.get("observations") is h5py.Group:
        named = arrays(file)
        known = "action" in named and hdf5_aloha.is_known(named["action"])
        return Found(path=path, family="aloha", rated=known, warnings=tuple(_wide(named)))
    if kinds.get("action") is h5py.Group and kinds.get("observation") is h5py.Group:
        return Found(path=path, family="droid", warnings=tuple(_wide(arrays(file))))
    raise SourceError(
        "HDF5 file is of no known family",
        f"{path}: holds {', '.join(sorted(kinds)) or 'nothing'}; known are data/demo_* (robomimic, LIBERO, Isaac Lab, "
        "robosuite), observations with action (ALOHA), observation and action (DROID)",
    )


def _demos(path: Path, file: Any) -> Found:
    import h5py

    names = list(hdf5_demos.names_and_masks(file))
    if not names:
        raise SourceError("file holds no demonstration", f"{path}: no group under data")
    with reading(str(path)):
        data = file["data"]
    there = [name for name, kind in children(data).items() if kind is h5py.Group]
    with reading(str(path)):
        first = arrays(data[there[0]]) if there else {}
    return Found(
        path=path,
        family="demos",
        count=len(names),
        rated=hdf5_demos.environment(data).rate_hz is not None,
        warnings=(*_wide(first), *hdf5_demos.odd(file)),
    )


def _wide(named: dict[str, Any]) -> list[str]:
    """A warning when numbers lose digits."""
    wide = any(one.dtype == "float64" for one in named.values())
    return ["float64 numbers are stored as float32"] if wide else []


def _items(found: Found, folder: Path, dataset: str, rate_hz: float | None) -> Iterator[Item]:
    """One item for each episode of a file."""
    key = found.path.relative_to(folder).as_posix()
    whole = Entry(dataset=dataset, split="", key=key, path=str(found.path), rate_hz=rate_hz)
    if found.error is not None:
        yield _failing(whole, found.error)
    elif found.family != "demos":
        yield _item(whole, str(found.path), functools.partial(_LOADERS[found.family], whole))
    else:
        yield from _demo_items(whole, found)


def _demo_items(whole: Entry, found: Found) -> Iterator[Item]:
    """One item for each demonstration; the file is opened again, so that only one file's names are held."""
    try:
        with opened(whole.path) as file:
            named = hdf5_demos.names_and_masks(file)
    except SourceError as error:
        for number in range(found.count):
            yield _failing(_inside(whole, str(number), ()), error)
        return
    for name, masks in named.items():
        entry = _inside(whole, name, masks)
        yield _item(entry, f"{whole.path}, {name}", functools.partial(_LOADERS["demos"], entry))


def _inside(whole: Entry, name: str, masks: tuple[str, ...]) -> Entry:
    return Entry(
        dataset=whole.dataset,
        split=hdf5_demos.split_of(masks),
        key=f"{whole.key}/{name}",
        path=whole.path,
        group=f"data/{name}",
        rate_hz=whole.rate_hz,
        masks=masks,
    )


def _item(entry: Entry, where: str, load: Callable[[], Record]) -> Item:
    return Item(episode_id=entry.episode_id, where=where, load=load)


def _failing(entry: Entry, error: SourceError) -> Item:
    return _item(
        entry, f"{entry.path} {entry.group}".strip(), functools.partial(_fail, error.reason, error.detail)
    )


def _fail(reason: str, detail: str) -> Record:
    raise SourceError(reason, detail)


hdf5 = Ingester(name=FORMAT, recognises=recognises, open=open_hdf5)
