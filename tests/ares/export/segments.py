"""Segments for tests of exports: what a source, a person, a segmenter and a judged captioner say, put into the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from ares.annotation import Annotation, Column, Producer
from ares.episode import Json
from ares.rubric import GRADE_COLUMNS, JUDGE_TRIPWIRE, GradeProjection
from ares.store import ProducerCatalog
from ares.workspace import Workspace

_CREATED = "2026-01-01T00:00:00+00:00"
SEGMENTER = Producer(annotator="segment", version="1", fills_segments=True)
CAPTIONER = Producer(annotator="label", version="1", model="vlm-1", kind="model", fills_segments=True)
PERSON = Producer(annotator="spans", version="1", kind="person", fills_segments=True)
JUDGE = Producer(
    annotator="grade",
    version="1",
    model="judge-1",
    kind="model",
    columns=(*GRADE_COLUMNS, Column(name="grade_verdicts", type="string", meaning="Verdicts.")),
    subject_kind="annotation",
    after=("label",),
)

SCORER = Producer(
    annotator="scorer", version="1", columns=(Column(name="score", type="float64", meaning="A score."),)
)


def source_producer(style: str) -> Producer:
    return Producer(annotator=f"source_{style}", version="1", fills_segments=True)


def segment(
    producer: Producer,
    episode_id: str,
    span: tuple[float, float],
    value: Mapping[str, Json],
    camera: str = "",
    part: str = "",
) -> Annotation:
    return Annotation(
        episode_id=episode_id,
        name=producer.annotator,
        value=value,
        maker_id=producer.maker_id,
        subject=episode_id,
        start_seconds=span[0],
        stop_seconds=span[1],
        created=_CREATED,
        camera=camera,
        part=part,
    )


def grade(of: Annotation, verdicts: str) -> Annotation:
    """A grade of a caption by its verdicts."""
    return Annotation(
        episode_id=of.episode_id,
        name="grade",
        value={"grade": "acceptable", "acceptable": True, "grade_verdicts": verdicts},
        maker_id=JUDGE.maker_id,
        subject=of.annotation_id,
        start_seconds=of.start_seconds,
        stop_seconds=of.stop_seconds,
        created=_CREATED,
    )


def refute_judge(ws: Workspace) -> None:
    """Let no grade of the judge on the dataset "made" count."""
    stores, document = ws.stores, cast("Json", {"state": "refuted", "since": 0.0})
    stores.annotations.put_documents(JUDGE_TRIPWIRE, {f"{JUDGE.maker_id}/made": document})
    catalog = ProducerCatalog(stores.annotations.producers())
    GradeProjection().refresh(stores.tables, stores.annotations, catalog)


def append(ws: Workspace, producers: Sequence[Producer], annotations: Sequence[Annotation]) -> None:
    """Put producers and annotations into the log, and let the tables follow."""
    for producer in producers:
        ws.stores.annotations.add_producer(producer)
    ws.stores.annotations.append(annotations)
    ws.sync()
