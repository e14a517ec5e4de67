"""Captions, rulings, segments and findings of an episode as plain data for the pages."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ares.annotation import SOURCE_PREFIX, WITHDRAWN, Annotation, Producer
from ares.checks import CODES, QualityFinding
from ares.contract import MeaningContract
from ares.curation import producer_catalog
from ares.episode import Episode, Json
from ares.reports import DatasetHealth
from ares.rubric import OLDER_GRADE
from ares.store import ProducerCatalog, Stores, ids_filter, keep_newest_annotations
from ares.workspace import describe_annotations, shown_annotation_ids
from ares_app.dashboard.column_words import (
    code_words,
    producer_words,
)

_SOURCES = {
    "hard": "checked by code",
    "probe": "chosen from the frames before the caption was read",
    "observation": "seen before anything was known of the caption",
    "comparison": "seen in other words, as a model of texts compares them",
    "choice": "chosen from the frames, without being told who says what",
    "claim": "asked about the caption, with the frames (an older judge)",
    "panel": "by the votes of several judges",
    "stored": "decided by another annotation of the episode",
    "person": "said by a person",
}


def _verdict_and_reason(ruling: Mapping[str, Any]) -> tuple[str, str]:
    """The verdict, and its reason with who ruled and why the claim was asked about at all."""
    source = str(ruling.get("source") or "")
    reasons = [*(str(ruling.get(key) or "") for key in ("contested", "reason")), _SOURCES.get(source, source)]
    return str(ruling.get("verdict") or ""), "; ".join(reason for reason in reasons if reason)


# Annotations of one episode that a page lists.
MOST_ANNOTATIONS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeAnnotations:
    """The annotations of an episode.

    Attributes:
        annotations: The annotations with their producers, in the log's order; of very many first those of no segment.
        count: How many annotations there are; the list has the first 500.
        subjects: Ids of the episode, and of its segments and annotations.
        lanes: Its segments on the clock of the player, see `make_segment_lanes`.
        judged: The text that people rule on beside the picture, see `components/player/judge.js`; None without one.
        outcome: What a person has said of the outcome: verdict, kind of failure, severity and who; empty for nothing.
        producers: All producers by id.
    """

    lanes: dict[str, Json]
    annotations: list[dict[str, Json]]
    count: int
    subjects: list[str]
    judged: dict[str, Json] | None
    outcome: dict[str, str]
    producers: Mapping[str, Producer]


@dataclass(frozen=True, slots=True, kw_only=True)
class _EpisodeLog:
    """The annotations of one episode, in the order of the log, which the tables show, and grades of segments by id."""

    episode: Episode
    annotations: Sequence[Annotation]
    catalog: ProducerCatalog
    shown: set[str]
    grades: Mapping[str, str]

    def producer(self, annotation: Annotation) -> Producer | None:
        """The producer of an annotation, or None for an unknown one."""
        return self.catalog.producers.get(annotation.maker_id)

    def is_shown(self, annotation: Annotation) -> bool:
        """Whether an annotation fills columns or segments."""
        return annotation.annotation_id in self.shown

    def about(self, subject: str) -> list[Annotation]:
        """The annotations of an annotation: the shown ones first, then the newest first."""
        return self.sorted(
            annotation
            for annotation in self.annotations
            if annotation.subject_kind == "annotation" and annotation.subject == subject
            if annotation.value != WITHDRAWN
        )

    def sorted(self, annotations: Any) -> list[Annotation]:
        """Annotations in the order of the log as a page lists them: the shown ones first, then the newest first."""
        newest_first = reversed(list(annotations))
        return sorted(newest_first, key=lambda annotation: not self.is_shown(annotation))


def read_annotations(
    stores: Stores, episode: Episode, segments: Sequence[Mapping[str, Any]]
) -> EpisodeAnnotations:
    """Read every annotation of an episode.

    Args:
        stores: Stores of the workspace.
        episode: The episode.
        segments: Its segments, see `read_segments`; in their grades people have corrected the judge.
    """
    annotations = stores.annotations.find_annotations([episode.episode_id])
    catalog = producer_catalog(stores)
    log = _EpisodeLog(
        episode=episode,
        annotations=annotations,
        catalog=catalog,
        shown=shown_annotation_ids(annotations, catalog),
        grades={segment["id"]: segment["grade"] for segment in segments},
    )
    described = log.sorted(_caption_annotations(log))
    # The one that people rule on: that of the whole episode that fills columns.
    described.sort(
        key=lambda text: (not _covers_episode(text, episode), not log.is_shown(text), text.start_seconds)
    )
    ids = [part for annotation in annotations for part in (annotation.subject, annotation.annotation_id)]
    labels = [annotation for annotation in annotations if annotation.name == "success_label"]
    documents = cast("list[dict[str, Json]]", describe_annotations(annotations, catalog))
    if len(documents) > MOST_ANNOTATIONS:
        # What is a segment is in the lanes already.
        named = {segment["id"] for segment in segments}
        documents.sort(key=lambda document: document["annotation_id"] in named)
    return EpisodeAnnotations(
        annotations=documents[:MOST_ANNOTATIONS],
        count=len(documents),
        subjects=list(dict.fromkeys([episode.episode_id, *ids])),
        lanes=make_segment_lanes(segments, episode.duration_seconds, catalog.producers),
        judged=_judged_text(log, described[0]) if described else None,
        outcome=_outcome_by_people(labels) if labels else {},
        producers=catalog.producers,
    )


def _judged_text(log: _EpisodeLog, text: Annotation) -> dict[str, Json]:
    """A text with its slots, and each criterion of its newest grade with what people have said since."""
    grades = [grade for grade in log.about(text.annotation_id) if _grade_rulings(grade) and not grade.part]
    newest = grades[0] if grades else None
    slots = text.value.get("slots")
    return {
        "id": text.annotation_id,
        "text": str(text.value["text"]),
        "slots": [[name, str(value)] for name, value in slots.items()] if isinstance(slots, dict) else [],
        "grade": str(newest.value.get("grade") or "error") if newest else "ungraded",
        "why": _explain_grade(newest) if newest else "",
        "made": _provenance_text(log, text),
        "maker": text.maker_id,
        "criteria": _judged_criteria(log, text, _grade_rulings(newest)) if newest else [],
        "disagreements": newest.value.get("disagreements", []) if newest else [],
    }


def _judged_criteria(log: _EpisodeLog, text: Annotation, rulings: Sequence[Mapping[str, Any]]) -> list[Json]:
    by_people: dict[str, Mapping[str, Any]] = {}
    for annotation in log.annotations:
        if annotation.subject == text.annotation_id and annotation.part:
            by_people[annotation.part] = next(iter(_grade_rulings(annotation)), {})
    criteria: list[Json] = []
    for ruling in rulings:
        by_person = by_people.get(str(ruling.get("criterion") or ""), {})
        shown = by_person or ruling
        observed, claimed = str(ruling.get("observed") or ""), str(ruling.get("claimed") or "")
        criteria.append(
            {
                "id": str(ruling.get("criterion") or ""),
                "verdict": _verdict_and_reason(shown)[0],
                "ruled": _verdict_and_reason(by_person)[0].lower(),
                "by": str(by_person.get("judge") or ""),
                "reason": _verdict_and_reason(shown)[1],
                "words": str(by_person.get("reason") or ""),
                "claimed": "" if claimed.lower() == observed.lower() else claimed,
                "observed": observed,
                "seconds": [float(second) for second in ruling.get("evidence") or ()],
            }
        )
    return criteria


def _outcome_by_people(labels: Sequence[Annotation]) -> dict[str, str]:
    names = {"verdict": "verdict", "kind": "failure_kind", "severity": "severity", "person": "person"}
    # The newest counts; one that was taken back says nothing.
    answer = labels[-1].value.get("answer")
    newest: Mapping[str, Any] = answer if isinstance(answer, dict) else {}
    return {name: str(newest.get(key) or "") for name, key in names.items()}


def _caption_annotations(log: _EpisodeLog) -> list[Annotation]:
    """The texts that cover the episode, or that other annotations are or may be about, but what was taken back."""
    subjects = {annotation.subject for annotation in log.annotations}
    producers = [
        producer for producer in log.catalog.producers.values() if producer.subject_kind == "annotation"
    ]
    described = {name for producer in producers for name in producer.after}
    return [
        annotation
        for annotation in keep_newest_annotations(log.annotations)
        if isinstance(annotation.value.get("text"), str) and annotation.value["text"]
        if annotation.annotation_id in subjects
        or annotation.name in described
        or _covers_episode(annotation, log.episode)
    ]


def _covers_episode(annotation: Annotation, episode: Episode) -> bool:
    return annotation.start_seconds <= 0.0 and annotation.stop_seconds >= episode.duration_seconds


def _grade_rulings(grade: Annotation) -> list[Mapping[str, Any]]:
    rulings = grade.value.get("rulings")
    return [ruling for ruling in rulings if isinstance(ruling, dict)] if isinstance(rulings, list) else []


def _explain_grade(grade: Annotation) -> str:
    """The grade in one sentence, with its criteria in words."""
    codes = {str(ruling.get("criterion") or "") for ruling in _grade_rulings(grade)}
    words = re.split(r"(\w+)", str(grade.value.get("why") or ""))
    if why := "".join(code_words(word) if word in codes else word for word in words):
        return why
    is_old = "rubric_version" in grade.value
    return OLDER_GRADE.format_map({"rubric": "", **grade.value}) if is_old else ""


def _provenance_text(log: _EpisodeLog, annotation: Annotation) -> str:
    name = producer_words(log.catalog.producers, annotation.maker_id)
    candidate = f", candidate {annotation.ordinal + 1}" if annotation.ordinal else ""
    camera = f", from the camera {annotation.camera}" if annotation.camera else ""
    return f"by {name}{camera}{candidate}"


# Segments of one episode that a page reads.
MOST_SEGMENTS = 10_000


def read_segments(stores: Stores, episode: Episode) -> list[dict[str, Json]]:
    """Return the first segments of an episode that the tables show, in order of time, whoever made them."""
    rows = stores.tables.segments.read(ids_filter([episode.episode_id])).slice(0, MOST_SEGMENTS).to_pylist()
    return list(map(_segment_data, rows))


def _segment_data(row: Mapping[str, Any]) -> dict[str, Json]:
    return {
        "id": row["annotation_id"],
        "start": row["start_seconds"],
        "stop": row["stop_seconds"],
        "annotator": row["annotator"],
        "style": row.get("style") or "",
        "author": row.get("author") or "",
        "maker": row["maker_id"],
        "grade": row.get("grade") or "",
        "text": row["text"],
    }


# Lanes that are drawn, rows of spans that overlap in a lane, and characters of all their texts: a page is no download.
_MOST_LANES, _MOST_ROWS, _MOST_CHARACTERS = 60, 4, 400_000
_LEAST_TEXT, _MOST_TEXT = 40, 2000
# Segments of a lane whose boundaries and texts can be changed: a change stores all of them.
_MOST_EDITED = 300


def make_segment_lanes(
    segments: Sequence[Mapping[str, Any]], duration_seconds: float, producers: Mapping[str, Producer]
) -> dict[str, Json]:
    """A lane for each annotator, style and producer that names parts of an episode: subtasks, captions, others.

    Args:
        segments: Segments of `read_segments`, in order of time.
        duration_seconds: Length of the episode.
        producers: Producers by id.

    Returns:
        `lanes`, and `more`: the labels of those beyond 60. A lane has a label, who made it, the number of its rows, how
        many spans overlap beyond these, `texts` of [text, author, grade], and `spans` of [start, stop, row, number of
        the text, id]; a lane of very many has no ids. Of many segments the texts are cut, so that all have 400,000
        characters at most.
    """
    lanes: dict[tuple[str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for segment in segments:
        lanes[segment["annotator"], segment["style"], segment["maker"]].append(segment)
    # A caption of all the episode stands below; what its producer gives a style is drawn, however long.
    partial = {
        key: members
        for key, members in lanes.items()
        if key[1] or any(member["stop"] - member["start"] < duration_seconds for member in members)
    }
    order = sorted(partial, key=_lane_order)
    count = sum(len(partial[key]) for key in order[:_MOST_LANES])
    longest = min(_MOST_TEXT, max(_LEAST_TEXT, _MOST_CHARACTERS // max(1, count)))
    drawn = [_lane_data(key, partial[key], producers.get(key[2]), longest) for key in order[:_MOST_LANES]]
    return {"lanes": list[Json](drawn), "more": [_lane_label(key) for key in order[_MOST_LANES:]]}


def _lane_order(key: tuple[str, str, str]) -> tuple[object, ...]:
    """Subtasks beside each other, of the source first; then what annotators say, then what else the source says."""
    annotator, style, _ = key
    is_subtask = style == "subtask" or annotator == "source_subtask"
    return not is_subtask, annotator.startswith(SOURCE_PREFIX) != is_subtask, key


def _lane_label(key: tuple[str, str, str]) -> str:
    """What names the parts, in words: "subtask, of the source"; "segment: subtask" of an annotator."""
    annotator, style, _ = key
    name = annotator.removeprefix(SOURCE_PREFIX)
    label = code_words(name) if not style or name == style else f"{code_words(name)}: {style}"
    return label if name == annotator else f"{label}, of the source"


def _lane_data(
    key: tuple[str, str, str], segments: Sequence[Mapping[str, Any]], producer: Producer | None, longest: int
) -> dict[str, Json]:
    numbers: dict[tuple[str, str, str], int] = {}
    spans: list[Json] = []
    rows, crowded = stack_spans([(part["start"], part["stop"]) for part in segments], _MOST_ROWS)
    for segment, row in zip(segments, rows, strict=True):
        text = segment["text"] if len(segment["text"]) <= longest else f"{segment['text'][: longest - 1]}…"
        number = numbers.setdefault((text, segment["author"], segment["grade"]), len(numbers))
        # A text that is cut here is not edited here.
        ids = [segment["id"]] if len(segments) <= _MOST_EDITED and text == segment["text"] else []
        spans.append([round(segment["start"], 6), round(segment["stop"], 6), row, number, *ids])
    by = producer_words({key[2]: producer} if producer else {}, key[2])
    authors = sorted({segment["author"] for segment in segments} - {""})
    written = f", written by {', '.join(authors[:3])}{', ...' if len(authors) > 3 else ''}" if authors else ""
    return {
        "name": key[0],
        "label": _lane_label(key),
        "about": f"made by {by}{written}",
        "rows": max(rows) + 1,
        "crowded": crowded,
        "texts": [list[Json](text) for text in numbers],
        "spans": spans,
    }


def stack_spans(spans: Sequence[tuple[float, float]], most: int) -> tuple[list[int], int]:
    """Rows in which no two spans overlap, as far as so many rows are enough.

    Args:
        spans: (start, stop) in order of their starts.
        most: Most rows.

    Returns:
        The row of each span, from 0, and how many spans lie over others in the last row.
    """
    ends: list[float] = []
    rows, crowded = [], 0
    for start, stop in spans:
        # An instant takes its place, too.
        stop = max(stop, start + 1e-6)
        row = next((number for number, end in enumerate(ends) if end <= start), len(ends))
        if row == most:
            row, crowded = most - 1, crowded + 1
        ends[row : row + 1] = [max([stop, *ends[row : row + 1]])]
        rows.append(row)
    return rows, crowded


_ORIGINS = {
    "values": "inferred from values",
    "names": "inferred from names",
    "spec": "spec",
    "none": "nobody",
}
# Codes whose size is how long the fault lasts; that of a lag or of a gap is none.
_LASTING = frozenset(("A003", "A010", "A011", "A017", "A033", "A034", "A035"))


def make_finding_lanes(findings: Sequence[QualityFinding], duration_seconds: float) -> list[Json]:
    """A lane for each code, as of `make_segment_lanes`, with the spans of its findings; faults first."""
    by_code: dict[str, list[QualityFinding]] = defaultdict(list)
    for finding in sorted(findings, key=lambda finding: finding.seconds):
        by_code[finding.code].append(finding)
    order = sorted(by_code, key=lambda code: (CODES[code].severity != "fault", code))
    return [_finding_lane(code, by_code[code], duration_seconds) for code in order]


def _finding_lane(code: str, findings: Sequence[QualityFinding], duration_seconds: float) -> Json:
    check = CODES[code]
    starts = [min(max(finding.seconds, 0.0), duration_seconds) for finding in findings]
    # From its second for its size, where that is how long it lasts; an instant otherwise.
    lasts = [finding.size if code in _LASTING else 0.0 for finding in findings]
    stops = [min(start + last, duration_seconds) for start, last in zip(starts, lasts, strict=True)]
    rows, crowded = stack_spans(list(zip(starts, stops, strict=True)), _MOST_ROWS)
    texts = [
        f"{finding.dimension or finding.signal or 'all signals'}: size {finding.size:.4g} {check.size_unit}"
        for finding in findings
    ]
    return {
        "name": code,
        "label": check.name.replace("-", " ").capitalize(),
        "about": check.meaning,
        "severity": check.severity,
        "rows": max(rows) + 1,
        "crowded": crowded,
        "texts": [[text, "", ""] for text in texts],
        "spans": [list[Json](span) for span in zip(starts, stops, rows, range(len(rows)), strict=True)],
    }


def make_finding_rows(health: DatasetHealth) -> list[dict[str, Json]]:
    """A row for each code of a dataset's sample."""
    return [
        {
            "finding": f"{count.code} {count.name.replace('-', ' ')}",
            "severity": count.severity,
            "episodes": count.num_episodes,
            "dimensions": ", ".join(name for name in count.dimensions if name),
            "meaning": CODES[count.code].meaning,
            "remedy": count.remedy,
        }
        for count in health.counts
    ]


def make_contract_rows(contract: MeaningContract) -> list[dict[str, Json]]:
    """A row for each property that a signal has: its value, and who said it."""
    return [
        {
            "signal": signal.name,
            "property": code_words(name),
            "value": str(estimate),
            "said by": _ORIGINS[estimate.origin],
            "dimensions": ", ".join(signal.dimensions),
        }
        for signal in contract.signals
        for name, estimate in signal.estimates.items()
    ]
