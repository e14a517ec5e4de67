"""The options of grading, and the judges that they name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from annotators.caption import LayoutName, parse_layout
from annotators.grade.claim_judge import MAX_NEW_TOKENS, ClaimJudge
from annotators.grade.judge import Judge
from annotators.grade.judge_frames import JudgeFrames
from annotators.grade.panel import PanelJudge, panel_members
from annotators.models import LocalModelOptions, worker_needs
from ares.errors import RequestError

if TYPE_CHECKING:
    from annotators.base import Options
    from ares.jobs import WorkerNeeds
    from ares.rubric import Rubric
    from ares.store import Stores

_CLIP_PREFIX = "clip:"


class GradeOptions(LocalModelOptions):
    """Options of grading."""

    # The maker knows judges by their names, and by their settings whether they observe first.
    not_in_maker: ClassVar[frozenset[str]] = LocalModelOptions.not_in_maker | {"judge", "observe"}

    rubric: str = Field(default="caption", description="rubric: a shipped name or a YAML file")
    candidates: str = Field(
        default="",
        description="text file, one phrase a line: what a clip judge, which is the demo's, tells apart",
    )
    entailment: str = Field(
        default="judge",
        description="what compares a caption in other words with what a judge saw: judge (its own text mode), "
        "tables (words that differ are contested), or a model of texts (hf:... or openai:...)",
    )
    observe: Literal["first", "never"] = Field(
        default="first",
        description="whether a vision-language judge says what it sees before it knows a caption: first or never",
    )
    layout: LayoutName = Field(
        default="tiles",
        description="frames that a judge gets, other than a clip judge: tiles, collage or frames:N",
    )
    judge: tuple[str, ...] = Field(
        default=(),
        description="judge; given several times, a panel that votes (default: --model, or ARES_JUDGE_MODEL)",
    )
    camera: str = Field(
        default="",
        description="camera that the judge gets (default: the best view; a clip judge gets every good one)",
    )


def judge_specs(options: Options, own: GradeOptions) -> Sequence[str]:
    """The specs of the judges of a run. Raises RequestError where --judge and --model are given."""
    if own.judge and options.model:
        raise RequestError("--judge and --model both name the judge", "give one of them")
    return own.judge or [options.model or options.settings.judge_model]


def load_judges(
    specs: Sequence[str], options: Options, own: GradeOptions, stores: Stores, rubric: Rubric
) -> Judge:
    """The judge of a spec, or the panel of several."""
    judges = [_load_judge(spec, options, own, stores, rubric) for spec in specs]
    return judges[0] if len(judges) == 1 else PanelJudge(judges, options.settings.model_families)


def judge_needs(specs: Sequence[str]) -> WorkerNeeds:
    """What a worker with all judges takes of a machine."""
    needs = [worker_needs("judge", spec) for spec in specs]
    memory = sum(own.memory_bytes for own in needs)
    return replace(needs[0], memory_bytes=memory, gpus=max(own.gpus for own in needs))


def _load_judge(spec: str, options: Options, own: GradeOptions, stores: Stores, rubric: Rubric) -> Judge:
    if spec.startswith(_CLIP_PREFIX):
        from annotators.grade.clip_judge import ClipJudge, check_rubric, read_candidates
        from annotators.models import load_encoder_for

        check_rubric(rubric)
        candidates = read_candidates(own.candidates)
        return ClipJudge(
            load_encoder_for(spec.removeprefix(_CLIP_PREFIX), options, stores), candidates, own.camera
        )
    return _load_model_judge(spec, options, own, stores)


def _load_model_judge(spec: str, options: Options, own: GradeOptions, stores: Stores) -> Judge:
    """A vision-language model as judge: one that observes first, where it can hold the form of an observation."""
    from annotators.grade.entailment import TextModeEntailment, load_entailment
    from annotators.grade.observation import Observer, ObservingJudge
    from annotators.models import UNKNOWN_UNTIL_LOADED, load_vlm

    layout, is_remote, settings = parse_layout(own.layout), spec.startswith("openai:"), options.settings
    vlm = load_vlm(spec, options, MAX_NEW_TOKENS, stores)
    claims = ClaimJudge(vlm, layout, own.camera, settings, is_remote)
    has_schema = "schema" in vlm.capabilities or UNKNOWN_UNTIL_LOADED in vlm.name
    if own.observe == "never" or not has_schema:
        return claims
    observer = Observer(vlm, JudgeFrames(layout, own.camera), stores, settings.price, is_remote)
    if own.entailment == "judge":
        own_texts = TextModeEntailment(vlm, settings.price, is_remote, needs_probabilities=False)
        return ObservingJudge(observer, claims, own_texts)
    return ObservingJudge(observer, claims, load_entailment(own.entailment, options, stores))


def schema_warnings(judge: Judge, own: GradeOptions) -> list[str]:
    """What a person should know of judges that cannot observe first."""
    if own.observe == "never":
        return []
    return [
        f"{member.name} holds no JSON schema, so it observes nothing first: it is asked about every claim"
        for member in panel_members(judge)
        if isinstance(member, ClaimJudge)
    ]
