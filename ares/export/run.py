"""What an exporter is, what it reads, how one is run for a request, and the folder that it writes into."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from ares.annotation import short_hash
from ares.console import count_of, write_stderr
from ares.contract import SetConverter, find_contracts_of_episodes, parse_conversions
from ares.curation import EXPORTS, Sets, carried_split
from ares.episode import DEPTH_CAMERAS, MISSING_CAMERAS, Episode, Json, Span, Trajectory
from ares.errors import AresError, PluginError, RequestError, StoreError
from ares.export.base import (
    EXPORT_SIGNALS,
    FAILURES_FILE,
    MANIFEST_FILE,
    RLDS_SIGNALS,
    TASK_COLUMNS,
    EpisodeTaskText,
    ExportFailures,
    ExportReport,
    ExportRequest,
    episode_task,
    read_rows,
)
from ares.export.remote_folder import local_destination
from ares.export.segments import SegmentReader, SpanText
from ares.export.staging import finish_export
from ares.export.unchanged import (
    check_link_folder,
    hash_state,
    link_equal_files,
    note_state,
    repeat_export,
)
from ares.jobs import find_incomplete_episodes
from ares.registry import exporters, plugin_faults
from ares.review import PERSON_ANNOTATORS
from ares.store import TrustedFilter, batched, ids_filter

if TYPE_CHECKING:
    from ares.annotation import Annotation
    from ares.curation import CurationSet
    from ares.export.merge_apply import MergeConverter
    from ares.export.weights import SampleWeights
    from ares.store import Stores


# Episodes read at once: few enough that their signals fit in memory, enough to keep table queries rare.
BATCH_EPISODES = 128
# The split of what has no side in a set that was split: it may join two sides.
NO_SIDE = "no_side"


class ExportMember(NamedTuple):
    """A member of a set that the workspace has.

    Attributes:
        name: Its episode id, or the line of its span.
        episode: The episode, as it is stored.
        span: The part of it that is the member; None for all of it.
    """

    name: str
    episode: Episode
    span: Span | None


@dataclass(frozen=True, slots=True, eq=False)
class ExportBatch:
    """Some members of a set and their episodes.

    Attributes:
        requested_ids: Members as the set lists them: episode ids, or lines of spans.
        episodes: Those of them that the workspace has, in the same order, as they are stored.
        trajectories: By episode_id, as they are stored.
        reasons: By episode_id, what was converted in the signals of an episode.
        spans: The members of a set of spans, in the order of `requested_ids`.
    """

    requested_ids: list[str]
    episodes: list[Episode]
    trajectories: dict[str, Trajectory]
    reasons: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    spans: tuple[Span, ...] = ()

    @property
    def members(self) -> list[ExportMember]:
        """The members of which the workspace has the episode, in their order."""
        if not self.spans:
            return [ExportMember(episode.episode_id, episode, None) for episode in self.episodes]
        by_id = {episode.episode_id: episode for episode in self.episodes}
        pairs = zip(self.requested_ids, self.spans, strict=True)
        return [
            ExportMember(name, by_id[span.episode_id], span)
            for name, span in pairs
            if span.episode_id in by_id
        ]

    @property
    def ids(self) -> list[str]:
        """Ids of the episodes."""
        return [episode.episode_id for episode in self.episodes]


class MemberTask(NamedTuple):
    """The task of a member, and why the text of its span may not be it, or ""."""

    task: EpisodeTaskText
    withheld: str


def member_tasks(
    request: ExportRequest,
    batch: ExportBatch,
    stores: Stores,
    span_texts: SegmentReader | None,
    annotations: Sequence[Annotation],
    rows: Sequence[Mapping[str, Json]] | None = None,
) -> dict[str, MemberTask]:
    """The task of each member by its name: of a span the text of its segment, where that may leave.

    Args:
        request: Says what is to be the task.
        batch: The members.
        stores: Stores of the workspace.
        span_texts: Reads the texts of spans; None where none is written.
        annotations: All annotations of their episodes.
        rows: The TASK_COLUMNS of `batch.ids`, as far as the workspace has them; None where nobody has read them.
    """
    if rows is None:
        columns = [name for name in ("episode_id", *TASK_COLUMNS) if name in stores.tables.episodes.columns()]
        rows = read_rows(stores, columns, batch.ids).to_pylist()
    by_id = {
        episode.episode_id: episode_task(episode, row, request.task, takes_refuted=request.refuted)
        for episode, row in zip(batch.episodes, rows, strict=True)
    }
    read_texts = span_texts.read_span_texts(batch.spans, annotations) if span_texts else ()
    texts = dict(zip(batch.requested_ids, read_texts, strict=False))
    tasks = {}
    for name, episode, _ in batch.members:
        text, withheld = texts.get(name, SpanText())
        task = EpisodeTaskText(text, "segment") if text else by_id[episode.episode_id]
        tasks[name] = MemberTask(task, withheld)
    return tasks


class ReadingNotes(NamedTuple):
    """What a trim and weights do to the episodes of an export, as fields of `ExportReport` say it."""

    changed: tuple[dict[str, Json], ...] = ()
    left_out: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


NO_NOTES = ReadingNotes()


@dataclass(frozen=True, slots=True, eq=False)
class ReadParts:
    """What of the episodes is written.

    Attributes:
        signals: Names of further signals; None for all.
        dropped_cameras: Cameras that are left out.
        kept_signals: Signals that are written whatever is named.
        seen_signals: Names of the signals that were there.
        seen_cameras: Names of the cameras that were.
    """

    signals: Sequence[str] | None = None
    dropped_cameras: Sequence[str] = ()
    kept_signals: Collection[str] = ()
    seen_signals: set[str] = field(default_factory=set)
    seen_cameras: set[str] = field(default_factory=set)

    def narrow_episode(self, episode: Episode) -> Episode:
        """The episode without the cameras that are left out, also where it lacks them or has depth of them."""
        if not self.dropped_cameras:
            return episode
        metadata, missing = dict(episode.metadata), episode.metadata.get(MISSING_CAMERAS)
        depth = metadata.get(DEPTH_CAMERAS)
        missing_names = [str(name) for name in missing] if isinstance(missing, list) else []
        depth_cameras = depth if isinstance(depth, Mapping) else {}
        self.seen_cameras.update(missing_names, depth_cameras, (camera.name for camera in episode.cameras))
        dropped = self.dropped_cameras
        if missing_names:
            metadata[MISSING_CAMERAS] = [name for name in missing_names if name not in dropped]
        if depth_cameras:
            metadata[DEPTH_CAMERAS] = {
                name: depth_cameras[name] for name in depth_cameras if name not in dropped
            }
        cameras = tuple(camera for camera in episode.cameras if camera.name not in dropped)
        return replace(episode, cameras=cameras, metadata=metadata)

    def narrow_signals(self, trajectory: Trajectory) -> Trajectory:
        """The signals without the further ones that are not named."""
        if self.signals is None:
            return trajectory
        self.seen_signals.update(trajectory.extra)
        kept = {*self.signals, *self.kept_signals}
        extra = {name: signal for name, signal in trajectory.extra.items() if name in kept}
        return replace(trajectory, extra=extra)

    def require_known(self) -> None:
        """Check the names once every episode was seen. Raises RequestError for one that no episode has."""
        named = ((self.signals or (), self.seen_signals), (self.dropped_cameras, self.seen_cameras))
        for names, seen in named:
            for name in names:
                if name not in seen:
                    known = ", ".join(sorted(seen)) or "none"
                    raise RequestError(f"no episode of the set has {name!r}", f"there are: {known}")


@dataclass(frozen=True, slots=True, eq=False)
class ExportReader:
    """Reads the episodes of a set as they are to be written: with their signals converted.

    Attributes:
        stores: Stores of the workspace.
        set: The set.
        conversion: What is done to the signals.
        members: Reads what is written, in the order of the set: episode ids, or lines of spans.
        are_spans: Whether these are lines of spans.
        weights: Adds the weights of the steps; None where none are written.
        notes: What trim and weights say of the episodes.
        num_parts: How many members there are where a trim makes them of the episodes; None for those of the set.
        num_incomplete: Members that are not read, as their episodes are incomplete.
        sides: Side by content hash and by id of the episode, where the set was split.
        parts: What of the episodes is read.
    """

    stores: Stores
    set: CurationSet
    conversion: SetConverter | MergeConverter
    members: Callable[[], Iterator[str]]
    are_spans: bool
    weights: SampleWeights | None = None
    notes: ReadingNotes = NO_NOTES
    num_parts: int | None = None
    num_incomplete: int = 0
    sides: Mapping[str, str] = field(default_factory=dict)
    parts: ReadParts = field(default_factory=ReadParts)

    def side_of(self, episode: Episode) -> str:
        """The split that an episode is written in: its side in the split of the set, else the split of its source."""
        if not self.sides:
            return episode.split or "train"
        return self.sides.get(episode.content_hash) or self.sides.get(episode.episode_id, NO_SIDE)

    def member_batches(
        self, failures: ExportFailures, members: Iterable[str] | None = None
    ) -> Iterator[ExportBatch]:
        """Read members in their order, with the whole episodes that spans are of.

        Args:
            failures: Where members are added whose episode the workspace no longer has, or that cannot be converted.
            members: Episode ids, or lines of spans; None for all of the set.
        """
        remaining, has_read = iter(self.members() if members is None else members), False
        while requested := list(islice(remaining, BATCH_EPISODES)):
            spans = tuple(map(Span.parse, requested)) if self.are_spans else ()
            ids = list(dict.fromkeys(span.episode_id for span in spans)) if self.are_spans else requested
            episodes, trajectories, errors = self._read_episodes(ids)
            batch = ExportBatch(requested, episodes, trajectories, {}, spans)
            converted = _converted_batch(batch, self.conversion, errors)
            if self.weights is not None:
                converted = replace(
                    converted, trajectories=self.weights.add(converted.episodes, converted.trajectories)
                )
            for name in requested if errors else ():
                if error := errors.get(name.partition(" ")[0]):
                    failures.add(name, error)
            has_read |= bool(episodes)
            yield converted
        if members is None and has_read:
            self.parts.require_known()

    def _read_episodes(
        self, ids: Sequence[str]
    ) -> tuple[list[Episode], dict[str, Trajectory], dict[str, AresError]]:
        """Some episodes in their order, the signals of each, and what became of those that are not there."""
        tables = self.stores.tables
        trajectories = dict(tables.trajectories.read(ids))
        by_id = {episode.episode_id: episode for episode in tables.episodes.get(ids)}
        stored_ids = by_id.keys() & trajectories.keys()
        absent = [id for id in ids if id not in stored_ids]
        removed = frozenset(tables.removed.ids(ids_filter(absent)).to_pylist() if absent else ())
        errors: dict[str, AresError] = {
            id: _removed_error() if id in removed else _absent_error() for id in absent
        }
        episodes = [self.parts.narrow_episode(by_id[id]) for id in ids if id in stored_ids]
        return episodes, {id: self.parts.narrow_signals(trajectories[id]) for id in stored_ids}, errors


def _converted_batch(
    batch: ExportBatch, convert: SetConverter | MergeConverter, errors: dict[str, AresError]
) -> ExportBatch:
    """The batch with converted signals, without the episodes that cannot be converted: they get an error."""
    episodes: list[Episode] = []
    trajectories: dict[str, Trajectory] = {}
    reasons: dict[str, tuple[str, ...]] = {}
    for stored in batch.episodes:
        id = stored.episode_id
        try:
            converted = convert.apply(stored, batch.trajectories[id])
            if converted is not None:
                reasons[id] = convert.reasons(stored)
                episode, trajectories[id] = converted
                episodes.append(episode)
        except AresError as error:
            errors[id] = error
    return ExportBatch(batch.requested_ids, episodes, trajectories, reasons, batch.spans)


def _removed_error() -> StoreError:
    return StoreError("removed", "the episode was removed from the workspace; `ares undo` brings it back")


def _absent_error() -> StoreError:
    return StoreError("the workspace does not have the episode any more")


class Exporter(Protocol):
    """A format to export to: the type of the entry points of the group "ares.exporters".

    The built-in ones are named `export_FORMAT`.
    """

    def __call__(
        self, request: ExportRequest, reader: ExportReader, progress: Callable[[int], None]
    ) -> ExportReport:
        """Write a set into a new folder.

        Args:
            request: The set, the folder, and what else a user chose.
            reader: Reads the set as it is to be written.
            progress: Called with a number of episodes whenever some are finished.

        Raises:
            RequestError: The destination is not empty, or the format cannot hold the set.
            MediaError: No episode can be exported, or with `strict` one cannot.
            StoreError: The disk is full.
        """


def export_set(
    request: ExportRequest,
    stores: Stores,
    progress: Callable[[int], None],
    conversion: SetConverter | MergeConverter | None = None,
    *,
    quiet: bool = True,
) -> ExportReport:
    """Write a set into a new folder.

    Args:
        request: The set, the folder, the format, and what else a user chose.
        stores: Stores of the workspace.
        progress: Called with a number of episodes whenever some are finished.
        conversion: What to do with the signals; None for the conversions that the request names.
        quiet: Show no progress of an upload.

    Raises:
        RequestError: There is no such format, the destination is not empty, a conversion cannot be made, or the least
            precision is not shown.
        ClashError: Signals of the set mean different things, and no conversion is named for them.
        PluginError: The exporter cannot be imported, or fails.
        MediaError: No episode can be exported, or with `strict` one cannot.
        StoreError: The disk is full, or a URL cannot be written.
    """
    with local_destination(request, stores, quiet) as local:
        report = _export_locally(local, stores, progress, conversion)
        failures = local.destination / FAILURES_FILE
        lines = failures.read_text(encoding="utf-8").splitlines() if failures.is_file() else []
    _remember_export(request, stores, report, [json.loads(line) for line in lines])
    if local is not request:
        report = replace(report, path=request.destination, unchanged_since="")
    return report


def _export_locally(
    request: ExportRequest,
    stores: Stores,
    progress: Callable[[int], None],
    conversion: SetConverter | MergeConverter | None,
) -> ExportReport:
    """Write a set into a new local folder, or link what an earlier export has. Raises as `export_set`."""
    exporter: Exporter = exporters.get(request.format)
    if request.min_precision is not None:
        from ares.export.precision_gate import refuse_unmeasured

        members = Sets(stores.annotations).ids(request.set)
        refuse_unmeasured(stores, members, request.min_precision, request.refuted)
    reader = open_reader(request, stores, conversion)
    if request.min_kept is not None:
        request = _ask_for_kept_episodes(request, stores, reader.num_incomplete)
    state = hash_state(request, stores)
    is_written = (request.destination / MANIFEST_FILE).is_file()
    earlier = request.destination if is_written else request.link_dest
    report = None
    if earlier is not None:
        check_link_folder(earlier)
        report = repeat_export(request, earlier, state)
    if report is None:
        report = _write_export(exporter, request, reader, progress)
        note_state(request.destination, state)
    else:
        progress(request.set.num_members)
    finish_export(request.destination)
    return report


def _write_export(
    exporter: Exporter, request: ExportRequest, reader: ExportReader, progress: Callable[[int], None]
) -> ExportReport:
    """What the exporter of a format has written, which must account for the whole set. Raises as `export_set`."""
    label = exporters.label(request.format)
    if reader.num_parts:
        progress = _count_parts(progress, request.set.num_members, reader.num_parts)
    with plugin_faults(label):
        report = exporter(request, reader, progress)
    if not isinstance(report, ExportReport):
        detail = f"got a {type(report).__name__}; `export_members` makes one"
        raise PluginError(f"{label} returned no ExportReport", detail)
    # A trim and a merge write more or fewer than the set has members.
    is_changed = reader.num_parts is not None or request.plan is not None
    total = request.set.num_members
    count = report.episodes + report.failed + reader.num_incomplete
    if not request.destination.is_dir() or count != (count if is_changed else total):
        detail = (
            f"{report.episodes} written, {report.failed} failed, of {total}; `export_members` counts them"
        )
        raise PluginError(f"{label} reports what it has not written", detail)
    if request.link_dest is not None:
        link_equal_files(request.destination, request.link_dest)
    return report


def _ask_for_kept_episodes(request: ExportRequest, stores: Stores, num_incomplete: int) -> ExportRequest:
    """The request with the least number of members that its share of the last export asks for.

    Raises:
        RequestError: The set has fewer, or the share is none.
    """
    share = request.min_kept or 0.0
    if not 0.0 < share <= 1.0:
        raise RequestError("a share of episodes is above 0, and at most 1", f"got {share:g}")
    before = _find_last_export(stores, request.set.name).get("episodes", 0)
    least = math.ceil(share * before)
    kept = request.set.num_members - num_incomplete
    if kept < least:
        raise RequestError(
            f"the set has {count_of(kept, 'whole episode')}, the last export of {request.set.name} had {before}",
            f"{share:g} of these are {least}; {num_incomplete} are incomplete",
        )
    return replace(request, least_episodes=least + num_incomplete)


def _count_parts(progress: Callable[[int], None], total: int, parts: int) -> Callable[[int], None]:
    """Counts towards a total while parts are counted, of which an episode may have several or none."""
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        before, done = done * total // parts, done + count
        progress(done * total // parts - before)

    return advance


def _find_last_export(stores: Stores, set_name: str) -> Mapping[str, Any]:
    """What the workspace knows of the last export of a set, by its name; nothing where there is none."""
    documents = (
        cast("dict[str, Any]", document) for _, document in stores.annotations.find_documents(EXPORTS)
    )
    of_set = (item for item in documents if str(item["set"]).partition("@")[0] == set_name)
    return max(of_set, key=lambda item: int(item.get("number", 0)), default={})


def _remember_export(
    request: ExportRequest, stores: Stores, report: ExportReport, failed: Sequence[Mapping[str, Json]]
) -> None:
    """Write a document of an export to the log, so that a purge can name it; what cannot be written is told."""
    destination, key = request.destination, request.set.frozen_key
    folder = str(destination.expanduser().resolve() if isinstance(destination, Path) else destination)
    document: Json = {
        "set": request.set.label,
        # It grows with each export of the set, whatever the clock says.
        "number": 1 + int(_find_last_export(stores, request.set.name).get("number", 0)),
        "episodes": report.episodes,
        "path": folder,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "options": request.options,
        # Of a span that failed, other spans of its episode may be there.
        "failed": [str(line["episode_id"]) for line in failed if "start_seconds" not in line],
    }
    try:
        stores.annotations.put_documents(EXPORTS, {f"{key}/{short_hash(folder)}": document})
    except StoreError as error:
        write_stderr(f"ares export: {folder} is complete, and the workspace does not remember it: {error}")


def open_reader(
    request: ExportRequest, stores: Stores, conversion: SetConverter | MergeConverter | None = None
) -> ExportReader:
    """Reads the set of a request; arguments and errors are those of `export_set`."""
    members, convert = partial(Sets(stores.annotations).members, request.set), conversion
    if convert is None:
        contracts = find_contracts_of_episodes(stores, Sets(stores.annotations).ids(request.set), True)
        if request.plan is not None:
            from ares.export.merge_apply import MergeConverter

            convert = MergeConverter(request.plan, contracts, request.convert)
        else:
            convert = SetConverter(contracts, parse_conversions(request.convert) if request.convert else ())
    drawn = carried_split(stores.annotations, request.set)
    kept = {*EXPORT_SIGNALS, *(RLDS_SIGNALS if request.format == "rlds" else ())}
    sides = {key: row.side for row in drawn for key in (row.episode_id, row.content_hash)}
    reader = ExportReader(
        stores,
        request.set,
        convert,
        members,
        request.set.num_spans is not None,
        sides=sides,
        parts=ReadParts(request.signals, request.drop_cameras, kept),
    )
    if request.trim is not None:
        from ares.export.trim import TrimmedMembers

        trimmed = TrimmedMembers(stores, request.set, request.trim)
        notes, count = ReadingNotes(*trimmed.notes()), trimmed.num_parts
        reader = replace(reader, members=trimmed, are_spans=True, notes=notes, num_parts=count)
    reader = _note_corrections(_without_incomplete(reader))
    if request.weights:
        reader = _with_weights(reader, request)
    return reader


def _without_incomplete(reader: ExportReader) -> ExportReader:
    """The reader without the episodes that lack something that their source promises, and nobody has accepted it.

    Raises:
        RequestError: All of the set are so.
    """
    incomplete = find_incomplete_episodes(reader.stores)
    incomplete = incomplete.intersection(
        Sets(reader.stores.annotations).ids(reader.set) if incomplete else ()
    )
    if not incomplete:
        return reader

    def read_members() -> Iterator[str]:
        return (name for name in reader.members() if name.partition(" ")[0] not in incomplete)

    count = sum(1 for _ in reader.members()) - sum(1 for _ in read_members())
    remedy = (
        "`ares failures list --annotator incomplete{0}` says what is missing,"
        " `ares failures accept --annotator incomplete{0}` exports them as they are"
    )
    if next(read_members(), None) is None:
        where = f" -w {shlex.quote(str(reader.stores.folder))}"
        reason = f"all {count_of(len(incomplete), 'episode')} of the set are incomplete"
        raise RequestError(reason, remedy.format(where))
    # The line goes into the export, which is the same wherever the workspace lies.
    line = f"{count_of(len(incomplete), 'incomplete episode')}: {remedy.format('')}"
    notes = reader.notes._replace(left_out=(line, *reader.notes.left_out))
    return replace(reader, members=read_members, notes=notes, num_incomplete=count)


def _note_corrections(reader: ExportReader) -> ExportReader:
    """The reader with a note of how many instructions people corrected since the set was frozen."""
    episodes, log = reader.stores.tables.episodes, reader.stores.annotations
    if "instruction_original" not in episodes.columns() or not reader.set.created:
        return reader
    corrected = episodes.ids(TrustedFilter("instruction_original IS NOT NULL"))
    members = corrected.intersection(Sets(log).ids(reader.set))
    # A set knows the second in which it was made.
    frozen = datetime.fromisoformat(reader.set.created).timestamp() + 1.0
    names = [name for name in PERSON_ANNOTATORS if name.startswith("instruction")]
    since = {
        annotation.episode_id
        for ids in batched(sorted(members), BATCH_EPISODES)
        for annotation in log.find_annotations(ids, names)
        if annotation.revision / 1e9 > frozen
    }
    if not since:
        return reader
    change: dict[str, Json] = {
        "reason": f"instructions that people corrected since {reader.set.label} was made",
        "episodes": len(since),
    }
    return replace(reader, notes=reader.notes._replace(changed=(change, *reader.notes.changed)))


def _with_weights(reader: ExportReader, request: ExportRequest) -> ExportReader:
    """The reader with the weights of a request."""
    from ares.export.weights import SampleWeights

    weights = SampleWeights(reader.stores, reader.members, request.weights)
    (changed, left_out, unknown), more = reader.notes, ReadingNotes(*weights.notes())
    notes = ReadingNotes(changed + more.changed, left_out + more.left_out, unknown + more.unknown)
    return replace(reader, weights=weights, notes=notes)
