"""What every exporter shares: the report, a folder that is there whole or not at all, and reading a set in batches."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from ares.curate.sets import CurationSet
from ares.episode import Episode, Json, Trajectory
from ares.errors import RequestError, StoreError
from ares.export.failures import Failures

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.workspace import Workspace


class Exporter(Protocol):
    """A format to export: what the entry points of the group "ares.exporters" hold."""

    def __call__(
        self,
        ws: Workspace,
        chosen: CurationSet,
        dest: Path,
        progress: Callable[[int], None],
        *,
        strict: bool = False,
    ) -> ExportReport:
        """Write a set into a new folder. Episodes that fail are left out, or with `strict` end the export."""


# Episodes read at once: few enough that their signals fit in memory, enough that a table is not asked for each one.
BATCH = 128
_MARK = ".ares-export"
# What is known of an episode without annotators; every further column of the episodes table is a value of theirs.
_OWN_COLUMNS = frozenset(
    {"episode_id", "format", "dataset", "version", "split", "key", "source", "content_hash", "instruction",
     "instructions", "robot", "num_steps", "rate_hz", "rate_source", "duration_seconds", "num_cameras", "cameras",
     "success", "success_source", "state_names", "action_names", "metadata", "duplicate_of", "ingested"}
)  # fmt: skip
_UNFILTERED_COLUMNS = ("cameras", "metadata")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """What was written.

    Attributes:
        set: Label of the set ("accepted@1").
        episodes: Episodes written: those of the set, less `failed`.
        frames: Steps written, over all episodes.
        tasks: Different task texts.
        path: The folder.
        copied_packets: Video frames copied without decoding, over all cameras.
        encoded_frames: Video frames encoded anew, over all cameras.
        seconds: Time taken.
        left_out: What of the source is not in the export, in words ("camera image_3 of bridge: black").
        datasets: One entry per dataset folder ("path", "episodes", "frames").
        reencoded: Why frames of an mp4 were encoded anew instead of copied, with the number of videos.
        failed: Episodes of the set that are not in the export.
        failures: Why not ("reason", "count", "example").
    """

    set: str
    episodes: int
    frames: int
    tasks: int
    path: Path
    seconds: float
    copied_packets: int = 0
    encoded_frames: int = 0
    left_out: tuple[str, ...] = ()
    datasets: tuple[dict[str, Json], ...] = ()
    reencoded: dict[str, int] = field(default_factory=dict)
    failed: int = 0
    failures: tuple[Json, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """The fields, as `ares export --json` prints them."""
        return {
            "set": self.set,
            "episodes": self.episodes,
            "frames": self.frames,
            "tasks": self.tasks,
            "path": str(self.path),
            "copied_packets": self.copied_packets,
            "encoded_frames": self.encoded_frames,
            "seconds": round(self.seconds, 3),
            "left_out": list(self.left_out),
            "datasets": list(self.datasets),
            "reencoded": dict(self.reencoded),
            "failed": self.failed,
            "failures": list(self.failures),
        }

    def counts(self) -> dict[str, Json]:
        """What the manifest says of it: the same whenever and wherever the set is exported."""
        return {key: value for key, value in self.to_json().items() if key not in ("set", "path", "seconds")}


@contextmanager
def staging(dest: Path) -> Iterator[Path]:
    """A folder beside `dest` to write into, which takes its name when all went well and is removed otherwise.

    Raises:
        RequestError: `dest` holds something already, or cannot be made.
        StoreError: The disk is full.
    """
    dest = dest.expanduser().resolve()
    if dest.is_file() or (dest.is_dir() and any(dest.iterdir())):
        raise RequestError(
            "the export folder holds something already", f"{dest}; give a new or an empty folder"
        )
    partial = dest.with_name(dest.name + ".tmp")
    try:
        _fresh(partial)
    except OSError as error:
        raise RequestError("the export folder cannot be made", f"{dest}: {error}") from None
    try:
        yield partial
        (partial / _MARK).unlink()
        partial.replace(dest)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreError("the disk is full", f"nothing is left of the export to {dest}") from error
        raise
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _fresh(partial: Path) -> None:
    """An empty folder; one that a killed export left is removed, one of somebody else is not."""
    if partial.exists() and not (partial / _MARK).is_file():
        raise RequestError(
            "the export would be written in a folder that is there", f"{partial}; move it away"
        )
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    (partial / _MARK).touch()


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Some episodes of a set.

    Attributes:
        asked: The ids.
        episodes: In order of the ids, those that there are.
        trajectories: By episode_id.
    """

    asked: list[str]
    episodes: list[Episode]
    trajectories: dict[str, Trajectory]

    @property
    def ids(self) -> list[str]:
        """Ids of the episodes."""
        return [episode.episode_id for episode in self.episodes]


def batches(ws: Workspace, ids: Iterable[str], failures: Failures) -> Iterator[Batch]:
    """Read episodes in the order of their ids; those that the workspace does not have are failures."""
    left = iter(ids)
    while chunk := list(islice(left, BATCH)):
        trajectories = dict(ws.tables.trajectories.read(chunk))
        found = {episode.episode_id: episode for episode in ws.tables.episodes.get(chunk)}
        for id in chunk:
            if id not in found or id not in trajectories:
                failures.add(id, StoreError("the workspace does not have the episode any more"))
        there = [id for id in chunk if id in found and id in trajectories]
        yield Batch(chunk, [found[id] for id in there], trajectories)


def value_columns(ws: Workspace) -> list[str]:
    """Columns of the episodes table that annotators filled, sorted."""
    return sorted(set(ws.tables.episodes.columns()) - _OWN_COLUMNS)


def values_of(ws: Workspace, ids: Sequence[str]) -> list[dict[str, Json]]:
    """What annotators say of these episodes, in their order: episode_id and the columns that they filled."""
    return cast("list[dict[str, Json]]", rows_of(ws, ["episode_id", *value_columns(ws)], ids).to_pylist())


def all_columns(ws: Workspace) -> list[str]:
    """Every column of the episodes table."""
    return list(dict.fromkeys([*ws.tables.episodes.columns(), *_UNFILTERED_COLUMNS]))


def rows_of(ws: Workspace, columns: Sequence[str], ids: Sequence[str]) -> pa.Table:
    """Columns of the episodes table, among them episode_id, for these episodes in this order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    where = f"episode_id IN ({', '.join(repr(id) for id in ids)})" if ids else "false"
    table = pa.Table.from_batches(
        ws.tables.episodes.scan(columns, where=where), schema=ws.tables.episodes.schema(columns)
    )
    order = pc.index_in(pa.array(ids, pa.string()), table["episode_id"].combine_chunks())
    return cast("pa.Table", table.take(order))
