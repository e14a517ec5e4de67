"""Which segments of an episode an export writes: what people and sources say, and of what models say graded text."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, get_args

from ares.annotation import SOURCE_PREFIX
from ares.clock import time_tolerance
from ares.episode import Episode, Json, Span
from ares.errors import RequestError

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.annotation import Annotation, Producer
    from ares.store import Stores


# Text that is held back: `refuted` of an export asks for that of a refuted judge, and its name for any other; and the
# word that holds back all text.
WithheldState = Literal["ungraded", "unsure", "refused", "refuted"]
WITHHELD: tuple[WithheldState, ...] = get_args(WithheldState)
NO_SEGMENTS = "none"
SEGMENT_CHOICES: tuple[str, ...] = (NO_SEGMENTS, *(name for name in WITHHELD if name != "refuted"))
# The style of a text that names none.
SUBTASK = "subtask"
# The style of the tasks of a source in which a step has another task than the one before.
TASK = "task"
# Origins of a text that needs no grade.
PERSON, SOURCE = "person", "source"
_NO_TEXT = "no text"
_GRADE_COLUMNS = ("grade", "grade_refuted", "grade_verdicts")
_PLAN_COLUMNS = ("annotation_id", "episode_id", "start_seconds", "text", "author", "maker_id")
_ROW_COLUMNS = (
    "annotation_id",
    "episode_id",
    "segment_id",
    "start_seconds",
    "stop_seconds",
    "camera",
    "text",
)
# What a track cannot hold of a segment.
ENDS_EARLY = "ends before the next start"
OVERLAPS = "overlaps another of its style"
SECOND_ARM = "a second arm at the same time"
# Texts of people come first, then those of sources, then those of models.
_RANKS = {PERSON: 0, SOURCE: 1}
# Seconds by which ends and starts of neighbours may differ.
_ROUNDING = 1e-3


def check_segment_choices(names: Sequence[str]) -> tuple[str, ...]:
    """The names of held-back text that an export asks for. Raises RequestError for unknown ones."""
    for name in names:
        if name not in SEGMENT_CHOICES:
            known = f"there are: {', '.join(SEGMENT_CHOICES)}; `refuted` takes those of a refuted judge"
            raise RequestError(f"no segments {name!r}", known)
    if NO_SEGMENTS in names and len(names) > 1:
        raise RequestError(f"segments are {NO_SEGMENTS!r} or some, not both", f"got {', '.join(names)}")
    return tuple(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSegment:
    """A segment with a text that an export writes.

    Attributes:
        episode_id: Its episode.
        annotation_id: The annotation that it is.
        segment_id: The same for all of one episode and span.
        annotator: Name of what made it ("source_subtask", "segment").
        maker_id: Its provenance.
        start_seconds: Start of the span [start, stop), seconds of the episode as it is stored.
        stop_seconds: End of the span.
        camera: Camera that it is about, or "".
        style: What kind of text it is ("subtask", "plan"), "" where the source says none.
        text: The text; "" for a row of a source without one, such as a call of a tool.
        author: "person", the name of a model, or "" where the source does not say.
        state: Its origin, "person" or "source", or what the grade says of a model's text.
        grade: Of a graded text its columns: "grade", "grade_refuted" and "grade_verdicts".
        arm: The arm that moves: the one that is said, else that of the segment which a caption is about; else "".
        value: The value of the annotation, with what else the source says.
    """

    episode_id: str
    annotation_id: str
    segment_id: str
    annotator: str
    maker_id: str
    start_seconds: float
    stop_seconds: float
    camera: str
    style: str
    text: str
    author: str
    state: str
    arm: str = ""
    grade: Mapping[str, Json] = field(default_factory=dict)
    value: Mapping[str, Json] = field(default_factory=dict)

    def text_field(self, name: str) -> str:
        """A text of the value, "" where there is none."""
        text = self.value.get(name)
        return text if isinstance(text, str) else ""

    def number_field(self, name: str) -> float | None:
        """A number of the value, None where there is none."""
        number = self.value.get(name)
        return float(number) if isinstance(number, int | float) else None


@dataclass(frozen=True, slots=True)
class EpisodeSegments:
    """The segments of an episode that an export writes, by time, and how many it holds back, by reason."""

    segments: tuple[ExportSegment, ...] = ()
    withheld: Counter[str] = field(default_factory=Counter)

    def within(self, start_seconds: float, stop_seconds: float) -> EpisodeSegments:
        """What of them lies in a span [start, stop) of the episode."""
        inside = (
            replace(
                segment,
                start_seconds=max(segment.start_seconds, start_seconds),
                stop_seconds=min(segment.stop_seconds, stop_seconds),
            )
            for segment in self.segments
            if segment.start_seconds < stop_seconds
            and (segment.stop_seconds > start_seconds or segment.start_seconds >= start_seconds)
        )
        return EpisodeSegments(tuple(inside))

    def with_cameras(self, names: Mapping[str, str]) -> EpisodeSegments:
        """The same with other names of cameras; what a source called a camera in a separate column goes."""
        renamed = (
            replace(
                segment,
                camera=names.get(segment.camera, segment.camera),
                value={name: value for name, value in segment.value.items() if name != "camera"},
            )
            if segment.camera
            else segment
            for segment in self.segments
        )
        return EpisodeSegments(tuple(renamed), self.withheld)


class SpanText(NamedTuple):
    """The text of the segment that a span was made from, or "" and why it may not leave."""

    text: str = ""
    withheld: str = ""


class PlannedTexts(NamedTuple):
    """How many segments of an episode are written, whether any is not of the source, and whether any is a subtask."""

    segments: int = 0
    has_added: bool = False
    has_subtasks: bool = False


@dataclass(slots=True)
class SegmentCounts:
    """What became of the shown segments of the episodes that are written.

    Attributes:
        written: Those that are written, by their origin.
        withheld: Those that are held back, by reason.
        lacks: Those of which the format cannot hold all, by what it lacks.
        task_withheld: Spans of which the text of their segment is not the task, by reason.
    """

    written: Counter[str] = field(default_factory=Counter)
    withheld: Counter[str] = field(default_factory=Counter)
    lacks: Counter[str] = field(default_factory=Counter)
    task_withheld: Counter[str] = field(default_factory=Counter)

    def add(self, of_episode: EpisodeSegments) -> None:
        """Count the segments of an episode."""
        self.written.update(segment.state for segment in of_episode.segments)
        self.withheld.update(of_episode.withheld)

    def merge(self, other: SegmentCounts) -> None:
        """Count what another dataset of the export has."""
        self.written.update(other.written)
        self.withheld.update(other.withheld)
        self.lacks.update(other.lacks)
        self.task_withheld.update(other.task_withheld)

    def to_json(self) -> dict[str, Json]:
        """The counts that are not empty, as `ExportReport.segments`; {} where no episode has a segment."""
        named = {"written": self.written, "held_back": self.withheld, "not_held": self.lacks}
        named["task_held_back"] = self.task_withheld
        return {name: dict(sorted(counts.items())) for name, counts in named.items() if counts}


class SegmentReader:
    """Reads the shown segments of episodes with their texts and grades.

    Args:
        stores: Stores of the workspace.
        producers: Producers of the segments, by id, see `ares.export.base.find_segment_producers`.
        choices: Names of held-back text that goes out as well.
    """

    def __init__(self, stores: Stores, producers: Mapping[str, Producer], choices: Collection[str]) -> None:
        self._stores, self._producers, self._choices = stores, producers, frozenset(choices)

    def plan(self, ids: Sequence[str]) -> dict[str, PlannedTexts]:
        """What will be written of each of some episodes; those of which nothing is are left out."""
        planned: dict[str, PlannedTexts] = {}
        for row in self._read_rows(ids, _PLAN_COLUMNS):
            if self._reason_to_hold(row):
                continue
            producer = self._producers[row["maker_id"]]
            before = planned.get(row["episode_id"], PlannedTexts())
            planned[row["episode_id"]] = PlannedTexts(
                before.segments + 1,
                before.has_added or row["state"] != SOURCE,
                before.has_subtasks
                or producer.annotator.removeprefix(SOURCE_PREFIX) == SUBTASK
                or row["state"] != SOURCE,
            )
        return planned

    def read(self, ids: Sequence[str], annotations: Iterable[Annotation]) -> dict[str, EpisodeSegments]:
        """The segments of each of some episodes; episodes without any are left out.

        Args:
            ids: The episodes.
            annotations: All annotations of these episodes.
        """
        rows = self._read_rows(ids, (*_ROW_COLUMNS, "author", "maker_id", *_GRADE_COLUMNS))
        values = _SegmentValues(annotations, {row["maker_id"] for row in rows})
        segments: dict[str, list[ExportSegment]] = {}
        withheld: dict[str, Counter[str]] = {}
        for row in rows:
            if reason := self._reason_to_hold(row):
                withheld.setdefault(row["episode_id"], Counter())[reason] += 1
            else:
                segment = self._make_segment(row, values.find(row))
                segments.setdefault(segment.episode_id, []).append(segment)
        return {
            id: EpisodeSegments(tuple(segments.get(id, ())), withheld.get(id, Counter()))
            for id in ids
            if id in segments or id in withheld
        }

    def read_span_texts(self, spans: Sequence[Span], annotations: Iterable[Annotation]) -> list[SpanText]:
        """The text of each of some spans, as far as it may leave.

        A text that is no longer shown, because segments were made again or it was corrected, has no grade: it leaves as
        the word of a person or a source, or where ungraded text does.

        Args:
            spans: The spans.
            annotations: All annotations of their episodes.
        """
        ids = list(dict.fromkeys(span.episode_id for span in spans))
        shown = {row["annotation_id"]: row for row in self._read_rows(ids, _PLAN_COLUMNS)}
        is_shown = [
            span.annotation_id in shown and shown[span.annotation_id]["text"] == span.text for span in spans
        ]
        sought = {
            span.annotation_id for span, is_current in zip(spans, is_shown, strict=True) if not is_current
        }
        stated = {
            annotation.annotation_id: self._state_in_log(annotation)
            for annotation in (annotations if sought - {""} else ())
            if annotation.maker_id in self._producers and annotation.annotation_id in sought
        }
        texts = []
        for span, is_current in zip(spans, is_shown, strict=True):
            state = stated.get(span.annotation_id) or "ungraded"
            row = shown[span.annotation_id] if is_current else {"state": state, "text": span.text}
            reason = self._reason_to_hold(row) if span.text else _NO_TEXT
            texts.append(SpanText(withheld=reason) if reason else SpanText(span.text))
        return texts

    def _state_in_log(self, annotation: Annotation) -> str:
        """The origin of a text, as `_stated_origin` says, of an annotation that need not be shown."""
        row = {"text": annotation.value.get("text"), "author": annotation.value.get("author")}
        return _stated_origin(self._producers[annotation.maker_id], row)

    def _read_rows(self, ids: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
        """The shown segments of some episodes with their state, in the order of the episodes and of time."""
        table = _read_segment_rows(self._stores, ids)
        rows = table.select([name for name in names if name in table.column_names]).to_pylist()
        rows = [row for row in rows if row["maker_id"] in self._producers]
        for row in rows:
            row["state"] = _stated_origin(self._producers[row["maker_id"]], row)
        if not all(row["state"] for row in rows):
            from ares.export.text_states import find_text_states

            graded = find_text_states(table)
            for row in rows:
                row["state"] = row["state"] or graded[row["annotation_id"]]
        positions = {id: position for position, id in enumerate(ids)}
        rows.sort(key=lambda row: (positions[row["episode_id"]], row["start_seconds"], row["annotation_id"]))
        return rows

    def _reason_to_hold(self, row: Mapping[str, Any]) -> str:
        """Why a segment is not written, or "". A source may have rows without a text, such as calls of tools."""
        if row["state"] == SOURCE:
            return ""
        if not row["text"]:
            return _NO_TEXT
        state: str = row["state"]
        return state if state in WITHHELD and state not in self._choices else ""

    def _make_segment(self, row: Mapping[str, Any], value: Mapping[str, Json]) -> ExportSegment:
        producer = self._producers[row["maker_id"]]
        style, author = value.get("style"), value.get("author")
        default_style = producer.annotator.removeprefix(SOURCE_PREFIX) if row["state"] == SOURCE else SUBTASK
        default_author = {PERSON: PERSON, SOURCE: ""}.get(row["state"], producer.model or producer.annotator)
        return ExportSegment(
            **{name: row[name] for name in _ROW_COLUMNS},
            annotator=producer.annotator,
            maker_id=producer.maker_id,
            style=style if isinstance(style, str) else default_style,
            author=author if isinstance(author, str) else default_author,
            state=row["state"],
            arm=_arm_of(value),
            grade={name: row[name] for name in _GRADE_COLUMNS if row.get(name) is not None},
            value=value,
        )


class _SegmentValues:
    """The values of annotations that are segments. An id is a hash, which takes longer than all else here.

    Args:
        annotations: Annotations, of some episodes.
        maker_ids: Producers of segments.
    """

    def __init__(self, annotations: Iterable[Annotation], maker_ids: Collection[str]) -> None:
        self._by_span: dict[tuple[str, str, float, float, str], list[Annotation]] = {}
        for annotation in annotations:
            if annotation.maker_id in maker_ids:
                key = (
                    annotation.episode_id,
                    annotation.maker_id,
                    annotation.start_seconds,
                    annotation.stop_seconds,
                    annotation.camera,
                )
                self._by_span.setdefault(key, []).append(annotation)

    def find(self, row: Mapping[str, Any]) -> Mapping[str, Json]:
        """The value of the annotation of a row; of several with its producer, span and camera by the id."""
        key = (row["episode_id"], row["maker_id"], row["start_seconds"], row["stop_seconds"], row["camera"])
        candidates = self._by_span.get(key, [])
        if len(candidates) == 1:
            return candidates[0].value
        return next(
            (candidate.value for candidate in candidates if candidate.annotation_id == row["annotation_id"]),
            {},
        )


def _arm_of(value: Mapping[str, Json]) -> str:
    about = value.get("segment")
    arms = (value.get("arm"), about.get("arm") if isinstance(about, Mapping) else None)
    return next((arm for arm in arms if arm and isinstance(arm, str)), "")


def _stated_origin(producer: Producer, row: Mapping[str, Any]) -> str:
    """The origin of a text, "" for one that needs a grade: by a model, or of a file that names a model as author."""
    if producer.annotator.startswith(SOURCE_PREFIX):
        return SOURCE
    is_stated = producer.kind == "code" and bool(row["text"])
    if producer.kind == PERSON or (is_stated and row["author"] == PERSON):
        return PERSON
    return SOURCE if is_stated and not row["author"] else ""


def _read_segment_rows(stores: Stores, ids: Sequence[str]) -> pa.Table:
    """All columns of the shown segments of some episodes, in no order."""
    from ares.store import ids_filter

    return stores.tables.segments.scan([], ids_filter(ids))


def describe_segment(segment: ExportSegment) -> dict[str, Json]:
    """What a text says and whose it is, as JSON; spans are on the clock of the stored episode."""
    slots = segment.value.get("slots")
    return {
        "segment_id": segment.segment_id,
        "annotation_id": segment.annotation_id,
        "start_seconds": segment.start_seconds,
        "stop_seconds": segment.stop_seconds,
        "style": segment.style,
        "text": segment.text,
        "author": segment.author,
        "role": segment.text_field("role"),
        "camera": segment.camera,
        "arm": segment.arm,
        "slots": dict(slots) if isinstance(slots, Mapping) else {},
        "state": segment.state,
        "grade": dict(segment.grade),
        "annotator": segment.annotator,
        "maker_id": segment.maker_id,
    }


def segments_schema(stores: Stores) -> pa.Schema:
    """Columns of the shown segments: those of every segment, then by name those that annotators declare."""
    import pyarrow as pa

    from ares.store import ProducerCatalog, arrow_type, segment_schema

    catalog = ProducerCatalog(stores.annotations.producers())
    base_columns = segment_schema()
    types = catalog.segment_columns(catalog.groups) | stores.tables.segments.columns()
    fields = [(name, arrow_type(types[name])) for name in sorted(types.keys() - set(base_columns.names))]
    return pa.schema([*base_columns, *fields])


def read_segments(stores: Stores, schema: pa.Schema, ids: Sequence[str]) -> pa.Table:
    """The shown segments of some episodes, in the order of the ids, then of time; see `segments_schema`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from ares.store import ids_filter

    stored = stores.tables.segments.scan([], ids_filter(ids))
    # A declared column without any value is not in the table.
    rows = pa.concat_tables([schema.empty_table(), stored], promote_options="default")
    keys = pa.table(
        {
            "position": pc.index_in(rows["episode_id"], pa.array(ids, pa.string())),
            "start_seconds": rows["start_seconds"],
            "annotation_id": rows["annotation_id"],
        }
    )
    return rows.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names]))


