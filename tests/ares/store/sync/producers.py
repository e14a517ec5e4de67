"""The producers of the histories: several of each annotator, of people too, and annotators that describe others."""

from __future__ import annotations

from dataclasses import replace

from ares.annotation import Column, Producer

_CAPTION = Producer(
    annotator="caption",
    version="1",
    kind="model",
    columns=(Column(name="caption", type="string", meaning="Caption."),),
    fills_segments=True,
)
_GRADE = Producer(
    annotator="grade",
    version="1",
    kind="model",
    subject_kind="annotation",
    after=("caption",),
    columns=(
        Column(name="grade", type="string", meaning="Grade."),
        Column(name="acceptable", type="bool", meaning="Is it?", needs_current_maker=True),
        Column(name="grade_score", type="float64", meaning="Score."),
    ),
)
_SUBTASK = Producer(
    annotator="subtask",
    version="1",
    columns=(Column(name="steps", type="string", meaning="Steps.", rollup="list"),),
    fills_segments=True,
)
_LABEL = Producer(
    annotator="label",
    version="1",
    kind="model",
    subject_kind="segment",
    after=("subtask",),
    columns=(
        Column(name="done", type="bool", meaning="Is it done?", rollup="all", is_outcome=True),
        Column(name="slips", type="int64", meaning="Slips.", rollup="sum", needs_current_maker=True),
        Column(name="speed", type="int64", meaning="Speed.", rollup="mean"),
        Column(name="note", type="string", meaning="Only on segments."),
    ),
)
_OUTCOME = Producer(
    annotator="outcome",
    version="1",
    kind="model",
    columns=(Column(name="succeeded", type="bool", meaning="Did it?", is_outcome=True),),
)
_EVENTS = Column(name="events", type="int64", meaning="Events.")
_GUEST = Producer(
    annotator="guest",
    version="1",
    columns=(_EVENTS, Column(name="phase", type="string", meaning="Phase.", choices=("reach", "lift"))),
)


def _versions(producer: Producer) -> tuple[Producer, Producer]:
    return producer, replace(producer, version="2")


_GUEST_2 = replace(
    _GUEST,
    version="2",
    columns=(_EVENTS, replace(_GUEST.columns[1], choices=("reach", "lift", "place"))),
)
CAPTIONERS, JUDGES = _versions(_CAPTION), _versions(_GRADE)
CORRECTOR = replace(_CAPTION, version="anna", kind="person")
CONSENSUS = replace(_CAPTION, version="vote", kind="consensus")
RULERS = tuple(replace(_GRADE, version=name, kind="person") for name in ("anna", "ben"))
SEGMENTERS, LABELERS, OUTCOMES = _versions(_SUBTASK), _versions(_LABEL), _versions(_OUTCOME)
GUESTS = (_GUEST, _GUEST_2, Producer(annotator="visitor", version="1", columns=(_EVENTS,)))
PRODUCERS: tuple[Producer, ...] = (
    *CAPTIONERS,
    CORRECTOR,
    CONSENSUS,
    *JUDGES,
    *RULERS,
    *SEGMENTERS,
    *LABELERS,
    *OUTCOMES,
    *GUESTS,
)
