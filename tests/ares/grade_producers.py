"""A captioner, judges of its captions, and a caption that is graded by a judge with controls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ares.annotation import Annotation, Column, Producer
from ares.rubric import CONTROL, GRADE_COLUMNS
from ares.rubric.verdict import verdict_column

CAPTIONER = Producer(
    annotator="caption",
    version="1",
    kind="model",
    columns=(Column(name="caption", type="string", meaning="Caption."),),
    fills_segments=True,
)
JUDGE = Producer(
    annotator="grade",
    version="1",
    kind="model",
    columns=(*GRADE_COLUMNS, verdict_column("VERB", "The action is right.")),
    subject_kind="annotation",
    after=("caption",),
)
OTHER_JUDGE = replace(JUDGE, version="2")
PERSON = replace(JUDGE, kind="person", version="p")

# A judge that accepts the captions of other episodes, too: it is refuted, and none of its grades counts.
GRADE = {
    "grade": "acceptable",
    "acceptable": True,
    "grade_time": 100.0,
    "grade_score": 1.0,
    "grade_verdicts": "VERB=MET",
    "grade_verb": "MET",
}
CONTROLS = [{"kind": "other_episode", "grade": "acceptable", "battery": True}] * 5


def graded_caption(episode: str) -> list[Annotation]:
    """A caption, its grade, and the controls of the grade."""

    def make(name: str, producer: Producer, value: Any, subject: str = episode, part: str = "") -> Annotation:
        return Annotation(
            episode_id=episode,
            subject=subject,
            name=name,
            value=value,
            maker_id=producer.maker_id,
            start_seconds=0.0,
            stop_seconds=1e6,
            created="",
            part=part,
        )

    caption = make("caption", CAPTIONER, {"text": "open the drawer", "caption": "open the drawer"})
    about = caption.annotation_id
    controls = make(CONTROL, JUDGE, {"gradings": CONTROLS, "time": 200.0}, about, about)
    return [caption, make("grade", JUDGE, GRADE, caption.annotation_id), controls]
