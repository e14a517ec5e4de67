"""What an exporter is, what it reads, how one is run for a request, and the folder that it writes into."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from ares.annotation import short_hash
from ares.console import count_of, write_stderr
from ares.contract import SetConverter, find_contracts_of_episodes, parse_conversions
from ares.curation import EXPORTS, Sets
from ares.episode import Episode, Json, Span, Trajectory
from ares.errors import AresError, PluginError, RequestError, StoreError
from ares.export.base import (
    FAILURES_FILE,
    EpisodeTaskText,
    ExportFailures,
    ExportReport,
    ExportRequest,
    episode_task,
)
from ares.export.segments import SegmentReader, SpanText
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
    rows: Sequence[Mapping[str, Json]],
    span_texts: SegmentReader | None,
    annotations: Sequence[Annotation],
) -> dict[str, MemberTask]:
    """The task of each member by its name: of a span the text of its segment, where that may leave.

    Args:
        request: Says what is to be the task.
        batch: The members.
        rows: TASK_COLUMNS of their episodes, in the same order.
        span_texts: Reads the texts of spans; None where none is written.
        annotations: All annotations of their episodes.
    """
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

    def member_batches(
        self, failures: ExportFailures, members: Iterable[str] | None = None
    ) -> Iterator[ExportBatch]:
        """Read members in their order, with the whole episodes that spans are of.

        Args:
            failures: Where members are added whose episode the workspace no longer has, or that cannot be converted.
            members: Episode ids, or lines of spans; None for all of the set.
        """
        remaining = iter(self.members() if members is None else members)
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
            yield converted

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
        return [by_id[id] for id in ids if id in stored_ids], trajectories, errors


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
) -> ExportReport:
    """Write a set into a new folder.

    Args:
        request: The set, the folder, the format, and what else a user chose.
        stores: Stores of the workspace.
        progress: Called with a number of episodes whenever some are finished.
        conversion: What to do with the signals; None for the conversions that the request names.

    Raises:
        RequestError: There is no such format, the destination is not empty, a conversion cannot be made, or the least
            precision is not shown.
        ClashError: Signals of the set mean different things, and no conversion is named for them.
        PluginError: The exporter cannot be imported, or fails.
        MediaError: No episode can be exported, or with `strict` one cannot.
        StoreError: The disk is full.
    """
    exporter: Exporter = exporters.get(request.format)
    label = exporters.label(request.format)
    if request.min_precision is not None:
        from ares.export.precision_gate import refuse_unmeasured

        members = Sets(stores.annotations).ids(request.set)
        refuse_unmeasured(stores, members, request.min_precision, request.refuted)
    reader = open_reader(request, stores, conversion)
    if request.min_kept is not None:
        request = _ask_for_kept_episodes(request, stores, reader.num_incomplete)
    state = hash_state(request, stores)
    if request.link_dest is not None:
        check_link_folder(request.link_dest)
        if repeated := repeat_export(request, request.link_dest, state):
            progress(request.set.num_members)
            _record_export(request, stores, repeated, state)
            return repeated
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
    _record_export(request, stores, report, state)
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


def _record_export(request: ExportRequest, stores: Stores, report: ExportReport, state: str) -> None:
    """Let the workspace know of an export, so that a purge can name it; what cannot be written is told."""
    note_state(request.destination, state)
    folder, key = str(request.destination.expanduser().resolve()), request.set.frozen_key
    failures = request.destination / FAILURES_FILE
    lines = failures.read_text(encoding="utf-8").splitlines() if failures.is_file() else []
    failed = [json.loads(line) for line in lines]
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
        contracts = find_contracts_of_episodes(stores, Sets(stores.annotations).ids(request.set))
        if request.plan is not None:
            from ares.export.merge_apply import MergeConverter

            convert = MergeConverter(request.plan, contracts, request.convert)
        else:
            convert = SetConverter(contracts, parse_conversions(request.convert) if request.convert else ())
    reader = ExportReader(stores, request.set, convert, members, request.set.num_spans is not None)
    if request.trim is not None:
        from ares.export.trim import TrimmedMembers

        trimmed = TrimmedMembers(stores, request.set, request.trim)
        notes, count = ReadingNotes(*trimmed.notes()), trimmed.num_parts
        reader = replace(reader, members=trimmed, are_spans=True, notes=notes, num_parts=count)
    reader = _note_corrections(_without_incomplete(reader))
    if request.weights or request.progress:
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
    remedy = "`ares failures list --annotator incomplete` says what is missing, and `accept` exports them as they are"
    if next(read_members(), None) is None:
        raise RequestError(f"all {count_of(len(incomplete), 'episode')} of the set are incomplete", remedy)
    line = f"{count_of(len(incomplete), 'incomplete episode')}: {remedy}"
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
    """The reader with the weights, and the progress, of a request."""
    from ares.export.weights import SampleWeights

    if request.progress and request.format != "lerobot":
        raise RequestError(
            "progress is for rabc of lerobot", f"got the format {request.format!r}, not lerobot"
        )
    weights = SampleWeights(reader.stores, reader.members, request.weights, request.progress)
    (changed, left_out, unknown), more = reader.notes, ReadingNotes(*weights.notes())
    notes = ReadingNotes(changed + more.changed, left_out + more.left_out, unknown + more.unknown)
    return replace(reader, weights=weights, notes=notes)