class WrittenSteps(Protocol):
    """The steps of an episode that an export writes, as far as segments need them: a `RetimedEpisode`."""

    @property
    def source(self) -> Episode:
        """The episode as it is stored."""

    @property
    def steps(self) -> Sized:
        """The stored step of each written one."""

    def steps_of_span(self, start_seconds: float, stop_seconds: float) -> range:
        """The written steps in a span [start, stop) of the stored episode."""


class _StyleSpans:
    """The spans of one style that a column has, which do not overlap, by start."""

    def __init__(self) -> None:
        self.starts: list[float] = []
        self._stops: list[float] = []

    def cover(self, segment: ExportSegment) -> None:
        """Add the span of a segment that the column has already, of such segments by time."""
        if self.starts and segment.start_seconds < self._stops[-1]:
            self._stops[-1] = max(self._stops[-1], segment.stop_seconds)
        else:
            self._insert(len(self.starts), segment)

    def take(self, segment: ExportSegment) -> bool:
        """Add the span of a segment, unless it overlaps another or begins where another does."""
        position = bisect_right(self.starts, segment.start_seconds)
        starts_late = position == 0 or (
            self.starts[position - 1] < segment.start_seconds - _ROUNDING
            and self._stops[position - 1] <= segment.start_seconds + _ROUNDING
        )
        following = self.starts[position] if position < len(self.starts) else float("inf")
        ends_soon = (
            segment.stop_seconds <= following + _ROUNDING and segment.start_seconds < following - _ROUNDING
        )
        if starts_late and ends_soon:
            self._insert(position, segment)
        return starts_late and ends_soon

    def next_start(self, seconds: float) -> float | None:
        """The first start behind a second, None where there is none."""
        position = bisect_right(self.starts, seconds + _ROUNDING)
        return self.starts[position] if position < len(self.starts) else None

    def _insert(self, position: int, segment: ExportSegment) -> None:
        self.starts.insert(position, segment.start_seconds)
        self._stops.insert(position, segment.stop_seconds)


