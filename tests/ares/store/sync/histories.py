"""Random histories of a workspace: annotations of many producers, pins, rebuilds, and the log applied at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from ares.annotation import Annotation, Producer, make_segment_id
from ares.errors import StoreError
from ares.store import AnnotationStore, pin_producers
from tests.ares.store.sync.oracle import grade_of
from tests.ares.store.sync.producers import (
    CAPTIONERS,
    CONSENSUS,
    CORRECTOR,
    JUDGES,
    PRODUCERS,
    RULERS,
    SEGMENTERS,
)

Row = dict[str, Any]
_CATEGORIES = {"VERB": "essential", "STYLE": "important", "COLOUR": "pitfall"}
_SPANS = ((0.0, 2.0), (0.0, 3.0), (3.0, 6.0), (6.0, 9.0), (4.0, 5.0))
# Of everything else; no segment has the span of a caption.
_WHOLE_SPANS = ((0.0, 10.0), (1.0, 10.0))


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a history: a producer annotates, or what else `kind` says; numbers choose among what there is."""

    kind: str
    label: str
    episode: int
    subject: int
    span: int
    variant: int
    value: int

    @property
    def producer(self) -> Producer:
        """The producer that annotates or is pinned."""
        return _BY_LABEL[self.label]


def _label(producer: Producer) -> str:
    return f"{producer.annotator} {producer.version}"


_BY_LABEL = {_label(producer): producer for producer in PRODUCERS}
_WHOLE = (*CAPTIONERS, CORRECTOR, CONSENSUS, *JUDGES, *RULERS)
_KINDS = ["annotate"] * 14 + ["apply"] * 2 + ["pin", "unpin", "rebuild", "drop segments"]


def steps_of(producers: Sequence[Producer]) -> st.SearchStrategy[Step]:
    """Steps of some producers; one that is named several times comes more often."""
    return st.builds(
        Step,
        kind=st.sampled_from(_KINDS),
        label=st.sampled_from([_label(producer) for producer in producers]),
        episode=st.integers(0, 2),
        subject=st.integers(0, 3),
        span=st.integers(0, 4),
        variant=st.integers(0, 9),
        value=st.integers(0, 11),
    )


# Captions and grades more often: they have most rules.
histories = st.lists(steps_of((*_WHOLE, *PRODUCERS)), min_size=4, max_size=40)


@dataclass(slots=True)
class Writer:
    """Writes the annotations of a history to a log."""

    episode_ids: list[str]
    store: AnnotationStore
    written: list[Annotation] = field(default_factory=list)
    pending: list[Annotation] = field(default_factory=list)

    def annotate(self, step: Step) -> None:
        """Note the annotation of a step, which `flush` writes, if it has a subject."""
        annotation = self._annotation(step)
        if annotation is not None:
            self.written.append(annotation)
            self.pending.append(annotation)

    def flush(self) -> None:
        """Append what is pending; its producers are new to the log where they have not annotated before."""
        producers = {producer.maker_id: producer for producer in PRODUCERS}
        for maker_id in {annotation.maker_id for annotation in self.pending} - self.store.producers().keys():
            self.store.add_producer(producers[maker_id])
        self.store.append(self.pending)
        self.pending = []

    def _annotation(self, step: Step) -> Annotation | None:
        episode_id, producer = self.episode_ids[step.episode], step.producer
        # What was revised once is written by revisions from then on.
        is_revision = step.variant in (4, 5, 6) or any(
            other.revision and (other.maker_id, other.episode_id) == (producer.maker_id, episode_id)
            for other in self.written
        )
        start, stop = _SPANS[step.span] if producer in SEGMENTERS else _WHOLE_SPANS[step.variant == 9]
        plain = Annotation(
            episode_id=episode_id,
            name=producer.annotator,
            value=_value(step),
            maker_id=producer.maker_id,
            subject=episode_id,
            start_seconds=start,
            stop_seconds=stop,
            camera="wrist" if step.variant == 8 else "",
            created="2026-11-21T00:00:00+00:00",
            ordinal=1 if step.variant == 7 and producer not in RULERS else 0,
            # Also a revision of nothing; the newest in the log counts, not the largest.
            revision=1000 - len(self.written) if is_revision else 0,
            part=list(_CATEGORIES)[step.value % 3] if producer in RULERS else "",
        )
        return self._of_subject(plain, step)

    def _of_subject(self, annotation: Annotation, step: Step) -> Annotation | None:
        if step.producer.subject_kind == "episode":
            return annotation
        upstream = step.producer.after[0]
        subjects = [
            other
            for other in self.written
            if other.name == upstream and other.episode_id == annotation.episode_id
        ]
        if not subjects:
            return None
        subject = subjects[-1 - step.subject % len(subjects)]
        if step.producer.subject_kind == "annotation":
            return replace(annotation, subject=subject.annotation_id, subject_kind="annotation")
        span = (subject.start_seconds, subject.stop_seconds)
        segment = make_segment_id(annotation.episode_id, *span)
        return replace(
            annotation, subject=segment, subject_kind="segment", start_seconds=span[0], stop_seconds=span[1]
        )


