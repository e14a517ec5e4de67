"""Captions, rulings, segments and findings of an episode as plain data for the pages."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from app.dashboard.column_words import (
    VERDICTS,
    code_words,
    format_column_label,
    format_value_for_people,
    producer_words,
    value_words,
)
from ares.annotation import SOURCE_PREFIX, WITHDRAWN, Annotation, Producer
from ares.checks import CODES, QualityFinding
from ares.contract import MeaningContract
from ares.curation import producer_catalog
from ares.episode import Episode, Json
from ares.reports import DatasetHealth
from ares.rubric import OLDER_GRADE, RESERVED_CRITERIA
from ares.store import ProducerCatalog, Stores, ids_filter, segment_schema
from ares.workspace import describe_annotations, shown_annotation_ids

# Who ruled, observation and seconds.
_Basis = tuple[str, str, tuple[float, ...]]

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


def group_rulings(rulings: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Groups of rulings, in the order of their first members; those of code come last.

    Rulings of one source with the same observation from the same frames form a group, which names both. The others of
    a source form a group in which each has an observation. A reason that several rulings of a group share is said with
    the group, after their verdict.

    Args:
        rulings: As stored, see `ares.rubric.Ruling.to_json`.

    Returns:
        Of each group "source", "observed", "seconds", "reasons" and "rulings"; of each ruling criterion, category,
        verdict, what the group does not say, and the votes of a panel whose judges differ.
    """
    sizes = Counter(_ruling_basis(ruling) for ruling in rulings)
    groups: dict[_Basis, list[Mapping[str, Any]]] = {}
    for ruling in rulings:
        basis = _ruling_basis(ruling)
        groups.setdefault(basis if sizes[basis] > 1 else (basis[0], "", ()), []).append(ruling)
    code_last = sorted(groups.items(), key=lambda item: item[0][0] == "hard")
    return [_ruling_group_data(basis, members) for basis, members in code_last]


def _ruling_basis(ruling: Mapping[str, Any]) -> _Basis:
    seconds = tuple(float(second) for second in ruling.get("evidence") or ())
    return str(ruling.get("source") or ""), str(ruling.get("observed") or ""), seconds


def _ruling_group_data(basis: _Basis, rulings: Sequence[Mapping[str, Any]]) -> Json:
    source, observed, seconds = basis
    counts = Counter(_verdict_and_reason(ruling) for ruling in rulings)
    shared = [pair for pair, count in counts.items() if count > 1 and pair[1]]
    return {
        "source": _SOURCES.get(source, source),
        "observed": observed,
        "seconds": list[Json](seconds),
        "reasons": [f"{VERDICTS.get(verdict, verdict)}: {reason}" for verdict, reason in shared],
        "rulings": [_ruling_data(ruling, basis, shared) for ruling in rulings],
    }


def _verdict_and_reason(ruling: Mapping[str, Any]) -> tuple[str, str]:
    """The verdict, and its reason with why the claim was asked about at all."""
    reasons = [str(ruling.get(key) or "") for key in ("contested", "reason")]
    return str(ruling.get("verdict") or ""), "; ".join(reason for reason in reasons if reason)


def _ruling_data(ruling: Mapping[str, Any], basis: _Basis, shared: Sequence[tuple[str, str]]) -> Json:
    _, observed, seconds = _ruling_basis(ruling)
    verdict, reason = _verdict_and_reason(ruling)
    claimed = str(ruling.get("claimed") or "")
    return {
        "criterion": str(ruling.get("criterion") or ""),
        "category": str(ruling.get("category") or ""),
        "verdict": verdict,
        "claimed": "" if claimed.lower() == observed.lower() else claimed,
        "observed": "" if observed == basis[1] else observed,
        "reason": "" if (verdict, reason) in shared else reason,
        "seconds": [] if seconds == basis[2] else list[Json](seconds),
        "votes": _differing_votes(ruling),
    }


def _differing_votes(ruling: Mapping[str, Any]) -> list[Json]:
    """The votes of a panel that is not of one mind, of each judge its verdict and what it rests on."""
    votes = ruling.get("votes") or []
    if len({_verdict_and_reason(vote)[0] for vote in votes}) < 2:
        return []
    return [
        {
            "judge": str(vote.get("judge") or ""),
            "verdict": _verdict_and_reason(vote)[0],
            "observed": _ruling_basis(vote)[1],
            "reason": _verdict_and_reason(vote)[1],
            "seconds": list[Json](_ruling_basis(vote)[2]),
        }
        for vote in votes
    ]


