"""Ingest LeRobot datasets (v2.0, v2.1, v3.0, GR00T) by reference: parquet and videos stay where they are."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

from ares import files
from ares.episode import ASSUMED_RATE_HZ, RateSource, Record
from ares.errors import SourceError
from ingest.base import Ingester, Item, Options, Source
from ingest.lerobot_checks import check_dataset, without_phantoms
from ingest.lerobot_meta import (
    INFO,
    Info,
    Row,
    count_episodes,
    episode_rows,
    read_info,
    read_json,
    seekable,
    whole_number,
)
from ingest.lerobot_plan import Plan, make_plan
from ingest.lerobot_record import FORMAT, Dataset, load_episode

# How far below the path a dataset may lie: OWNER/NAME.
_DEPTH = 2


def recognises(path: str) -> bool:
    """Whether there is a LeRobot dataset in a folder or up to two levels below it."""
    return next(_folders(files.absolute(path), _DEPTH), None) is not None


def open_lerobot(path: str, options: Options) -> list[Source]:
    """Every dataset in a folder or up to two levels below it.

    Raises:
        SourceError: There is none, or one has an info.json that cannot be understood.
    """
    asked = files.absolute(path)
    folders = list(_folders(asked, _DEPTH))
    if not folders:
        raise SourceError(
            "folder holds no LeRobot dataset", f"{path}: no {INFO} in it or up to two levels below"
        )
    if options.dataset and len(folders) > 1:
        raise SourceError(
            "one name for several datasets", f"{options.dataset!r} for {len(folders)} under {path}"
        )
    names = [_name(folder) for folder in folders]
    if len(set(names)) < len(names):
        names = [folder.relative_to(asked).as_posix() for folder in folders]
    return [
        _source(folder, options.dataset or name, options) for folder, name in zip(folders, names, strict=True)
    ]


def _folders(path: Path, depth: int) -> Iterator[Path]:
    for here, below, _ in files.walk(path, follow=True):
        below.sort()
        if (here / INFO).is_file():
            yield here
            below.clear()
        elif len(here.relative_to(path).parts) == depth:
            below.clear()


def _name(folder: Path) -> str:
    """Name of a dataset: its folder's, or the repository's in a cache of the Hub."""
    snapshot = re.fullmatch(r"datasets--(?:.+--)?(.+)", folder.parent.parent.name)
    return snapshot[1] if snapshot and folder.parent.name == "snapshots" else folder.name


def _source(folder: Path, name: str, options: Options) -> Source:
    info = read_info(folder)
    warnings: list[str] = []
    plan, has_data = _plan(info, warnings)
    fps, rate_hz, rate_source = _rate(info, options)
    if rate_source == "assumed":
        warnings.append(f"fps in info.json is not known, {rate_hz:g} Hz assumed (give --rate)")
    dataset = Dataset(
        name=name,
        info=info,
        plan=plan,
        fps=fps,
        rate_hz=rate_hz,
        rate_source=rate_source,
        splits=_splits(info),
        has_data=has_data,
    )
    episodes, frames = count_episodes(info)
    listed = bool(episodes)
    if not listed:
        rows = list(_rows_of_files(info, plan))
        if not rows:
            raise SourceError(
                "dataset holds no episode", f"{folder}: none in meta, and no data file or video"
            )
        episodes = len(rows)
        warnings.append("the metadata lists no episodes; they are taken from the files")
    warnings.extend(check_dataset(dataset, episodes, frames if listed else None))
    return Source(
        format=FORMAT,
        dataset=name,
        version=info.version,
        total=episodes,
        items=_items(dataset, episode_rows(info) if listed else iter(rows)),
        warnings=tuple(warnings),
    )


def _plan(info: Info, warnings: list[str]) -> tuple[Plan, bool]:
    """The plan of a dataset, and whether it has any data file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema, path = None, None
    for path in info.data_files():
        try:
            schema = pq.read_schema(seekable(path))
            break
        except (pa.ArrowException, OSError):
            continue  # told by the episodes that are in it
    try:
        modality = read_json(files.place(info.root) / "meta" / "modality.json")
    except SourceError as error:
        warnings.append(f"{error.reason}, its names are not used")
        modality = None
    plan, odd = make_plan(info.features, schema, modality or {})
    plan, phantoms = without_phantoms(info, plan)
    warnings += [*odd, *phantoms]
    if path is None:
        warnings.append("there are no data files: episodes have no signals")
    return plan, path is not None


def _rate(info: Info, options: Options) -> tuple[float, float, RateSource]:
    """Frames per second of the dataset, and steps per second with who says so."""
    told = info.document.get("fps")
    known = isinstance(told, int | float) and not isinstance(told, bool) and 0 < told < float("inf")
    fps = float(told) if known and told else None
    if options.rate_hz is not None:
        return fps or options.rate_hz, options.rate_hz, "user"
    if fps:
        return fps, fps, "source"
    return ASSUMED_RATE_HZ, ASSUMED_RATE_HZ, "assumed"


def _splits(info: Info) -> tuple[tuple[str, int, int], ...]:
    told = info.document.get("splits")
    made = []
    for name, span in told.items() if isinstance(told, dict) else ():
        match = re.fullmatch(r"(\d{1,15}):(\d{1,15})", str(span))
        if match:
            made.append((str(name), int(match[1]), int(match[2])))
    return tuple(made)


def _rows_of_files(info: Info, plan: Plan) -> Iterator[tuple[str, Row]]:
    """Episodes by the names of their files, where no metadata lists them."""
    if info.shared:
        return
    found = [*info.data_files(), *(path for view in plan.cameras for path in info.video_files(view.key))]
    numbers = {int(match[1]): path for path in reversed(found) if (match := re.search(r"_(\d+)\.\w+$", path))}
    yield from ((numbers[number], {"episode_index": number}) for number in sorted(numbers))


def _items(dataset: Dataset, rows: Iterator[tuple[str, Row | SourceError]]) -> Iterator[Item]:
    """One item for each episode that is listed; a line that is none is one whose load raises."""
    for number, (where, row) in enumerate(rows, start=1):
        if not isinstance(row, SourceError) and whole_number(row.get("episode_index")) is None:
            row = SourceError("metadata has no episode_index", f"{where}: {row.get('episode_index')!r}")
        if isinstance(row, SourceError):
            broken = functools.partial(_fail, row.reason, row.detail)
            yield Item(episode_id=dataset.identity(f"line {number}"), where=where, load=broken)
            continue
        key = str(whole_number(row["episode_index"]))
        yield Item(
            episode_id=dataset.identity(key),
            where=f"{where}: episode {key}",
            load=functools.partial(load_episode, dataset, row),
        )


def _fail(reason: str, detail: str) -> Record:
    raise SourceError(reason, detail)


lerobot = Ingester(name=FORMAT, recognises=recognises, open=open_lerobot)
