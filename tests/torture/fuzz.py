"""Reads damaged datasets in separate processes: no crash, no exception, no limit exceeded, no changed value."""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.torture.children import run_child
from tests.torture.datasets import WRITERS, ingester_of
from tests.torture.mutations import damage, link_copy
from tests.torture.trials import Trial

_EPISODES = 3
_SECONDS, _MEGABYTES = 20.0, 1_500
# Their records have checksums: what is kept must be what was written.
_CHECKED = {"rlds": (".tfrecord",), "mcap": (".mcap",)}
# Damage by which the file stays right: checksums are computed again.
_CONSISTENT = ("change_records", "change_zip", "json", "change_parquet", "change_database")
# A library of C may crash on damaged bytes: its records are only read in worker processes.
_FRAGILE = ("hdf5",)


@dataclass(frozen=True, slots=True)
class Reading:
    """What became of the records of a dataset.

    Attributes:
        kept: Every row of the signals of the records that were read.
        reasons: Why others were not, and why a source was refused.
        faults: Exceptions that no rule names.
    """

    kept: frozenset[bytes]
    reasons: tuple[str, ...]
    faults: tuple[str, ...]


def read_dataset(path: str, ingester: str) -> Reading:
    """Read every record of a dataset, and the first frame of its cameras."""
    from ares.errors import AresError, PluginError
    from ares.registry import ingesters
    from ares_ingest.base import SourceOptions
    from ares_ingest.guarded_loading import GuardedItems, call_ingester_safely, guard_item_loading

    kept: set[bytes] = set()
    errors: list[AresError] = []
    plugin: Any = ingesters.get(ingester)
    try:
        sources = call_ingester_safely(ingester, lambda: plugin.open(path, SourceOptions(rate_hz=10.0)))
    except AresError as error:
        sources = []
        errors.append(error)
    for source in sources:
        items = GuardedItems(source)
        for item in items:
            result = _read_item(guard_item_loading(item, ingester))
            errors.append(result) if isinstance(result, AresError) else kept.update(result)
        errors += [items.error] if items.error else []
    faults = tuple(str(error) for error in errors if isinstance(error, PluginError))
    return Reading(frozenset(kept), tuple(str(error) for error in errors), faults)


def _read_item(item: Any) -> Any:
    """The rows of the signals of a record, or its error."""
    from ares.errors import AresError, MediaError, SourceError
    from ares.media import frames_at
    from ares_ingest.pipeline.read import CheckedBatch, read_records

    kept: list[Any] = []

    def load() -> Any:
        kept.append(item.load())
        return kept[0]

    result = read_records([load])[0]
    if not isinstance(result, CheckedBatch):
        assert isinstance(result, AresError)
        return result
    for camera in kept[0].episode.cameras:
        with suppress(MediaError, SourceError):
            frames_at(camera.media, [0.0])
    trajectory = kept[0].trajectory
    signals = [signal for signal in (trajectory.state, trajectory.action) if signal is not None]
    return {row.tobytes() for signal in signals for row in signal.values}


class Fuzzer:
    """Damages copies of good datasets and reads them.

    Args:
        folder: Where datasets are written.
        seed: Every trial is repeated by this seed and its number.
    """

    def __init__(self, folder: Path, seed: str) -> None:
        self._folder, self._seed = folder, seed
        self._good: dict[str, Reading] = {}

    def try_damage(self, kind: str, number: int) -> Trial:
        """Damage and read a kind of dataset."""
        if kind not in self._good:
            WRITERS[kind](self._folder / "good" / kind, _EPISODES)
            good = self._read(self._folder / "good" / kind, kind)
            assert isinstance(good.value, Reading) and not good.value.reasons, (kind, good)
            self._good[kind] = good.value
        rng = random.Random(f"{self._seed} {kind} {number}")
        copy = self._folder / "damaged" / kind
        shutil.rmtree(copy, ignore_errors=True)
        link_copy(self._folder / "good" / kind, copy)
        files = sorted(path for path in copy.rglob("*") if path.is_file())
        path = rng.choice(files)
        done = damage(path, rng)
        end = self._read(copy, kind)
        problem = self._problem(kind, path, done, end)
        name = f"{kind} number {number} ({done} of {path.relative_to(copy)})"
        if problem:
            shutil.copytree(copy, self._folder / "failed" / f"{kind}_{number}", dirs_exist_ok=True)
        return Trial(
            group=f"damaged {kind}",
            name=name,
            problem=problem,
            seconds=end.seconds,
            peak_bytes=end.peak_bytes,
        )

    def _read(self, path: Path, kind: str) -> Any:
        return run_child(
            lambda: read_dataset(str(path), ingester_of(kind)), seconds=_SECONDS, megabytes=_MEGABYTES
        )

    def _problem(self, kind: str, path: Path, done: str, end: Any) -> str:
        if end.status < 0 and not end.exceeded and kind in _FRAGILE:
            return ""
        if end.fault or end.value is None:
            return str(end.fault or "no result")
        if end.value.faults:
            return f"an exception that no rule names: {end.value.faults[0]}"
        is_checked = any(suffix in path.name for suffix in _CHECKED.get(kind, ()))
        if is_checked and done not in _CONSISTENT and end.value.kept - self._good[kind].kept:
            return "a record with changed values was kept, though it has a checksum"
        return ""