# Captions, and annotations, of one episode that a page lists.
MOST_CAPTIONS, MOST_ANNOTATIONS = 40, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeAnnotations:
    """The annotations of an episode.

    Attributes:
        captions: Texts that describe the episode or that others describe, each with its grades and their rulings;
            those of the whole episode first, then those that fill columns, by time, then the newest.
        annotations: The annotations with their producers, in the log's order; of very many first those of no segment.
        counts: How many captions and annotations there are; the lists have the first 40 and 500.
        subjects: Ids of the episode, and of its segments and annotations.
        lanes: Its segments on the clock of the player, see `make_segment_lanes`.
        judged: The text that people rule on beside the picture, see `components/player/judge.js`; None without one.
        outcome: What a person has said of the outcome: verdict, kind of failure, severity and who; empty for nothing.
        producers: All producers by id.
    """

    captions: list[Json]
    lanes: dict[str, Json]
    annotations: list[dict[str, Json]]
    counts: tuple[int, int]
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
    # Those of the whole episode are the first: the timeline has the evidence of one of them. The others are in order.
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
        captions=[_caption_data(log, annotation) for annotation in described[:MOST_CAPTIONS]],
        annotations=documents[:MOST_ANNOTATIONS],
        counts=(len(described), len(documents)),
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
        "why": _plain_reason(newest) if newest else "",
        "made": _provenance_text(log, text),
        "maker": text.maker_id,
        "criteria": _judged_criteria(log, text, _grade_rulings(newest)) if newest else [],
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
        criteria.append(
            {
                "id": str(ruling.get("criterion") or ""),
                "verdict": _verdict_and_reason(shown)[0],
                "ruled": _verdict_and_reason(by_person)[0].lower(),
                "by": str(by_person.get("judge") or ""),
                "reason": _verdict_and_reason(shown)[1],
                "observed": _ruling_basis(ruling)[1],
                "seconds": list[Json](_ruling_basis(ruling)[2]),
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
    """The texts that cover the episode, and those that other annotations are about, or may be."""
    subjects = {annotation.subject for annotation in log.annotations}
    producers = [
        producer for producer in log.catalog.producers.values() if producer.subject_kind == "annotation"
    ]
    described = {name for producer in producers for name in producer.after}
    return [
        annotation
        for annotation in log.annotations
        if isinstance(annotation.value.get("text"), str) and annotation.value["text"]
        if annotation.annotation_id in subjects
        or annotation.name in described
        or _covers_episode(annotation, log.episode)
    ]


def _covers_episode(annotation: Annotation, episode: Episode) -> bool:
    return annotation.start_seconds <= 0.0 and annotation.stop_seconds >= episode.duration_seconds


def _caption_data(log: _EpisodeLog, caption: Annotation) -> dict[str, Json]:
    grades = [_grade_data(log, annotation) for annotation in log.about(caption.annotation_id)]
    newest = next((grade["grade"] for grade in grades if grade["grade"]), "ungraded")
    span = f"{caption.start_seconds:.2f} to {caption.stop_seconds:.2f} s"
    return {
        "text": str(caption.value["text"]),
        "grade": log.grades.get(caption.annotation_id) or newest,
        "made": f"{span}, {_provenance_text(log, caption)}",
        "maker": caption.maker_id,
        "shown": log.is_shown(caption),
        "grades": list[Json](grades),
    }


def _grade_data(log: _EpisodeLog, grade: Annotation) -> dict[str, Json]:
    """What one annotation says of a text: a grade with its rulings, a ruling of a person, or values of columns."""
    rulings = _grade_rulings(grade)
    score = grade.value.get("score")
    score_text = f"score {score:.2f}, " if isinstance(score, int | float) else ""
    is_whole = bool(rulings) and not grade.part
    name, why = str(grade.value.get("grade") or ("error" if is_whole else "")), _plain_reason(grade)
    if is_whole and not why and "rubric_version" in grade.value:
        why = OLDER_GRADE.format_map({"rubric": "", **grade.value, "grade": name})
    return {
        "grade": name,
        "made": score_text + _provenance_text(log, grade),
        "maker": grade.maker_id,
        "note": _display_note(log, grade),
        "why": why,
        "groups": group_rulings(rulings),
        "values": [] if rulings else list[Json](_column_values(log, grade)),
    }


def _grade_rulings(grade: Annotation) -> list[Mapping[str, Any]]:
    rulings = grade.value.get("rulings")
    return [ruling for ruling in rulings if isinstance(ruling, dict)] if isinstance(rulings, list) else []


def _plain_reason(grade: Annotation) -> str:
    """The grade in one sentence, with its criteria in words; "" for an older grade."""
    codes = {str(ruling.get("criterion") or "") for ruling in _grade_rulings(grade)}
    words = re.split(r"(\w+)", str(grade.value.get("why") or ""))
    return "".join(code_words(word) if word in codes else word for word in words)


def _display_note(log: _EpisodeLog, annotation: Annotation) -> str:
    """What a reader must know of a value: that it fills no column."""
    return "" if log.is_shown(annotation) else "not used in filters"


def _column_values(log: _EpisodeLog, annotation: Annotation) -> list[list[Json]]:
    producer = log.producer(annotation)
    names = (
        [column.name for column in producer.columns if column.name in annotation.value] if producer else []
    )
    producers = log.catalog.producers
    return [
        [
            format_column_label(name),
            value_words(name, format_value_for_people(annotation.value[name]), producers),
        ]
        for name in names
    ]


def _provenance_text(log: _EpisodeLog, annotation: Annotation) -> str:
    name = producer_words(log.catalog.producers, annotation.maker_id)
    candidate = f", candidate {annotation.ordinal + 1}" if annotation.ordinal else ""
    camera = f", from the camera {annotation.camera}" if annotation.camera else ""
    return f"by {name}{camera}{candidate}"


# Segments of one episode that a page reads.
MOST_SEGMENTS = 10_000


def read_segments(stores: Stores, episode: Episode) -> list[dict[str, Json]]:
    """Return the first segments of an episode that the tables show, in order of time, whoever made them."""
    usual_columns = {*(field.name for field in segment_schema()), "style", "author"}
    rows = stores.tables.segments.read(ids_filter([episode.episode_id])).slice(0, MOST_SEGMENTS).to_pylist()
    producers = stores.annotations.producers()
    return [_segment_data(row, usual_columns, producers) for row in rows]


def _is_verdict_column(name: str) -> bool:
    """Whether a column has the verdicts on one criterion, which a segment shows in another form."""
    criterion = name.removeprefix("grade_")
    return criterion != name and criterion.upper() not in RESERVED_CRITERIA


def _segment_data(
    row: Mapping[str, Any], usual_columns: set[str], producers: Mapping[str, Producer]
) -> dict[str, Json]:
    values: list[Json] = [
        [format_column_label(name), value_words(name, format_value_for_people(value), producers)]
        for name, value in row.items()
        if name not in usual_columns and value not in (None, []) and not _is_verdict_column(name)
    ]
    return {
        "id": row["annotation_id"],
        "start": row["start_seconds"],
        "stop": row["stop_seconds"],
        "by": _lane_label((row["annotator"], row.get("style") or "", "")),
        "annotator": row["annotator"],
        "style": row.get("style") or "",
        "author": row.get("author") or "",
        "maker": row["maker_id"],
        "grade": row.get("grade") or "",
        "text": row["text"],
        "values": values,
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
    """A lane for each code, with the spans of its findings; faults first."""
    by_code: dict[str, list[QualityFinding]] = defaultdict(list)
    for finding in findings:
        by_code[finding.code].append(finding)
    order = sorted(by_code, key=lambda code: (CODES[code].severity != "fault", code))
    return [
        {
            "code": code,
            "label": CODES[code].name.replace("-", " ").capitalize(),
            "meaning": CODES[code].meaning,
            "severity": CODES[code].severity,
            "spans": [_finding_span(finding, duration_seconds) for finding in by_code[code]],
        }
        for code in order
    ]


def _finding_span(finding: QualityFinding, duration_seconds: float) -> Json:
    """From its second for its size, where that is how long it lasts; an instant otherwise."""
    check = CODES[finding.code]
    start = min(max(finding.seconds, 0.0), duration_seconds)
    lasts = finding.size if finding.code in _LASTING else 0.0
    return {
        "start": start,
        "stop": min(start + lasts, duration_seconds),
        "label": f"{finding.dimension or finding.signal or 'all signals'}: size {finding.size:.4g} {check.size_unit}",
    }


def make_finding_rows(health: DatasetHealth) -> list[dict[str, Json | tuple[str, str]]]:
    """A row for each code of a dataset's sample; the code is the tip of its name."""
    return [
        {
            "finding": (count.name.replace("-", " "), count.code),
            "severity": count.severity,
            "episodes": count.num_episodes,
            "dimensions": ", ".join(name for name in count.dimensions if name),
            "meaning": CODES[count.code].meaning,
            "remedy": count.remedy,
        }
        for count in health.counts
    ]


def make_contract_rows(contract: MeaningContract) -> list[dict[str, Json | tuple[str, str]]]:
    """A row for each property that a signal has: its value, who said it, and how sure that is."""
    return [
        {
            "signal": signal.name,
            "property": (code_words(name), name),
            "value": str(estimate),
            "said by": _ORIGINS[estimate.origin],
            "confidence": None if estimate.origin == "none" else round(estimate.confidence, 2),
            "dimensions": ", ".join(signal.dimensions),
        }
        for signal in contract.signals
        for name, estimate in signal.estimates.items()
    ]


def make_worst_episode_rows(health: DatasetHealth) -> list[dict[str, Json | tuple[str, str]]]:
    """A row for each of the worst episodes; the codes are the tip of what was found."""
    return [
        {
            "episode": episode.key,
            "faults": episode.num_faults,
            "findings": (
                ", ".join(code.partition(" ")[2].replace("-", " ") for code in episode.codes),
                ", ".join(episode.codes),
            ),
        }
        for episode in health.worst
    ]
