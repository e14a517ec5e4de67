"""Finds RLDS datasets and lists their records, under a checked spec of the user or an ARES export."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ares.errors import SourceError
from ares.formats import (
    DATASET_INFO_FILE,
    FEATURES_FILE,
    SHARD_TEMPLATE,
    RecordLocation,
    scan_record_file,
)
from ares.io import FolderEntries, absolute_path, describe_os_error, list_folder, walk_folders
from ares_ingest.base import (
    FolderClaim,
    FolderIngester,
    Item,
    Source,
    SourceFile,
    SourceOptions,
    SpecIngester,
    failing_item,
)
from ares_ingest.files import read_json_object
from ares_ingest.mapping import require_layout_of
from ares_ingest.rlds.episode import FORMAT, RldsDataset, RldsRecordEntry, load_record
from ares_ingest.rlds.exported_spec import read_exported_spec, require_spec_fits
from ares_ingest.rlds.feature_map import map_features, spec_to_yaml
from ares_ingest.rlds.features import read_features
from ares_ingest.signals import resolve_rate

_CONTAINERS = ("tfrecord", "array_record")
# Records that a shard lacks are listed one by one up to this number; beyond it the count itself is taken for wrong.
_MAX_MISSING = 100_000


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of a split.

    Attributes:
        split: Name of the split: "train", "val".
        name: Number of the shard: "00000-of-00002".
        path: Absolute path.
        records: Records that it should have.
    """

    split: str
    name: str
    path: str
    records: int


def _dataset_folders(path: str, options: SourceOptions) -> list[Path]:
    folders = list(_find_folders(absolute_path(path)))
    if not folders:
        raise SourceError(
            "folder holds no RLDS dataset",
            f"{path}: no {FEATURES_FILE} with {DATASET_INFO_FILE} in it or below it",
        )
    if options.dataset and len(folders) > 1:
        raise SourceError(
            "one name for several datasets", f"{options.dataset!r} for {len(folders)} under {path}"
        )
    if options.spec and len(folders) > 1:
        raise SourceError("one spec for several datasets", f"{options.spec} for {len(folders)} under {path}")
    return folders


def _find_folders(path: Path) -> Iterator[Path]:
    for folder, below, names in walk_folders(path):
        below.sort()
        if DATASET_INFO_FILE in names and FEATURES_FILE in names:
            below.clear()
            yield folder


def _open_source(folder: Path, options: SourceOptions) -> Source:
    from ares_ingest.spec import read_stated_contract

    dataset = _open_dataset(folder, options)
    info = _read_info(folder / DATASET_INFO_FILE)
    shards = _find_shards(folder, info, _name_in_info(folder, info))
    return Source(
        format=FORMAT,
        dataset=dataset.name,
        version=dataset.version,
        total=sum(shard.records for shard in shards),
        items=(item for shard in shards for item in _list_items(dataset, shard)),
        warnings=tuple(_source_warnings(dataset)),
        # The library of ArrayRecord files is C++.
        fragile=_record_container(info) != _CONTAINERS[0],
        folder=str(folder),
        files=functools.partial(_list_files, folder, tuple(shard.path for shard in shards)),
        rate_hz=None if dataset.feature_map.time else dataset.rate_hz,
        cameras=tuple(camera.name for camera in dataset.feature_map.cameras),
        contract=read_stated_contract(dataset.spec),
    )


def _list_files(folder: Path, shards: Collection[str]) -> Iterator[SourceFile]:
    """The shards are data; other TFRecord files of the folder are not, and all other files describe the dataset."""
    shard_paths = frozenset(shards)
    for name in list_folder(folder).files:
        path = str(folder / name)
        if path in shard_paths:
            yield SourceFile(path=path, use="data")
        elif ".tfrecord" in name or ".array_record" in name:
            yield SourceFile(path=path, use="unused", detail=f"{DATASET_INFO_FILE} does not list this shard")
        elif name.endswith((".json", ".labels.txt")):
            yield SourceFile(path=path, use="metadata")