class TrackArrangement:
    """The segments of an episode, of each style those that do not overlap: the tracks.

    People's segments are placed first, then those of sources, then those of models; of these the main arm's before the
    others', and then by time. What overlaps one that is placed is not.

    Args:
        segments: The segments to place.
        retimed: Their episode as it is written.
        covered: Segments that have a place already; of these overlaps do not matter.

    Attributes:
        arranged: The segments that have found a place, by time.
        lacks: By annotation_id, what the tracks cannot hold of a segment: all of it, or its end.
    """

    def __init__(
        self,
        segments: Sequence[ExportSegment],
        retimed: WrittenSteps,
        covered: Sequence[ExportSegment] = (),
    ) -> None:
        self._retimed, self._covered = retimed, covered
        self._spans: dict[str, _StyleSpans] = defaultdict(_StyleSpans)
        self.lacks: dict[str, str] = {}
        for segment in sorted(covered, key=attrgetter("start_seconds")):
            self._spans[segment.style].cover(segment)
        self.arranged = sorted(self._arrange(segments), key=attrgetter("start_seconds"))
        self._note_ends()

    def texts_of_steps(self, style: str) -> list[str]:
        """(N,) the text of a style at each written step, "" where there is none."""
        texts = [""] * len(self._retimed.steps)
        for segment in (*self.arranged, *self._covered):
            if segment.style == style:
                for step in self._retimed.steps_of_span(segment.start_seconds, segment.stop_seconds):
                    texts[step] = segment.text
        return texts

    def _arrange(self, segments: Sequence[ExportSegment]) -> list[ExportSegment]:
        arms = _main_arms(segments)

        def is_second_arm(segment: ExportSegment) -> bool:
            return bool(segment.arm) and segment.arm != arms[segment.style]

        def order(segment: ExportSegment) -> tuple[int, bool, float, float]:
            rank = _RANKS.get(segment.state, len(_RANKS))
            return rank, is_second_arm(segment), segment.start_seconds, segment.stop_seconds

        arranged: list[ExportSegment] = []
        for segment in sorted(segments, key=order):
            if self._spans[segment.style].take(segment):
                arranged.append(segment)
            else:
                self.lacks[segment.annotation_id] = SECOND_ARM if is_second_arm(segment) else OVERLAPS
        return arranged

    def _note_ends(self) -> None:
        """Note the segments that end before the next of their style begins, or before the episode does."""
        retimed = self._retimed
        tolerance = max(_ROUNDING, time_tolerance(retimed.source.rate_hz))
        for segment in self.arranged:
            following = self._spans[segment.style].next_start(segment.start_seconds)
            if following is None:
                steps = retimed.steps_of_span(segment.start_seconds, segment.stop_seconds)
                ends_early = steps.stop < len(retimed.steps)
            else:
                ends_early = segment.stop_seconds < following - tolerance
            if ends_early:
                self.lacks[segment.annotation_id] = ENDS_EARLY


