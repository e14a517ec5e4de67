"""Datasets whose captions a judge has accepted or refused, and people who know which are true."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ares.annotation import Column, Producer
from ares.review import QueueItem
from ares.rubric import GRADE_COLUMNS, make_grade_value
from ares.store import Stores
from ares.workspace import Measurement
from tests.ares.review.audited_world import make_record
from tests.ares.review.conftest import CAPTIONER, make_annotation

# The column of the times of grades; the door has it once grades are dated.
_TIMES = Column(name="grade_time", type="float64", meaning="When the grade was made.")
_NAMES = {column.name for column in GRADE_COLUMNS}
JUDGE = Producer(
    annotator="grade",
    version="1",
    model="j",
    columns=(*GRADE_COLUMNS, *([] if _TIMES.name in _NAMES else [_TIMES])),
    kind="model",
    subject_kind="annotation",
    after=("caption",),
)


def add_graded(
    stores: Stores,
    verdicts: str,
    *,
    dataset: str = "lids",
    start: int = 0,
    judge: Producer = JUDGE,
    captioner: Producer = CAPTIONER,
    fields: Callable[[int], Mapping[str, Any]] = lambda number: {},
) -> list[str]:
    """Add an episode for each sign, with a caption and its grade; "+" is accepted, "-" refused, "?" not decided.

    "." has no grade; of such signs alone no judge is known.

    Returns:
        Ids of the captions, in the order of the signs.
    """
    for producer in (captioner, judge) if set(verdicts) != {"."} else (captioner,):
        stores.annotations.add_producer(producer)
    records = [make_record(dataset, str(start + number), "lift the lid") for number in range(len(verdicts))]
    records = [
        replace(record, episode=replace(record.episode, **fields(start + number)))
        for number, record in enumerate(records)
    ]
    known = stores.tables.episodes.ids()
    stores.tables.episodes.add([record for record in records if record.episode.episode_id not in known])
    captions = []
    for number, (record, sign) in enumerate(zip(records, verdicts, strict=True), start=start):
        episode, text = record.episode.episode_id, f"lift lid {number}"
        caption = make_annotation(captioner, episode, episode, {"text": text, "caption": text})
        captions.append(caption.annotation_id)
        if sign == ".":
            stores.annotations.append([caption])
            continue
        verdict = {"+": "MET", "-": "UNMET", "?": "UNSURE"}[sign]
        ruling: dict[str, Any] = {
            "criterion": "VERB",
            "verdict": verdict,
            "category": "essential",
            "evidence": [0.5],
        }
        value = {**make_grade_value([ruling]), _TIMES.name: time.time()}
        grade = make_annotation(judge, episode, caption.annotation_id, value)
        stores.annotations.append([caption, grade])
    stores.sync()
    return captions


def accept_captions(stores: Stores) -> None:
    """Let the judge accept all captions of a workspace."""
    stores.annotations.add_producer(JUDGE)
    for row in stores.tables.segments.scan(["annotation_id", "episode_id"]).to_pylist():
        ruling: dict[str, Any] = {
            "criterion": "VERB",
            "verdict": "MET",
            "category": "essential",
            "evidence": [0.5],
        }
        value = {**make_grade_value([ruling]), _TIMES.name: time.time()}
        stores.annotations.append([make_annotation(JUDGE, row["episode_id"], row["annotation_id"], value)])
    stores.sync()


def answer_items(
    measurement: Measurement,
    count: int,
    is_true: Callable[[QueueItem], bool] = lambda item: True,
    **fields: Any,
) -> int:
    """Let a person who was shown each clip answer so many questions at most. Returns how many were asked."""
    for number in range(count):
        item = measurement.next()
        if item is None:
            return number
        measurement.answer(item, "met" if is_true(item) else "unmet", **{"shown": True, **fields})
    return count
