"""Ingest RLDS datasets (TFDS folders of TFRecord files) without TensorFlow."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ares import files
from ares.episode import ASSUMED_RATE_HZ, RateSource, Record
from ares.errors import SourceError
from ares.media.tfrecord import Place, places
from ingest.base import Ingester, Item, Options, Source
from ingest.rlds_features import read_features
from ingest.rlds_plan import make_plan
from ingest.rlds_record import FORMAT, Dataset, Entry, load_record
from ingest.rlds_show import show_spec
from ingest.spec import DatasetSpec, dataset_spec, read_spec

_INFO, _FEATURES = "dataset_info.json", "features.json"
_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of a split.

    Attributes:
        split: "train", "val".
        name: Number of the shard, "00000-of-00002".
        path: Absolute path.
        records: Records that it should hold.
    """

    split: str
    name: str
    path: str
    records: int


def recognises(path: str) -> bool:
    """Whether there is a TFDS dataset at or under a folder."""
    return next(_folders(files.absolute(path)), None) is not None


def open_rlds(path: str, options: Options) -> list[Source]:
    """Every dataset and version at or under a folder.

    Raises:
        SourceError: There is none, one has no readable features.json or dataset_info.json, or a name or spec is
            given for several.
    """
    return [_source(folder, options) for folder in _chosen(path, options)]


def show(path: str, options: Options) -> str:
    """The spec that would be used for every dataset at or under a folder, as YAML. Raises like `open_rlds`."""
    opened = [_dataset(folder, options) for folder in _chosen(path, options)]
    return "---\n".join(
        show_spec(each.name, each.plan, each.spec, each.rate_hz, each.rate_source) for each in opened
    )


def _chosen(path: str, options: Options) -> list[Path]:
    folders = list(_folders(files.absolute(path)))
    if not folders:
        raise SourceError(
            "folder holds no RLDS dataset", f"{path}: no {_FEATURES} with {_INFO} in it or below it"
        )
    if options.dataset and len(folders) > 1:
        raise SourceError(
            "one name for several datasets", f"{options.dataset!r} for {len(folders)} under {path}"
        )
    if options.spec and len(folders) > 1:
        raise SourceError("one spec for several datasets", f"{options.spec} for {len(folders)} under {path}")
    return folders


def _folders(path: Path) -> Iterator[Path]:
    for folder, below, names in files.walk(path):
        below.sort()
        if _INFO in names and _FEATURES in names:
            below.clear()
            yield folder


def _source(folder: Path, options: Options) -> Source:
    dataset = _dataset(folder, options)
    info = _read_info(folder / _INFO)
    shards = _shards(folder, info, _own_name(folder, info))
    return Source(
        format=FORMAT,
        dataset=dataset.name,
        version=dataset.version,
        total=sum(shard.records for shard in shards),
        items=(item for shard in shards for item in _items(dataset, shard)),
        warnings=tuple(_source_warnings(dataset)),
    )


def _dataset(folder: Path, options: Options) -> Dataset:
    info = _read_info(folder / _INFO)
    own_name = _own_name(folder, info)
    # A copy may have been renamed inside or outside: "liber_o10" lies in a folder libero_10.
    known = dataset_spec(own_name) or dataset_spec(folder.parent.name)
    spec = read_spec(Path(options.spec)) if options.spec else known
    rate_hz, rate_source = _rate(options, spec)
    plan = make_plan(read_features(folder / _FEATURES), spec)
    if not any((plan.cameras, plan.action, plan.state)):
        raise SourceError(
            "dataset has no steps", f"{folder / _FEATURES}: no image, state or action under steps"
        )
    return Dataset(
        name=options.dataset or own_name,
        version=str(info.get("version") or folder.name),
        rate_hz=rate_hz,
        rate_source=rate_source,
        spec=spec,
        plan=plan,
    )


def _own_name(folder: Path, info: Mapping[str, Any]) -> str:
    return str(info.get("name") or folder.parent.name)


def _source_warnings(dataset: Dataset) -> Iterator[str]:
    plan, spec = dataset.plan, dataset.spec
    yield from plan.left_out
    yield from plan.warnings
    if spec:
        yield from spec.faults
    if not spec or not (spec.state or spec.action):
        for key in plan.unknown:
            yield f"{key} is kept as a signal of unknown meaning (--show-spec)"
    if dataset.rate_source == "assumed":
        yield f"rate is not known, {dataset.rate_hz:g} Hz assumed (give --rate)"