def tasks_of_steps(segments: Sequence[ExportSegment], task: str, retimed: WrittenSteps) -> list[str]:
    """(N,) the task of each written step, by the tasks of the source; [] where its task is another or the only one."""
    tasks = [segment for segment in segments if segment.style == TASK and segment.state == SOURCE]
    if task not in {segment.text for segment in tasks}:
        return []
    return [text or task for text in TrackArrangement(tasks, retimed).texts_of_steps(TASK)]


def subtasks_of_steps(segments: Sequence[ExportSegment], retimed: WrittenSteps) -> list[str]:
    """(N,) the text of the subtask at each written step of an episode, "" where there is none."""
    subtasks = [segment for segment in segments if segment.style == SUBTASK]
    return TrackArrangement(subtasks, retimed).texts_of_steps(SUBTASK)


def _main_arms(segments: Iterable[ExportSegment]) -> dict[str, str]:
    """By style, the arm that most segments are of, of equal ones the first by name."""
    counts: dict[str, dict[str, int]] = {}
    for segment in segments:
        if segment.arm:
            arms = counts.setdefault(segment.style, {})
            arms[segment.arm] = arms.get(segment.arm, 0) + 1
    return {style: min(arms, key=lambda arm: (-arms[arm], arm)) for style, arms in counts.items()}
