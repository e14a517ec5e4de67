"""Loads the judges that the options of grading name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from annotators.caption import SEGMENT_CAPTION
from annotators.grade.additions import DatasetWords
from annotators.grade.judge import Judge, JudgeFrames
from annotators.grade.judge_families import check_judge_families, judge_members
from annotators.grade.vote import PanelJudge
from annotators.models import UNKNOWN_UNTIL_LOADED, estimate_worker_resources
from ares.errors import RequestError
from ares.rubric import read_verbs

if TYPE_CHECKING:
    from annotators.base import Options
    from annotators.grade.grade_options import GradeOptions
    from ares.jobs import WorkerNeeds
    from ares.rubric import Rubric
    from ares.store import Stores


_CLIP_PREFIX = "clip:"


def list_judge_specs(options: Options, grade_options: GradeOptions) -> Sequence[str]:
    """The specs of the judges of a run. Raises RequestError where --judge and --model are given."""
    if grade_options.judge and options.model:
        raise RequestError("--judge and --model both name the judge", "give one of them")
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
        RequestError: A spec or an option cannot be read, or two judges have one language model.
        ModelError: A judge cannot be loaded.
    """
    judges = [_load_judge(spec, options, grade_options, stores, rubric, words) for spec in specs]
    if len(judges) == 1:
        return judges[0]
    check_judge_families(judges, options.settings.model_families)
    return PanelJudge(judges)


def sum_judge_resources(specs: Sequence[str]) -> WorkerNeeds:
    """What a worker with all judges takes of a machine."""
    needs = [estimate_worker_resources("judge", spec) for spec in specs]
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
    if spec.startswith(_CLIP_PREFIX):
        from annotators.grade.clip_judge import ClipJudge, check_clip_judge_rubric, read_candidate_phrases
        from annotators.models import load_encoder_for

        check_clip_judge_rubric(rubric)
        candidates = read_candidate_phrases(grade_options.candidates)
        return ClipJudge(
            load_encoder_for(spec.removeprefix(_CLIP_PREFIX), options, stores),
            candidates,
            grade_options.camera,
        )
    return _load_model_judge(spec, options, grade_options, stores, words)


def _load_model_judge(
    spec: str,
    options: Options,
    grade_options: GradeOptions,
    stores: Stores,
    words: DatasetWords,
) -> Judge:
    """A vision-language model as judge: it gets no caption."""
    from annotators.grade.observing_judge import ObservingJudge
    from annotators.grade.segment_observer import MAX_NEW_TOKENS, SegmentObserver
    from annotators.grade.slot_values import DatasetValues
    from annotators.models import load_vlm

    frames, verbs = JudgeFrames(grade_options.layout, grade_options.camera), read_verbs(grade_options.verbs)
    vlm = load_vlm(spec, options, MAX_NEW_TOKENS, stores)
    observer = SegmentObserver(vlm, frames, stores, verbs)
    is_judge = grade_options.text_model == "judge"
    texts = vlm if is_judge else load_vlm(_text_model_spec(grade_options), options, MAX_NEW_TOKENS, stores)
    captions = SEGMENT_CAPTION if grade_options.per == "segment" else "caption"
    rivals = DatasetValues(stores, words, verbs, captions).choose_rival
    return ObservingJudge(vlm, observer, frames, texts, stores.annotations, words, rivals)


def _text_model_spec(grade_options: GradeOptions) -> str:
    if not grade_options.text_model.startswith(("hf:", "openai:", "stub:")):
        raise RequestError(
            "no such model of texts",
            f"{grade_options.text_model!r}; give judge, hf:FOLDER or openai:MODEL@http://HOST:PORT/v1",
        )
    return grade_options.text_model


def warn_of_missing_schema(judge: Judge) -> list[str]:
    """What a person should know of judges whose back end holds no form."""
    return [
        f"{member.name} holds no JSON schema: it is asked for JSON in words, and a reply of another form is a failure"
        for member in judge_members(judge)
        if member.settings.get("has_schema") is False and UNKNOWN_UNTIL_LOADED not in member.name
    ]