def _read_info(path: Path) -> Mapping[str, Any]:
    try:
        info = json.loads(path.read_bytes())
    except OSError as error:
        raise SourceError("dataset_info.json cannot be read", f"{path}: {files.words(error)}") from None
    except ValueError as error:
        raise SourceError("dataset_info.json is not JSON", f"{path}: {error}") from None
    if not isinstance(info, dict):
        raise SourceError(
            "dataset_info.json is no dataset info", f"{path}: a {type(info).__name__}, not an object"
        )
    kind = info.get("fileFormat") or "tfrecord"
    if kind != "tfrecord":
        raise SourceError("dataset is not stored as tfrecord", f"{path}: {kind!r}")
    return info


def _rate(options: Options, spec: DatasetSpec | None) -> tuple[float, RateSource]:
    if options.rate_hz is not None:
        return options.rate_hz, "user"
    if spec and spec.rate_hz:
        return spec.rate_hz, "spec"
    return ASSUMED_RATE_HZ, "assumed"


def _shards(folder: Path, info: Mapping[str, Any], name: str) -> list[Shard]:
    """The files of all splits, from dataset_info.json or, where that lists no lengths, from the folder.

    Raises SourceError when the splits are none.
    """
    try:
        return _listed_shards(folder, info, name) or list(_found_shards(folder))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise SourceError("dataset_info.json is no dataset info", f"{folder / _INFO}: {error!r}") from None


def _listed_shards(folder: Path, info: Mapping[str, Any], name: str) -> list[Shard]:
    made: list[Shard] = []
    for split in info.get("splits") or ():
        lengths = [max(int(length), 0) for length in split.get("shardLengths") or ()]
        template, title = split.get("filepathTemplate") or _TEMPLATE, split["name"]
        if not isinstance(title, str):
            raise TypeError(f"a split is named {title!r}")
        for number, length in enumerate(lengths):
            shard = f"{number:05d}-of-{len(lengths):05d}"
            path = str(folder / _file(template, name, title, shard))
            made.append(Shard(title, shard, path, length))
    return made


def _file(template: str, dataset: str, split: str, shard: str) -> str:
    number, _, total = shard.partition("-of-")
    values = {
        "DATASET": dataset,
        "SPLIT": split,
        "FILEFORMAT": "tfrecord",
        "SHARD_X_OF_Y": shard,
        "SHARD_INDEX": number,
        "NUM_SHARDS": total,
    }
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), template)


def _found_shards(folder: Path) -> Iterator[Shard]:
    for path in sorted(folder.iterdir()):
        match = re.fullmatch(r".+-(?P<split>[^-]+)\.tfrecord-(?P<shard>\d+-of-\d+)", path.name)
        if match:
            yield Shard(match["split"], match["shard"], str(path), sum(1 for _ in places(str(path))))


def _items(dataset: Dataset, shard: Shard) -> Iterator[Item]:
    """One item for each record that the shard holds or should hold."""
    number, last = 0, SourceError("record is cut off", f"{shard.path}: the file ends before it")
    try:
        for number, place in enumerate(places(shard.path), start=1):
            entry = _entry(dataset, shard, number - 1)
            if isinstance(place, SourceError):
                last = place
                yield _item(entry, functools.partial(_fail, place.reason, place.detail))
            else:
                entry = replace(entry, place=place)
                yield _item(entry, functools.partial(load_record, entry))
    except SourceError as error:
        last = error
    except OSError as error:
        last = SourceError("file cannot be read", f"{shard.path}: {files.words(error)}")
    for missing in range(number, shard.records):
        yield _item(_entry(dataset, shard, missing), functools.partial(_fail, last.reason, last.detail))


def _entry(dataset: Dataset, shard: Shard, number: int) -> Entry:
    beyond = ("record beyond those that dataset_info.json counts",) if number >= shard.records else ()
    return Entry(
        dataset=dataset,
        split=shard.split,
        key=f"{shard.name}/{number}",
        path=shard.path,
        place=Place(0, 0),
        warnings=beyond,
    )


def _item(entry: Entry, load: functools.partial[Record]) -> Item:
    return Item(episode_id=entry.episode_id, where=f"{entry.path}, record {entry.key}", load=load)


def _fail(reason: str, detail: str) -> Record:
    raise SourceError(reason, detail)


rlds = Ingester(name=FORMAT, recognises=recognises, open=open_rlds, show_spec=show)
