"""The options of the annotator `grade`."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from ares_annotators.caption import CaptionedKind, CaptionLayout
from ares_annotators.models import LocalModelOptions


class GradeOptions(LocalModelOptions):
    """Options of grading."""

    # The producer knows judges by their names, and verbs by the hash of prompts.
    not_in_producer: ClassVar[frozenset[str]] = LocalModelOptions.not_in_producer | {"judge", "verbs", "per"}

    per: CaptionedKind = Field(
        default="episode",
        description="whose captions are graded: episode, or segment (by the rubric `segment`, if no other is given)",
    )
    rubric: str = Field(default="caption", description="rubric: a shipped name or a YAML file")
    candidates: str = Field(
        default="",
        description="text file, one phrase a line: what a clip judge, which is the demo's, distinguishes",
    )
    verbs: str = Field(
        default="",
        description="your own guide of verbs, a YAML file of verb: meaning (default: the shipped one)",
    )
    layout: CaptionLayout = Field(
        default="auto",
        description="frames that a judge gets, other than a clip judge: auto (as a captioner gets them: one in two "
        "seconds, all good cameras, at most 60), sheets or tiles",
    )
    judge: tuple[str, ...] = Field(
        default=(),
        description="several judges, each of which must accept a caption (default: one, --model or ARES_JUDGE_MODEL)",
    )
    camera: str = Field(
        default="",
        description="camera that the judge gets (default: every good one in the layouts auto and sheets and of a clip "
        "judge, else the best view)",
    )
