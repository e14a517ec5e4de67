"""The annotator `grade`: captions judged criterion by criterion, by code first and then by a model.

The judge must be of another model family than the captioner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import Field

from annotators.base import Annotator, Options, Outcome, Preflight, Result, Work, new_annotation
from annotators.caption import LayoutName, parse_layout
from annotators.grade.judge import Case, Judge, Judgement
from annotators.grade.kinship import kinship_error, kinship_warnings
from annotators.grade.shipped_rubrics import load_rubric
from annotators.models import LocalModelOptions
from annotators.options import takes_options
from ares.annotation import Annotation, Cost, Maker, short_hash
from ares.episode import Json
from ares.errors import AresError
from ares.rubric import (
    CHECKS,
    GRADE_COLUMNS,
    CaptionSlots,
    CheckInput,
    Criterion,
    Rubric,
    Ruling,
    Verdict,
    grade_values,
    is_stated,
    parse_caption,
    parser_hash,
)
from ares.store.sync import segment_id

if TYPE_CHECKING:
    from ares.store import Stores

_VERSION = "1"
_CLIP_PREFIX = "clip:"
# Annotators whose annotations are graded.
_GRADED = ("caption",)


class GradeOptions(LocalModelOptions):
    """Options of grading."""

    rubric: str = Field(default="caption", description="rubric: a shipped name or a YAML file")
    layout: LayoutName = Field(
        default="tiles",
        description="frames that a judge gets, other than a clip judge: tiles, collage or frames:N",
    )
    camera: str = Field(
        default="",
        description="camera that the judge gets (default: the best view; a clip judge gets every good one)",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """A rubric and a judge, and the maker of their grades.

    Attributes:
        rubric: The rubric.
        judge: The judge.
        maker: The maker of their grades.
        families_file: The user's table of model families, or "".
    """

    rubric: Rubric
    judge: Judge
    maker: Maker
    families_file: str


@takes_options(GradeOptions)
def make_grade_annotator(options: Options, stores: Stores) -> Annotator:
    """An annotator that grades captions by a rubric.

    Raises:
        RequestError: The rubric or the judge's spec cannot be read, or all captioners are of the judge's model family.
        ModelError: The judge cannot be loaded.
    """
    own = options.parse(GradeOptions)
    rubric = load_rubric(own.rubric)
    judge = _load_judge(options, own, stores, rubric)
    families_file = options.settings.model_families
    captioners = _captioners(stores)
    errors = [kinship_error(judge, maker, families_file) for maker in captioners.values()]
    if errors and errors[0] and all(errors):
        raise errors[0]
    maker = Maker(
        annotator="grade",
        version=_VERSION,
        model=judge.name,
        prompt_hash=short_hash([rubric.hash, judge.prompt_hash, parser_hash()]),
        # A rubric file is known by its content, not by its path: its hash is part of `prompt_hash`.
        settings={
            **own.maker_settings(),
            "rubric": rubric.id,
            "family": judge.family,
            **judge.settings,
        },
        columns=GRADE_COLUMNS,
        kind="model",
        subject_kind="annotation",
        after=_GRADED,
    )
    grader = Grader(rubric=rubric, judge=judge, maker=maker, families_file=families_file)
    return Annotator(
        maker=maker,
        process=lambda works: _process(works, grader, stores),
        select_frames=judge.select_frames,
        needs_signals=True,
        batch_size=judge.batch_size,
        workers=judge.workers,
        call_limit=judge.call_limit,
        preflight=lambda makers: _preflight(grader, stores, makers),
        charges_budget=True,
        estimate=lambda subject: judge.estimate(subject, rubric.criteria),
    )


def _preflight(grader: Grader, stores: Stores, makers: Sequence[Maker]) -> Preflight:
    """Raises RequestError where a captioner of the run is kin of the judge, before a caption is paid."""
    new = [maker for maker in makers if maker.annotator in _GRADED]
    for maker in new:
        error = kinship_error(grader.judge, maker, grader.families_file)
        if error:
            raise error
    captioners = [*_captioners(stores).values(), *new]
    checked = grader.judge.preflight()
    related = kinship_warnings(grader.judge, captioners, grader.families_file)
    return replace(checked, warnings=[*checked.warnings, *related])


def _load_judge(options: Options, own: GradeOptions, stores: Stores, rubric: Rubric) -> Judge:
    spec = options.model or options.settings.judge_model
    if spec.startswith(_CLIP_PREFIX):
        from annotators.grade.probe_judge import ProbeJudge
        from annotators.grade.vocabulary import read_menu
        from annotators.models import load_encoder_for

        encoder = load_encoder_for(spec.removeprefix(_CLIP_PREFIX), options, stores)
        menu = read_menu(stores, store=options.load_models)
        return ProbeJudge(encoder, rubric.probe, menu, own.camera)
    from annotators.grade.claim_judge import MAX_NEW_TOKENS, ClaimJudge
    from annotators.models import load_vlm

    layout = parse_layout(own.layout)
    vlm = load_vlm(spec, options, MAX_NEW_TOKENS, stores)
    return ClaimJudge(vlm, layout, own.camera, options.settings, spec.startswith("openai:"))


def _process(works: Sequence[Work], grader: Grader, stores: Stores) -> list[Outcome]:
    captioners = _captioners(stores)
    captions = [_prepare(work, grader, captioners) for work in works]
    cases = [
        caption.case for caption in captions if isinstance(caption, _PreparedCaption) and caption.is_open
    ]
    judgements = iter(grader.judge.judge(cases))
    results: list[Outcome] = []
    for caption in captions:
        if isinstance(caption, AresError):
            results.append(caption)
            continue
        judgement = next(judgements) if caption.is_open else Judgement(rulings=(), cost=Cost(), paid=Cost())
        results.append(_result(caption, judgement, grader) if isinstance(judgement, Judgement) else judgement)
    return results


@dataclass(frozen=True, slots=True, kw_only=True)
class _PreparedCaption:
    """A caption with the rulings of code, and the case of the criteria that the judge has to rule on."""

    caption: Annotation
    case: Case
    code_rulings: Sequence[Ruling]

    @property
    def is_open(self) -> bool:
        """Whether there is a criterion for the judge."""
        return bool(self.case.criteria)


def _prepare(work: Work, grader: Grader, captioners: dict[str, Maker]) -> _PreparedCaption | AresError:
    caption = work.subject.annotation
    if caption is None:
        raise ValueError(f"a grade needs a caption, but work {work.subject.id} has none")
    maker = captioners.get(caption.maker_id)
    error = kinship_error(grader.judge, maker, grader.families_file) if maker else None
    if error:
        return error
    text = str(caption.value["text"])
    slots = parse_caption(text)
    subject = CheckInput(text=text, slots=slots, trajectory=work.trajectory)
    rulings = {criterion.id: _rule_by_code(criterion, subject) for criterion in grader.rubric.criteria}
    pitfall = _failed_pitfall(grader.rubric, rulings)
    if pitfall:
        # A caption that addresses the judge is not shown to it.
        rulings = {name: ruling or _unsure_after_pitfall(name, pitfall) for name, ruling in rulings.items()}
    open_criteria = [criterion for criterion in grader.rubric.criteria if rulings[criterion.id] is None]
    case = Case(work=work, text=text, slots=slots, criteria=open_criteria)
    code_rulings = [ruling for ruling in rulings.values() if ruling]
    return _PreparedCaption(caption=caption, case=case, code_rulings=code_rulings)


def _rule_by_code(criterion: Criterion, subject: CheckInput) -> Ruling | None:
    """The ruling of code on a criterion, or None where the judge has to rule."""
    if criterion.applies_when == "stated" and not _stated(criterion, subject.slots):
        return Ruling(
            criterion=criterion.id, verdict=Verdict.NA, source="hard", reason="caption does not say"
        )
    outcomes = [CHECKS[name](subject) for name in criterion.hard]
    failed = next((outcome for outcome in outcomes if outcome.verdict is Verdict.UNMET), None)
    if failed:
        return Ruling(
            criterion=criterion.id,
            verdict=Verdict.UNMET,
            source="hard",
            reason=failed.reason,
            observed=failed.observed,
        )
    if criterion.slot or criterion.claim:
        return None
    met = any(outcome.verdict is Verdict.MET for outcome in outcomes)
    verdict, reason = (Verdict.MET, "checked by code") if met else (Verdict.NA, "no check applies")
    return Ruling(criterion=criterion.id, verdict=verdict, source="hard", reason=reason)


def _stated(criterion: Criterion, slots: CaptionSlots) -> bool:
    return criterion.slot is not None and is_stated(criterion.slot, slots)


def _failed_pitfall(rubric: Rubric, rulings: dict[str, Ruling | None]) -> str:
    """Id of a pitfall criterion that the caption does not meet, or ""."""
    for name, category in rubric.categories:
        ruling = rulings[name]
        if category == "pitfall" and ruling and ruling.verdict is Verdict.UNMET:
            return name
    return ""


def _unsure_after_pitfall(name: str, pitfall: str) -> Ruling:
    return Ruling(
        criterion=name, verdict=Verdict.UNSURE, source="hard", reason=f"not asked, {pitfall} is not met"
    )


def _result(prepared: _PreparedCaption, judgement: Judgement, grader: Grader) -> Result:
    rubric = grader.rubric
    by_id = {ruling.criterion: ruling for ruling in (*prepared.code_rulings, *judgement.rulings)}
    rulings = [by_id[name] for name, _ in rubric.categories]
    value: dict[str, Json] = {
        **grade_values(
            [{**by_id[name].to_json(), "category": category} for name, category in rubric.categories]
        ),
        "rubric": rubric.id,
        "rubric_version": rubric.version,
        "rubric_hash": rubric.hash,
        "caption_id": prepared.caption.annotation_id,
    }
    work = prepared.case.work
    seconds = sorted({second for ruling in rulings for second in ruling.evidence})
    cameras = list(grader.judge.select_frames(work.subject))
    camera = cameras[0] if len(cameras) == 1 else ""
    annotation = new_annotation(work, grader.maker, value, camera=camera, frames=seconds, cost=judgement.cost)
    observations = _observations(work, judgement, grader)
    return Result(annotations=[annotation, *observations], paid=judgement.paid)


def _observations(work: Work, judgement: Judgement, grader: Grader) -> list[Annotation]:
    """What the judge saw before it knew the caption: a fact of the segment, which captions of it share."""
    if judgement.observation is None:
        return []
    requested = grader.judge.select_frames(work.subject).values()
    seconds = sorted({second for camera_seconds in requested for second in camera_seconds})
    graded = new_annotation(work, grader.maker, judgement.observation, frames=seconds)
    return [replace(graded, name="observation", subject=segment_id(graded), subject_kind="segment")]


def _captioners(stores: Stores) -> dict[str, Maker]:
    return {key: maker for key, maker in stores.annotations.makers().items() if maker.annotator == "caption"}