def _value(step: Step) -> Row:
    number, annotator = step.value, step.producer.annotator
    if annotator == "caption":
        text = f"caption {number % 3}"
        return {"text": text, "caption": text} if number else {"text": text}
    if annotator == "grade":
        return _grade_value(step)
    if annotator == "subtask":
        return {"text": f"step {number}", "steps": (f"step {number % 4}", None, 7)[number % 5 // 3]}
    if annotator == "label":
        slips = (0, 1, 2, None, "many")[number % 5]
        return {"done": number % 3 > 0, "slips": slips, "speed": number, "note": f"note {number % 2}"}
    if annotator == "outcome":
        return {"succeeded": (True, False, None)[number % 3]}
    events = ({"events": number}, {}, {"events": "wrong"}, {"events": None})[number % 4]
    return {**events, **({"phase": ("reach", "place", "lift")[number % 3]} if number > 5 else {})}


def _grade_value(step: Step) -> Row:
    if step.producer in RULERS:
        name = list(_CATEGORIES)[step.value % 3]
        verdict = ("MET", "UNMET", "MET", "UNSURE")[step.value // 3]
        ruling = {"criterion": name, "verdict": verdict, "category": _CATEGORIES[name]}
        return {"rulings": [] if step.variant == 6 else [ruling]}
    if step.value == 11:
        return {"grade": "error", "acceptable": None}  # the judge gave no ruling
    verdicts = (
        "MET",
        ("MET", "UNMET", "UNSURE", "NA")[step.value % 4],
        ("MET", "MET", "ERROR")[step.value % 3],
    )
    rulings = [
        {"criterion": name, "verdict": verdict, "category": category}
        for (name, category), verdict in zip(_CATEGORIES.items(), verdicts, strict=True)
    ]
    return grade_of(rulings)


def play(
    history: list[Step], writer: Writer, apply: Callable[[], Any], rebuild: Callable[[bool], None]
) -> dict[str, str]:
    """Play a history and apply all of its log. Returns the pins."""
    pins: dict[str, str] = {}
    for step in history:
        if step.kind == "annotate":
            writer.annotate(step)
            continue
        writer.flush()
        if step.kind in ("pin", "unpin"):
            _pin(step, writer.store, pins)
        elif step.kind != "apply":
            rebuild(step.kind == "drop segments")
        if step.kind == "apply":
            apply_quietly(apply)
    writer.flush()
    apply_quietly(apply)
    return pins


def apply_quietly(apply: Callable[[], Any]) -> None:
    """Apply a log that has values of wrong types."""
    with suppress(StoreError):
        apply()


def _pin(step: Step, store: AnnotationStore, pins: dict[str, str]) -> None:
    annotator = step.producer.annotator
    if annotator not in {producer.annotator for producer in store.producers().values()}:
        return
    if step.kind == "unpin":
        pin_producers(store, {annotator: "newest"})
        pins.pop(annotator, None)
    elif step.producer.maker_id in store.producers():
        pins |= pin_producers(store, {annotator: step.producer.maker_id})


def without_empty(rows: Iterator[Row], hidden: set[str]) -> list[Row]:
    """Rows without their empty columns, and without some others; conflicts as sets of what is said."""
    comparable = [
        {name: value for name, value in row.items() if value is not None and name not in hidden}
        for row in rows
    ]
    for row in comparable:
        if row.get("reviewed") is False:
            del row["reviewed"]
        if "conflict" in row:
            row["conflict"] = set(row["conflict"].split(", "))
    return comparable
