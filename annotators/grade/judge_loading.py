"""Loads the judge of a run, or several as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ares.errors import RequestError
from ares.rubric import read_verbs
from ares_annotators.caption import SEGMENT_CAPTION
from ares_annotators.grade.additions import DatasetWords
from ares_annotators.grade.judge import Judge, JudgeFrames
from ares_annotators.grade.vote import PanelJudge
from ares_annotators.models import estimate_worker_resources

if TYPE_CHECKING:
    from ares.jobs import WorkerNeeds
    from ares.rubric import Rubric
    from ares.store import Stores
    from ares_annotators.base import Options
    from ares_annotators.grade.grade_options import GradeOptions


_CLIP_PREFIX = "clip:"


def list_judge_specs(options: Options, grade_options: GradeOptions) -> Sequence[str]:
    """The specs of the judges of a run. Raises RequestError where an option and --model name them."""
    if grade_options.judge and options.model:
        raise RequestError("the option judge and --model both name the judge", "give one of them")
    return grade_options.judge or [options.model or options.settings.judge_model]


def load_judges(
    specs: Sequence[str],
    options: Options,
    grade_options: GradeOptions,
    stores: Stores,
    rubric: Rubric,
    words: DatasetWords,
) -> Judge:
    """The judge of a spec, or several as one; they share the words of a dataset.

    Raises:
        RequestError: A spec or an option cannot be read.
        ModelError: A judge cannot be loaded.
    """
    judges = [_load_judge(spec, options, grade_options, stores, rubric, words) for spec in specs]
    return judges[0] if len(judges) == 1 else PanelJudge(judges)


def sum_judge_resources(specs: Sequence[str]) -> WorkerNeeds:
    """What a worker with all judges takes of a machine."""
    needs = [estimate_worker_resources(spec) for spec in specs]
    memory = sum(need.memory_bytes for need in needs)
    return replace(needs[0], memory_bytes=memory, gpus=max(need.gpus for need in needs))


def _load_judge(
    spec: str,
    options: Options,
    grade_options: GradeOptions,
    stores: Stores,
    rubric: Rubric,
    words: DatasetWords,
) -> Judge:
    """The judge of a spec; a vision-language model gets no caption."""
    if spec.startswith(_CLIP_PREFIX):
        from ares_annotators.grade.clip_judge import (
            ClipJudge,
            check_clip_judge_rubric,
            read_candidate_phrases,
        )
        from ares_annotators.models import load_encoder_for

        check_clip_judge_rubric(rubric)
        candidates = read_candidate_phrases(grade_options.candidates)
        return ClipJudge(
            load_encoder_for(spec.removeprefix(_CLIP_PREFIX), options, stores),
            candidates,
            grade_options.camera,
        )
    if claims := [criterion.id for criterion in rubric.criteria if criterion.claim and not criterion.slot]:
        raise RequestError(
            "a judge hf:... or openai:... rules on slots alone",
            f"{rubric.id!r} has {claims[0]}; `ares annotate attributes --fields FILE` asks about the frames",
        )
    from ares_annotators.grade.observing_judge import ObservingJudge
    from ares_annotators.grade.segment_observer import MAX_NEW_TOKENS, SegmentObserver
    from ares_annotators.grade.slot_values import DatasetValues
    from ares_annotators.models import load_vlm

    frames, verbs = JudgeFrames(grade_options.layout, grade_options.camera), read_verbs(grade_options.verbs)
    vlm = load_vlm(spec, options, MAX_NEW_TOKENS, stores)
    observer = SegmentObserver(vlm, frames, stores, verbs)
    captions = SEGMENT_CAPTION if grade_options.per == "segment" else "caption"
    rivals = DatasetValues(stores, words, verbs, captions).choose_rival
    return ObservingJudge(vlm, observer, frames, stores.annotations, words, rivals)
