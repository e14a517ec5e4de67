"""A captioner, and judges of its captions that have controls."""

from __future__ import annotations

from dataclasses import replace

from ares.annotation import Column, Maker
from ares.rubric import GRADE_COLUMNS

CAPTIONER = Maker(
    annotator="caption",
    version="1",
    kind="model",
    columns=(Column(name="caption", type="string", meaning="Caption."),),
    fills_segments=True,
)
JUDGE = Maker(
    annotator="grade",
    version="1",
    kind="model",
    columns=GRADE_COLUMNS,
    subject_kind="annotation",
    after=("caption",),
)
OTHER_JUDGE = replace(JUDGE, version="2")
PERSON = replace(JUDGE, kind="person", version="p")