def _open_dataset(folder: Path, options: SourceOptions) -> RldsDataset:
    from ares_ingest.spec import find_builtin_spec, read_spec

    info = _read_info(folder / DATASET_INFO_FILE)
    name = _name_in_info(folder, info)
    # A copy may have another name in its info than its folder has: "liber_o10" in a folder libero_10.
    builtin = find_builtin_spec(name) or find_builtin_spec(folder.parent.name)
    exported = read_exported_spec(folder, builtin)
    spec = read_spec(Path(options.spec)) if options.spec else exported.spec if exported else builtin
    rate_hz, rate_source = resolve_rate(options.rate_hz, spec.rate_hz if spec else None)
    if exported and exported.is_rate_assumed and not options.spec and rate_source == "spec":
        rate_source = "assumed"
    features = read_features(folder / FEATURES_FILE)
    feature_map = map_features(features, spec)
    if spec and options.spec:
        require_layout_of(spec, FORMAT, options.spec)
        require_spec_fits(spec, features, feature_map, str(folder))
    if not any((feature_map.cameras, feature_map.action, feature_map.state)):
        raise SourceError(
            "dataset has no steps", f"{folder / FEATURES_FILE}: no image, state or action under steps"
        )
    return RldsDataset(
        name=options.dataset or name,
        version=str(info.get("version") or folder.name),
        rate_hz=rate_hz,
        rate_source=rate_source,
        spec=spec,
        feature_map=feature_map,
    )


def _name_in_info(folder: Path, info: Mapping[str, Any]) -> str:
    return str(info.get("name") or folder.parent.name)


def _source_warnings(dataset: RldsDataset) -> Iterator[str]:
    feature_map, spec = dataset.feature_map, dataset.spec
    yield from feature_map.left_out
    yield from feature_map.warnings
    if spec:
        yield from spec.faults
    if not spec or not (spec.state or spec.action):
        for key in feature_map.unknown:
            yield f"{key} is stored as a signal of unknown meaning (see --show-spec)"
    if dataset.rate_source == "assumed" and not feature_map.time:
        yield f"rate is not known, {dataset.rate_hz:g} Hz assumed (give --rate)"


def _read_info(path: Path) -> Mapping[str, Any]:
    info = read_json_object(path)
    kind = _record_container(info)
    if kind not in _CONTAINERS:
        raise SourceError("dataset is stored neither as tfrecord nor as array_record", f"{path}: {kind!r}")
    return info


def _find_shards(folder: Path, info: Mapping[str, Any], name: str) -> list[Shard]:
    """The shards of all splits: from dataset_info.json or, where that has no shard lengths, from the folder.

    Raises SourceError when the splits have a wrong form.
    """
    try:
        return _shards_in_info(folder, info, name) or list(_shards_in_folder(folder))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise SourceError(
            "dataset_info.json has a wrong form", f"{folder / DATASET_INFO_FILE}: {error!r}"
        ) from None


def _shards_in_info(folder: Path, info: Mapping[str, Any], name: str) -> list[Shard]:
    shards: list[Shard] = []
    for split in info.get("splits") or ():
        lengths = [max(int(length), 0) for length in split.get("shardLengths") or ()]
        template, title = split.get("filepathTemplate") or SHARD_TEMPLATE, split["name"]
        if not isinstance(title, str):
            raise TypeError(f"a split is named {title!r}")
        for number, length in enumerate(lengths):
            shard = f"{number:05d}-of-{len(lengths):05d}"
            path = str(folder / _shard_file_name(template, _record_container(info), name, title, shard))
            shards.append(Shard(title, shard, path, length))
    return shards


def _record_container(info: Mapping[str, Any]) -> str:
    """Container of the records, as the names of the shards have it."""
    return str(info.get("fileFormat") or _CONTAINERS[0])


