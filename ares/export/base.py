"""What an export is asked for and what it reports; and what exporters share: failures, tasks, columns, manifest."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast, get_args

from ares.annotation import Producer, canonical_json
from ares.console import count_of
from ares.contract import DatasetKey
from ares.curation import carried_split
from ares.episode import INTERVENTION, Episode, Json, Span
from ares.errors import AresError, MediaError, RequestError
from ares.export.segments import NO_SEGMENTS, SegmentReader, check_segment_choices
from ares.imitation import ACTION_MASK, NO_TASK, ImitationNeeds
from ares.input import is_table
from ares.io import hash_files
from ares.jobs import Report

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.curation import CurationSet
    from ares.export.merge_plan import MergePlan
    from ares.export.trim import TrimRequest
    from ares.store import Stores


FAILURES_FILE = "manifest.failed.jsonl"
# Fields of a report that depend on when and where a set is exported; the manifest has all others.
_LOCAL_FIELDS = ("set", "path", "seconds", "unchanged_since")
# Fields of a request that are no options of an export.
_NO_OPTIONS = ("set", "destination", "files_hash", "min_precision", "min_kept", "least_episodes", "link_dest")
# The plan of a merge, as it was obeyed, in the export.
PLAN_FILE = "plan.yaml"
# Extra signals of a merged dataset that say what of an episode is its own: 1 for what its source has, 0 for what was
# padded. Names that begin with "action" or "observation" would be inputs of a policy in LeRobot.
MASK_SIGNALS = ("mask.state", ACTION_MASK, "mask.camera")
# Extra signal that says how much a step counts, see `ares.export.weights`.
SAMPLE_WEIGHT = "sample_weight"
# Further signals that ARES makes itself.
EXPORT_SIGNALS = frozenset({*MASK_SIGNALS, SAMPLE_WEIGHT, INTERVENTION})
# Further signals that RLDS has keys for: without them a record would say what its source does not.
RLDS_SIGNALS = ("discount", "is_first", "is_last", "is_terminal")
_MAX_LISTED = 10
# Columns of the episodes table that a task may come from: the caption, whether it is true (null: not decided), and
# what a refuted judge says of it.
TASK_COLUMNS = ("caption", "acceptable", "grade", "grade_refuted")
_CAPTION, _ACCEPTABLE, _GRADE, _REFUTED = TASK_COLUMNS
_INSTRUCTION = "instruction"
# The number of episodes by the source of their task, before any is counted.
NO_TASKS: Mapping[str, int] = dict.fromkeys((_INSTRUCTION, _CAPTION, "none"), 0)
# Columns of the episodes table that exist without annotators; annotators fill all others.
_BUILTIN_COLUMNS = frozenset(
    {"episode_id", "format", "dataset", "version", "split", "key", "source", "content_hash", "instruction",
     "instructions", "robot", "num_steps", "rate_hz", "rate_source", "duration_seconds", "num_cameras", "cameras",
     "success", "success_source", "state_names", "action_names", "metadata", "duplicate_of", "ingested",
     "source_stamp", "camera_stamps", "label_stamp", "frame_pairing", "claimed_rate_hz", "measured_rate_hz",
     "rate_spread", "clock_shift_seconds"}
)  # fmt: skip
_UNFILTERED_COLUMNS = ("cameras", "metadata")
MANIFEST_FILE = "manifest.json"
# The only file that differs when the same set is exported again.
TIMES_FILE = "manifest.times.json"
EPISODES_FILE = "manifest.episodes.jsonl"
# The rows of the table of its split for the contents of an export.
SPLIT_FILE = "manifest.split.jsonl"
# What people said of the episodes, a line for each answer; where people have said anything in the workspace.
ANSWERS_FILE = "manifest.answers.jsonl"


class ExportFailures:
    """Episodes or spans that cannot be exported, and what the others lack; collected, and with `strict` refused.

    Args:
        folder: The export, where FAILURES_FILE gets a line per episode or span.
        strict: Whether any failure, and anything that is lacking, ends the export.
        least: Members that must not fail.

    Attributes:
        members: Those that fail.
        needs: What the others lack for imitation learning.
    """

    def __init__(self, folder: Path, strict: bool, least: int = 0) -> None:
        self._file, self._strict, self._least = folder / FAILURES_FILE, strict, least
        self.members: set[str] = set()
        self.needs = ImitationNeeds()
        self._labels: dict[str, str] = {}
        self._report = Report()

    @property
    def fatal(self) -> bool:
        """Whether the export will fail, so that nothing more has to be written."""
        return self._strict and bool(self.members)

    def add(self, member: str, error: AresError) -> None:
        """Leave a member of the set out, by its episode id or the line of its span; its first error counts."""
        if member in self.members:
            return
        self.members.add(member)
        span = Span.parse(member) if " " in member else None
        label = str(span) if span else member
        self._report.add_failure(error, label)
        if len(self._labels) < _MAX_LISTED:
            self._labels.setdefault(str(error), label)
        subject: dict[str, Json] = span.to_json() if span else {"episode_id": member}
        line = canonical_json({**subject, "reason": error.reason, "detail": error.detail})
        with self._file.open("a", encoding="utf-8", errors="replace") as file:
            file.write(line + "\n")

    def check(self, total: int) -> None:
        """Refuse an export of which too much failed, or that lacks what it must have.

        Args:
            total: Members of the set.

        Raises:
            MediaError: Every episode failed, or with `strict` any: names the first.
            RequestError: Fewer are left than are asked for, or with `strict` something is lacking.
        """
        count = len(self.members)
        if count and total - count < self._least:
            label, error = next((label, error) for error, label in self._labels.items())
            raise RequestError(
                f"{count_of(total - count, 'episode')} of the set can be exported, {self._least} must be",
                f"{count} fail, the first {label}: {error}",
            )
        if not self.fatal and count < max(total, 1):
            if self._strict and (lines := self.needs.lines()):
                raise RequestError("the export lacks what imitation learning needs", "; ".join(lines))
            return
        listed = "; ".join(f"{label}: {error}" for error, label in self._labels.items())
        rest = f"; and more, {count} in all" if count > len(self._labels) else ""
        reason = (
            "not every episode of the set can be exported" if self._strict else "no episode can be exported"
        )
        raise MediaError(reason, f"{count} of {count_of(total, 'episode')} fail: {listed}{rest}")

    def tallies(self) -> list[Json]:
        """Reason, count and example of each kind of failure, the most frequent first."""
        failures = self._report.to_json()["failures"]
        assert isinstance(failures, list)
        return failures


# What the task of an episode is: its instruction, its caption where a grade accepts that, or the instruction as it was
# recorded, whatever people say in its place.
TaskSource = Literal["instruction", "caption", "instruction:original"]
TASK_SOURCES: tuple[TaskSource, ...] = get_args(TaskSource)


# Which step is written for a second: the nearest, or the last one at or before it.
RetimeMode = Literal["nearest", "hold"]
RETIME_MODES: tuple[RetimeMode, ...] = get_args(RetimeMode)


@dataclass(frozen=True, slots=True)
class ExportRate:
    """The rate that a user announced for an export.

    Attributes:
        fps: Steps per second of every episode; None for that of the episode, at which all steps are written.
        retime: Which step is written for a second.
        joined: The rate that is written in place of each measured one, see `ares.export.retime.join_measured_rates`.
    """

    fps: float | None = None
    retime: RetimeMode = "nearest"
    joined: Mapping[float, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.fps is not None and not (math.isfinite(self.fps) and self.fps > 0):
            raise RequestError("the rate of an export is a positive number", f"got {self.fps:g} Hz")
        if self.retime not in RETIME_MODES:
            raise RequestError(f"no way {self.retime!r} to retime", f"there are: {', '.join(RETIME_MODES)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """What a user asks of an export; an exporter gets it whole.

    Attributes:
        set: The set to write.
        destination: A new or empty folder; it appears complete or not at all.
        format: Name of the exporter.
        task: What the task of an episode is, see `episode_task`.
        refuted: Whether captions and texts of segments leave also where a refuted judge accepts them.
        fps: Steps per second to write; None for the rate of each episode.
        retime: Which step is written for a second.
        convert: Conversions of signals, such as "action.gripper=open1"; see `ares.contract`.
        strict: Whether an episode that fails, or what the export lacks for imitation learning, ends the export.
        segments: Names of text of segments that is written though its grade holds it back, see
            `ares.export.segments`; "none" writes no segments.
        plan: How the sources become one dataset; None writes a dataset for each kind of episodes.
        trim: Which parts of the episodes are written; None writes them whole.
        weights: A column of numbers, or a table, that is the weight of each step, see `ares.export.weights`; "" writes
            none.
        min_precision: Share of true captions that people must have measured of each dataset; None asks for none. It
            changes nothing of what is written.
        min_kept: Least share of the episodes that the last export of a set of this name had; None asks for none.
        least_episodes: The same as a number of members, which `export_set` finds.
        signals: Names of the further signals to write; None writes those that all episodes of a folder have, and
            as Parquet all of each episode. Those that ARES makes, and flags of RLDS in RLDS, are always written.
        drop_cameras: Names of cameras that are not written.
        link_dest: An earlier export, to whose files equal ones are linked; None links nothing.
        files_hash: Hash of the files that trim and weights name, so that two requests that are equal write the same.

    Raises:
        RequestError: The plan has another rate, the rate is not positive, or there is no such task, way to retime, or
            name of segments.
    """

    set: CurationSet
    destination: Path
    format: str
    task: TaskSource = "instruction"
    refuted: bool = False
    fps: float | None = None
    retime: RetimeMode = "nearest"
    convert: Sequence[str] = ()
    strict: bool = False
    segments: Sequence[str] = ()
    plan: MergePlan | None = None
    trim: TrimRequest | None = None
    weights: str = ""
    min_precision: float | None = None
    min_kept: float | None = None
    least_episodes: int = 0
    signals: Sequence[str] | None = None
    drop_cameras: Sequence[str] = ()
    link_dest: Path | None = None
    files_hash: str = field(default="", init=False)

    def __post_init__(self) -> None:
        if self.plan is not None:
            self._take_clock(self.plan)
            if self.drop_cameras:
                detail = f"leave {', '.join(self.drop_cameras)} out of `cameras` there"
                raise RequestError("a plan says which cameras are written", detail)
        assert self.clock  # checks rate and mode
        for name in ("convert", "drop_cameras", *(("signals",) if self.signals is not None else ())):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not isinstance(self.weights, str):
            detail = f"got {list(self.weights)}; multiply several in a table: docs/trim.md"
            raise RequestError("weights are one column or one table", detail)
        if is_table(self.weights):
            object.__setattr__(self, "files_hash", hash_files([self.weights]))
        object.__setattr__(self, "segments", check_segment_choices(self.segments) if self.segments else ())
        if self.task not in TASK_SOURCES:
            raise RequestError(f"no task {self.task!r}", f"there are: {', '.join(TASK_SOURCES)}")

    def _take_clock(self, plan: MergePlan) -> None:
        if self.fps not in (None, plan.fps):
            raise RequestError("the plan has another rate", f"{plan.fps or 'none'}, not {self.fps:g} Hz")
        object.__setattr__(self, "fps", plan.fps)
        object.__setattr__(self, "retime", plan.retime)

    @property
    def released_states(self) -> Collection[str]:
        """The states of texts of segments that are written though their grade holds them back."""
        return (*self.segments, *(("refuted",) if self.refuted else ()))

    @property
    def options(self) -> dict[str, Json]:
        """What a user chose, by name, for the manifest: all that makes the same export again of the same set."""
        values = {
            item.name: getattr(self, item.name) for item in fields(self) if item.name not in _NO_OPTIONS
        }
        plan = {} if self.plan is None else {"plan": PLAN_FILE}
        stated = {
            name: value
            for name, value in {**values, "plan": None, **plan}.items()
            if value not in (None, (), False, "") or (name == "signals" and value is not None)
        }
        # A tuple is a list there, and a request such as that of a trim is its fields.
        document: dict[str, Json] = json.loads(json.dumps(stated, default=asdict))
        return document

    @property
    def clock(self) -> ExportRate:
        """The rate to write, and which step is written for a second."""
        return ExportRate(self.fps, self.retime)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """Counts of an export.

    Attributes:
        set: Label of the set ("accepted@1").
        episodes: Episodes written: those of the set, minus `failed`.
        frames: Steps written, over all episodes.
        tasks: Distinct task texts.
        task_source: What was to be the task of an episode.
        task_sources: Number of episodes by what their task is: "instruction", "caption", or "none" for NO_TASK; of
            spans also "segment", the text of their segment.
        sides: Number of episodes by the split that they are written in; empty for formats without splits.
        path: The folder.
        copied_packets: Video frames copied without decoding, over all cameras.
        encoded_frames: Frames encoded again, over all cameras.
        copied_records: Episodes whose record of the source was copied, byte for byte.
        seconds: Duration of the export.
        left_out: Data of the source that is not in the export ("camera image_3 of bridge: black").
        datasets: One entry per dataset folder ("path", "episodes", "frames"); of a further folder of one dataset, in
            "why_apart" what it has otherwise.
        reencoded: Number of videos and image sequences by the reason why they were encoded, which changes their pixels.
        failed: Episodes of the set that are not in the export.
        failures: The failures grouped by reason ("reason", "count", "example").
        lacks: What the episodes lack for imitation learning ("no action: 12 of 28 episodes"), see `ares.imitation`.
        changed: What the export changed in clocks and signals of episodes, by reason; see
            `ares.export.retime.ClockChange` and `ares.contract.SetConverter`.
        unknown: What of the meaning of signals is not known, so that it may clash.
        segments: Segments by their origin ("written"), by why they are not in the export ("held_back"), by
            what of them the format has no place for ("not_held"), and spans by why the text of their segment is not
            their task ("task_held_back").
        unchanged_since: The earlier export that has the same, whose files are linked; "" where something has changed.
    """

    set: str
    episodes: int
    frames: int
    tasks: int
    task_source: TaskSource = "instruction"
    task_sources: Mapping[str, int] = field(default_factory=dict)
    sides: Mapping[str, int] = field(default_factory=dict)
    path: Path
    copied_packets: int = 0
    encoded_frames: int = 0
    copied_records: int = 0
    seconds: float
    left_out: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    changed: tuple[dict[str, Json], ...] = ()
    unknown: tuple[str, ...] = ()
    segments: Mapping[str, Json] = field(default_factory=dict)
    datasets: tuple[dict[str, Json], ...] = ()
    reencoded: dict[str, int] = field(default_factory=dict)
    failed: int = 0
    failures: tuple[Json, ...] = ()
    unchanged_since: str = ""

    def to_json(self) -> dict[str, Json]:
        """The fields, as `ares export --json` prints them."""
        document: dict[str, Json] = {}
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            document[name] = (
                list(value)
                if isinstance(value, tuple)
                else dict(value)
                if isinstance(value, Mapping)
                else value
            )
        return {**document, "path": str(self.path), "seconds": round(self.seconds, 3)}


def make_export_report(
    request: ExportRequest, failures: ExportFailures, seconds: float, **counts: Any
) -> ExportReport:
    """The report of an export, with what was asked for, what failed, and the counts of the exporter."""
    return ExportReport(
        set=request.set.label,
        task_source=request.task,
        path=request.destination,
        seconds=seconds,
        failed=len(failures.members),
        failures=tuple(failures.tallies()) if failures.members else (),
        lacks=failures.needs.lines(),
        **counts,
    )


class EpisodeTaskText(NamedTuple):
    """The task of an episode: its text, and what it is.

    That is "instruction", "caption", or "none" for NO_TASK; of a span also "segment", the text of its segment.
    """

    text: str
    source: str


def episode_task(
    episode: Episode, row: Mapping[str, Json], source: TaskSource, *, takes_refuted: bool = False
) -> EpisodeTaskText:
    """The task of an episode.

    With "instruction" it is the instruction; without one, the caption, unless a grade rejects it or its judge is
    refuted. With "caption" it is the caption where it is acceptable, else the instruction. Without either it is
    NO_TASK.

    Args:
        episode: The episode; its instruction is what people say, where they correct it.
        row: Its TASK_COLUMNS, as far as the workspace has them; other columns are ignored.
        source: What is to be the task.
        takes_refuted: Whether a caption is taken also where a refuted judge accepts it.
    """
    instruction, value = episode.instruction, row.get(_CAPTION)
    if source == "instruction:original":
        instruction = str(episode.recorded.get(_INSTRUCTION, instruction))
    caption = value if isinstance(value, str) else ""
    is_refuted = row.get(_REFUTED) is True
    is_released = is_refuted and takes_refuted and row.get(_GRADE) == "acceptable"
    if source == "caption":
        is_accepted = row.get(_ACCEPTABLE) is True or is_released
        candidates = [("caption", caption if is_accepted else ""), ("instruction", instruction)]
    else:
        is_doubtful = row.get(_ACCEPTABLE) is False or (is_refuted and not is_released)
        candidates = [("instruction", instruction), ("caption", "" if is_doubtful else caption)]
    return next(
        (EpisodeTaskText(text, name) for name, text in candidates if text), EpisodeTaskText(NO_TASK, "none")
    )


def annotator_columns(stores: Stores) -> list[str]:
    """Columns of the episodes table that annotators filled, sorted."""
    return sorted(set(stores.tables.episodes.columns()) - _BUILTIN_COLUMNS)


def annotator_values(stores: Stores, ids: Sequence[str]) -> list[dict[str, Json]]:
    """One row per episode in the order of the ids: episode_id and the columns that annotators filled."""
    rows = read_rows(stores, ["episode_id", *annotator_columns(stores)], ids)
    return cast("list[dict[str, Json]]", rows.to_pylist())


def list_episode_columns(stores: Stores) -> list[str]:
    """Every column of the episodes table."""
    return list(dict.fromkeys([*stores.tables.episodes.columns(), *_UNFILTERED_COLUMNS]))


def read_rows(stores: Stores, columns: Sequence[str], ids: Sequence[str]) -> pa.Table:
    """Columns of the episodes table, episode_id among them; one row per episode in the order of the ids."""
    import pyarrow as pa
    import pyarrow.compute as pc

    condition = f"episode_id IN ({', '.join(repr(id) for id in ids)})" if ids else "false"
    table = pa.Table.from_batches(
        stores.tables.episodes.scan(columns, where=condition), schema=stores.tables.episodes.schema(columns)
    )
    order = pc.index_in(pa.array(ids, pa.string()), table["episode_id"].combine_chunks())
    return cast("pa.Table", table.take(order))


def find_segment_producers(stores: Stores, request: ExportRequest) -> dict[str, Producer]:
    """Producers of the segments whose texts an export may write, by id.

    Captions of whole episodes can be their tasks, see `episode_task`, and are no segments here.
    """
    producers = {} if NO_SEGMENTS in request.segments else stores.annotations.producers()
    return {
        id: producer
        for id, producer in producers.items()
        if producer.fills_segments and not any(column.name == "caption" for column in producer.columns)
    }


def open_span_texts(stores: Stores, request: ExportRequest) -> SegmentReader | None:
    """Reads the texts that are the tasks of spans; None for a set of episodes, and where no texts are asked for."""
    if request.set.num_spans is None or NO_SEGMENTS in request.segments:
        return None
    producers = {
        id: producer for id, producer in stores.annotations.producers().items() if producer.fills_segments
    }
    return SegmentReader(stores, producers, request.released_states)


class ExportManifest(AbstractContextManager["ExportManifest"]):
    """Collects the content of an export, episode by episode.

    EPISODES_FILE has a line per episode (identity, content hash, location in the export), TIMES_FILE when the
    export and the set were made, MANIFEST_FILE the rest.
    `ares.export.base` writes the episodes that were left out to a third file.

    Args:
        folder: The export.
        stores: Stores of the workspace that the set belongs to.
        request: The set, and what was asked of its export.
        format: Name and version of the format ("lerobot v3.0").

    Attributes:
        episodes: Number of episodes, or of spans, that were written.
        maker_ids: Producers of the annotations of exported episodes, which exporters add.
    """

    def __init__(self, folder: Path, stores: Stores, request: ExportRequest, format: str) -> None:
        self._folder, self._stores, self._request, self._format = folder, stores, request, format
        self._datasets: dict[DatasetKey, tuple[int, float]] = {}
        self._lines = (folder / EPISODES_FILE).open("w", encoding="utf-8")
        self._digest = hashlib.sha256()
        self.maker_ids: set[str] = set()
        self._episode_ids: set[str] = set()
        self._contents: set[str] = set()
        self.episodes = 0

    def __exit__(self, *_: object) -> None:
        self._lines.close()

    def add(self, episode: Episode, path: str, index: int, part: Mapping[str, Json] | None = None) -> None:
        """Add an episode that was written.

        Args:
            episode: The episode.
            path: Dataset folder inside the export, "." for the export itself.
            index: Number of the episode in that folder.
            part: The part of the episode that was written; None for all of it.
        """
        names = ("episode_id", "content_hash", "dataset", "version", "split", "key")
        identity = {name: getattr(episode, name) for name in names}
        line = canonical_json({**identity, "path": path, "index": index, **(part or {})})
        self._lines.write(line + "\n")
        self._digest.update(f"{line}\n".encode())
        self._episode_ids.add(episode.episode_id)
        self._contents.add(episode.content_hash or episode.episode_id)
        key = DatasetKey(episode.format, episode.dataset, episode.version)
        span: Mapping[str, Any] = part or {
            "start_seconds": 0.0,
            "stop_seconds": episode.num_steps / episode.rate_hz,
        }
        seconds = span["stop_seconds"] - span["start_seconds"]
        episodes, total = self._datasets.get(key, (0, 0.0))
        self._datasets[key] = (episodes + 1, total + seconds)
        self.episodes += 1

    def write(self, report: ExportReport) -> None:
        """Write the card, and MANIFEST_FILE last of all files."""
        self._lines.close()
        from ares.export.dataset_card import ExportedDataset, collect_card_facts, write_dataset_card
        from ares.export.precision_gate import describe_measured

        counts = {name: value for name, value in report.to_json().items() if name not in _LOCAL_FIELDS}
        measured = describe_measured(self._stores, self._episode_ids)
        selection = self._request.set.to_json()
        created = datetime.now(UTC).isoformat(timespec="seconds")
        datasets = [ExportedDataset(key, *tally) for key, tally in self._datasets.items()]
        document: dict[str, Json] = {
            "ares": version("ares-curation"),
            "times": {"file": TIMES_FILE},
            "format": self._format,
            "set": {name: value for name, value in selection.items() if name not in ("created", "person")},
            "export": self._request.options,
            "counts": counts,
            "episodes": {"file": EPISODES_FILE, "count": self.episodes, "sha256": self._digest.hexdigest()},
            **({"failed": {"file": FAILURES_FILE, "count": counts["failed"]}} if counts["failed"] else {}),
            # What people measured of the captions of each dataset.
            **({"measured": measured} if measured else {}),
            **self._describe_producers(),
            "card": collect_card_facts(self._stores, datasets, self._episode_ids),
        }
        write_dataset_card(self._folder, document)
        self._write_split()
        times = {"created": created, "set_created": selection["created"]}
        for name, content in ((TIMES_FILE, times), (MANIFEST_FILE, document)):
            text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
            partial = self._folder / f"{name}.tmp"
            partial.write_text(text + "\n", encoding="utf-8")
            partial.replace(self._folder / name)

    def _write_split(self) -> None:
        """Write SPLIT_FILE where the set was split, or is a part of a set that was."""
        split = carried_split(self._stores.annotations, self._request.set)
        rows = [canonical_json(row.to_json()) for row in split if row.content_hash in self._contents]
        if rows:
            (self._folder / SPLIT_FILE).write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")

    def _describe_producers(self) -> dict[str, Json]:
        """The producers of what was exported, and what controls say of the judges among them."""
        from ares.rubric import read_tripwires

        producers = self._stores.annotations.producers()
        if any(producer.kind == "person" for producer in producers.values()):
            self._write_answers()
        used_producers = {id: producers[id] for id in sorted(self.maker_ids & producers.keys())}
        tripwires = read_tripwires(self._stores.annotations)
        return {
            "makers": {
                id: {name: value for name, value in asdict(producer).items() if name != "columns"}
                for id, producer in used_producers.items()
            },
            # What the controls of the judges of captions say, by dataset.
            "judge_tripwire": {id: dict(tripwires[id]) for id in used_producers if id in tripwires},
            # A judge by a rubric names it in its settings.
            "rubrics": {
                id: used.prompt_hash for id, used in used_producers.items() if "rubric" in used.settings
            },
        }

    def _write_answers(self) -> None:
        """Write what people said of the exported episodes."""
        from ares.review import list_answers
        from ares.store import original_answer_id

        with (self._folder / ANSWERS_FILE).open("w", encoding="utf-8") as file:
            for annotation, answer in list_answers(self._stores):
                if annotation.episode_id in self._episode_ids:
                    about = {"episode_id": annotation.episode_id, "created": annotation.created}
                    row = {**answer.to_json(), **about, "answer_id": original_answer_id(annotation)}
                    file.write(canonical_json(row) + "\n")
