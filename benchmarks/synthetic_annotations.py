"""Writes annotations of synthetic episodes to the log, four each, as ingestion and annotators write them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

from ares.annotation import Annotation, Column, Producer
from ares.episode import Json
from ares.workspace import Workspace
from ares_annotators.base import Options
from ares_annotators.motion import MotionAnnotator
from ares_ingest.pipeline import CHECKER

_BATCH_SIZE = 20_000
_CREATED = "2026-01-01T00:00:00+00:00"
_CAPTION = Producer(
    annotator="caption",
    version="1",
    columns=(Column(name="caption", type="string", meaning="Made up."),),
    fills_segments=True,
)
_GRADE = Producer(
    annotator="grade",
    version="1",
    columns=(
        Column(name="acceptable", type="bool", meaning="Made up."),
        Column(name="grade", type="string", meaning="Made up."),
        Column(name="score", type="float64", meaning="Made up."),
    ),
    subject_kind="annotation",
    after=("caption",),
)


def append_synthetic_annotations(ws: Workspace, seed: int = 0) -> None:
    """Append annotations of every episode to the log, without applying them to the tables.

    Args:
        ws: Workspace with the episodes.
        seed: Seed of all random values.
    """
    motion_producer = MotionAnnotator(Options(settings=ws.settings), ws.stores).producer
    for producer in (motion_producer, _GRADE, CHECKER, _CAPTION):
        ws.stores.annotations.add_producer(producer)
    annotations = _drawn_annotations(ws, random.Random(seed), motion_producer)
    while batch := list(islice(annotations, _BATCH_SIZE)):
        ws.stores.annotations.append(batch)


def _drawn_annotations(ws: Workspace, rng: random.Random, motion_producer: Producer) -> Iterator[Annotation]:
    for batch in ws.stores.tables.episodes.scan(["episode_id"]):
        for episode_id in batch["episode_id"].to_pylist():
            yield _new_annotation(episode_id, CHECKER, {"findings": [], "quality_findings": 0})
            yield _new_annotation(episode_id, motion_producer, _motion_value(rng))
            text = f"take the thing number {rng.randrange(1_000_000)}"
            caption = _new_annotation(episode_id, _CAPTION, {"text": text, "caption": text})
            yield caption
            yield _new_annotation(episode_id, _GRADE, _grade_value(rng), caption.annotation_id)


def _new_annotation(
    episode_id: str, producer: Producer, value: dict[str, Json], subject: str = ""
) -> Annotation:
    return Annotation(
        episode_id=episode_id,
        name=producer.annotator,
        value=value,
        maker_id=producer.maker_id,
        subject=subject or episode_id,
        start_seconds=0.0,
        stop_seconds=5.0,
        created=_CREATED,
    )


def _motion_value(rng: random.Random) -> dict[str, Json]:
    return {
        "path_length": rng.lognormvariate(0.0, 1.0),
        "jerk_ldlj": rng.gauss(-8.0, 2.0),
        "idle_share": rng.random(),
        "gripper_events": rng.randrange(8),
    }


def _grade_value(rng: random.Random) -> dict[str, Json]:
    is_acceptable = rng.random() < 0.7
    return {
        "acceptable": is_acceptable,
        "grade": "acceptable" if is_acceptable else "not_acceptable",
        "score": float(is_acceptable),
    }