def _shard_file_name(template: str, container: str, dataset: str, split: str, shard: str) -> str:
    number, _, total = shard.partition("-of-")
    values = {
        "DATASET": dataset,
        "SPLIT": split,
        "FILEFORMAT": container,
        "SHARD_X_OF_Y": shard,
        "SHARD_INDEX": number,
        "NUM_SHARDS": total,
    }
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), template)


def _shards_in_folder(folder: Path) -> Iterator[Shard]:
    for path in sorted(folder.iterdir()):
        match = re.fullmatch(
            r".+-(?P<split>[^-]+)\.(?:tfrecord|array_record)-(?P<shard>\d+-of-\d+)", path.name
        )
        if match:
            yield Shard(
                match["split"], match["shard"], str(path), sum(1 for _ in scan_record_file(str(path)))
            )


def _list_items(dataset: RldsDataset, shard: Shard) -> Iterator[Item]:
    """One item for each record that the shard has or should have."""
    number, error_of_rest = 0, SourceError("record is cut off", f"{shard.path}: the file ends before it")
    try:
        for number, span in enumerate(scan_record_file(shard.path), start=1):
            entry = _build_entry(dataset, shard, number - 1)
            if isinstance(span, SourceError):
                error_of_rest = span
                yield failing_item(entry.episode_id, _record_location(entry), span)
            else:
                entry = replace(entry, span=span)
                load = functools.partial(load_record, entry)
                yield Item(episode_id=entry.episode_id, location=_record_location(entry), load=load)
    except SourceError as error:
        error_of_rest = error
    except OSError as error:
        error_of_rest = SourceError("file cannot be read", f"{shard.path}: {describe_os_error(error)}")
    yield from _missing_items(dataset, shard, number, error_of_rest)


def _missing_items(dataset: RldsDataset, shard: Shard, number: int, error: SourceError) -> Iterator[Item]:
    """A failing item for each record from `number` on; one for all of them where the shard lacks too many."""
    stop = shard.records
    if stop - number > _MAX_MISSING:
        stop = number + 1
        error = SourceError(
            f"{DATASET_INFO_FILE} counts far more records than the shard holds",
            f"{shard.path}: {shard.records}, found {number}",
        )
    for missing in range(number, stop):
        entry = _build_entry(dataset, shard, missing)
        yield failing_item(entry.episode_id, _record_location(entry), error)


def _build_entry(dataset: RldsDataset, shard: Shard, number: int) -> RldsRecordEntry:
    warnings = ("record beyond those that dataset_info.json counts",) if number >= shard.records else ()
    return RldsRecordEntry(
        dataset=dataset.name,
        version=dataset.version,
        settings=dataset,
        split=shard.split,
        key=f"{shard.name}/{number}",
        path=shard.path,
        span=RecordLocation(0, 0),
        warnings=warnings,
    )


def _record_location(entry: RldsRecordEntry) -> str:
    return f"{entry.path}, record {entry.key}"


class RldsIngester(FolderIngester, SpecIngester):
    """Opens datasets of the format `rlds`."""

    name = FORMAT

    def claims(self, folder: FolderEntries) -> FolderClaim | None:
        """Whether a folder is a TFDS dataset, by the names of its files."""
        return "dataset" if DATASET_INFO_FILE in folder.files and FEATURES_FILE in folder.files else None

    def open(self, path: str, options: SourceOptions) -> list[Source]:
        """Open every dataset and version at or under a folder.

        Raises:
            SourceError: There is none; one has no readable features.json or dataset_info.json; or a name or spec is
                set for several.
        """
        return [_open_source(folder, options) for folder in _dataset_folders(path, options)]

    def show_spec(self, path: str, options: SourceOptions) -> str:
        """The specs of the datasets at or under a folder, as YAML. Raises as `open` does."""
        datasets = [_open_dataset(folder, options) for folder in _dataset_folders(path, options)]
        return "---\n".join(
            spec_to_yaml(
                dataset.name, dataset.feature_map, dataset.spec, dataset.rate_hz, dataset.rate_source
            )
            for dataset in datasets
        )


rlds = RldsIngester()
