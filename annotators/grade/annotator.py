"""The annotator `grade`: captions judged by each criterion of a rubric, shipped or the user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

from annotators.base import (
    CameraSeconds,
    Options,
    Outcome,
    PaidFailure,
    Preflight,
    Result,
    Subject,
    Work,
    new_annotation,
)
from annotators.grade.controls import Control, ControlPlan, make_control_value, plan_controls
from annotators.grade.grading import (
    GradedText,
    GradeOutcome,
    Grader,
    StoredOutcomeSource,
    Text,
    grade_texts,
    open_outcome_source,
    refuse_success_in_run,
)
from annotators.grade.judge import Judge
from annotators.grade.observing_judge import ObservingJudge
from annotators.grade.panel import (
    GradeOptions,
    PanelJudge,
    list_judge_specs,
    load_judges,
    model_family_error,
    model_family_warnings,
    panel_members,
    split_criteria,
    sum_judge_resources,
    warn_of_missing_schema,
)
from annotators.options import takes_options
from annotators.success import StoredOutcome
from ares.annotation import Annotation, Cost, Maker, short_hash
from ares.episode import Json
from ares.errors import AresError, RequestError
from ares.registry import did_you_mean
from ares.rubric import (
    CONTROL,
    GRADE_COLUMNS,
    PANEL_COLUMNS,
    Rubric,
    parse_known_text,
    parser_hash,
    slots_from_json,
)

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from ares.store import Stores


def load_rubric(name: str) -> Rubric:
    """A shipped rubric by name, or one in a YAML file. Raises RequestError for an unknown name or a wrong file."""
    from ares.rubric import read_rubric

    if name.endswith((".yaml", ".yml")):
        return read_rubric(Path(name))
    names = list_shipped_rubrics()
    if name not in names:
        raise RequestError(
            f"no rubric {name!r}",
            f"{did_you_mean(name, names)}there are: {', '.join(names)}; or give a YAML file",
        )
    with as_file(_rubric_folder().joinpath(f"{name}.yaml")) as path:
        return read_rubric(path)


def list_shipped_rubrics() -> list[str]:
    """Names of the rubrics that come with ARES, sorted."""
    return sorted(file.name[:-5] for file in _rubric_folder().iterdir() if file.name.endswith(".yaml"))


def _rubric_folder() -> Traversable:
    return files("annotators.grade").joinpath("rubrics")


# Of judges that know the caption always, and of those that observe first.
_VERSION, _OBSERVING_VERSION = "4", "5"
# Annotators whose annotations are graded.
_GRADED = ("caption",)


def _grade_maker(own: GradeOptions, rubric: Rubric, judge: Judge, outcomes: StoredOutcomeSource) -> Maker:
    is_panel = isinstance(judge, PanelJudge)
    is_observing = any(isinstance(member, ObservingJudge) for member in panel_members(judge))
    return Maker(
        annotator="grade",
        version=_OBSERVING_VERSION if is_observing else _VERSION,
        model=judge.name,
        prompt_hash=short_hash([rubric.hash, judge.prompt_hash, parser_hash()]),
        # Rubric, candidates and entailment model are known by their content, not by a path: the hash of the rubric is
        # part of `prompt_hash`, the others of the settings of a judge that has them.
        settings={
            **own.maker_settings(),
            "candidates": "",
            "entailment": "",
            "rubric": rubric.id,
            "family": judge.family,
            **outcomes.maker_settings,
            **judge.settings,
        },
        columns=(*GRADE_COLUMNS, *rubric.verdict_columns, *(PANEL_COLUMNS if is_panel else ())),
        kind="model",
        subject_kind="annotation",
        after=_GRADED,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Caption:
    """A caption to grade, with its controls.

    Attributes:
        annotation: The caption.
        work: The work about it.
        controls: Its controls; most captions have none.
        outcome: The stored outcome of the episode, or None. Controls are judged by it as the caption is, also those on
            changed frames: these test what the judge decides itself.
    """

    annotation: Annotation
    work: Work
    controls: Sequence[Control]
    outcome: StoredOutcome | None

    @property
    def texts(self) -> list[Text]:
        """The caption, then its controls."""
        own = Text(work=self.work, text=str(self.annotation.value["text"]), outcome=self.outcome)
        return [
            own,
            *(Text(work=control.work, text=control.text, outcome=self.outcome) for control in self.controls),
        ]


def _controlled_caption(
    work: Work,
    grader: Grader,
    plan: ControlPlan,
    captioners: dict[str, Maker],
    outcomes: Mapping[str, StoredOutcome],
) -> _Caption | AresError:
    caption = work.subject.annotation
    if caption is None:
        raise ValueError(f"a grade needs a caption, but work {work.subject.id} has none")
    maker = captioners.get(caption.maker_id)
    error = model_family_error(grader.judge, maker, grader.families_file) if maker else None
    if error:
        return error
    outcome = outcomes.get(work.episode.episode_id) if grader.outcomes.may_judge(maker) else None
    text = str(caption.value["text"])
    slots = slots_from_json(caption.value.get("slots")) or parse_known_text(text).slots
    controls = plan.draw(work, slots, text)
    return _Caption(annotation=caption, work=work, controls=controls, outcome=outcome)


def _grading_result(
    caption: _Caption,
    own: GradedText,
    controls: Sequence[GradeOutcome],
    grader: Grader,
) -> Result:
    rubric, work = grader.rubric, caption.work
    value: dict[str, Json] = {
        **own.value,
        "rubric": rubric.id,
        "rubric_version": rubric.version,
        "rubric_hash": rubric.hash,
        "caption_id": caption.annotation.annotation_id,
        **({"success_id": caption.outcome.annotation_id} if caption.outcome else {}),
    }
    if own.judgement.observation_ids:
        value["observation_ids"] = list[Json](own.judgement.observation_ids)
    if isinstance(grader.judge, PanelJudge):
        value["grade_split"] = list[Json](split_criteria(own.rulings))
    seconds = sorted({second for ruling in own.rulings for second in ruling.evidence})
    cameras = list(grader.judge.select_frames(work.subject))
    camera = cameras[0] if len(cameras) == 1 else ""
    cost = own.judgement.cost
    annotation = new_annotation(work, grader.maker, value, camera=camera, frames=seconds, cost=cost)
    observations = _distinct_observations(own, controls)
    side = _control_annotations(caption, own, controls, grader)
    paid = own.judgement.paid + _paid_for_controls(controls)
    return Result(annotations=[annotation, *observations, *side], paid=paid)


def _grading_failure(
    own: PaidFailure | AresError, controls: Sequence[GradeOutcome]
) -> PaidFailure | AresError:
    """The failure of a caption, with what its controls have cost: they are graded again with it."""
    paid = _paid_for_controls(controls)
    if isinstance(own, PaidFailure):
        return PaidFailure(own.error, own.cost + paid)
    return PaidFailure(own, paid) if paid.calls else own


def _control_annotations(
    caption: _Caption,
    own: GradedText,
    controls: Sequence[GradeOutcome],
    grader: Grader,
) -> list[Annotation]:
    """The controls of a caption: a fact about the judge, kept with the episode."""
    if not caption.controls:
        return []
    value = make_control_value(
        own, caption.controls, controls, grader.rubric, str(grader.judge.settings.get("label", ""))
    )
    cost = sum((graded.judgement.cost for graded in controls if isinstance(graded, GradedText)), Cost())
    annotation = new_annotation(caption.work, grader.maker, value, cost=cost)
    part, episode_id = caption.annotation.annotation_id, caption.work.episode.episode_id
    return [replace(annotation, name=CONTROL, subject=episode_id, subject_kind="episode", part=part)]


def _paid_for_controls(graded: Sequence[GradeOutcome]) -> Cost:
    """What was paid now for controls, failed ones included."""
    costs = [
        item.judgement.paid if isinstance(item, GradedText) else item.cost
        for item in graded
        if not isinstance(item, AresError)
    ]
    return sum(costs, Cost())


def _distinct_observations(own: GradedText, controls: Sequence[GradeOutcome]) -> list[Annotation]:
    """What judges saw before they knew the caption or a control of it: facts of the segment, each once."""
    graded = [own, *(item for item in controls if isinstance(item, GradedText))]
    observations = [annotation for item in graded for annotation in item.judgement.observations]
    return list({annotation.annotation_id: annotation for annotation in observations}.values())


def _caption_makers(stores: Stores) -> dict[str, Maker]:
    return {key: maker for key, maker in stores.annotations.makers().items() if maker.annotator == "caption"}


@takes_options(GradeOptions)
class GradeAnnotator:
    """Grades captions by a rubric.

    Raises:
        RequestError: The rubric or the judge's spec cannot be read, or all captioners are of the judge's model family.
        ModelError: The judge cannot be loaded.
    """

    needs_signals = True
    charges_budget = True

    def __init__(self, options: Options, stores: Stores) -> None:
        own = options.parse(GradeOptions)
        rubric, specs = load_rubric(own.rubric), list_judge_specs(options, own)
        judge = load_judges(specs, options, own, stores, rubric)
        families_file = options.settings.model_families
        captioners = _caption_makers(stores).values()
        errors = [model_family_error(judge, maker, families_file) for maker in captioners]
        if errors and errors[0] and all(errors):
            raise errors[0]
        outcomes = open_outcome_source(stores, rubric, families_file)
        self.maker = _grade_maker(own, rubric, judge, outcomes)
        self._grader = Grader(
            rubric=rubric, judge=judge, maker=self.maker, families_file=families_file, outcomes=outcomes
        )
        self._stores = stores
        self._plan = plan_controls(
            stores, options.planned_episodes, maker_id=self.maker.maker_id, calibrate=own.calibrate
        )
        self.batch_size, self.workers, self.call_limit = judge.batch_size, judge.workers, judge.call_limit
        self.warnings, self.needs = warn_of_missing_schema(judge, own), sum_judge_resources(specs)
        self.side_makers = judge.observation_makers
        self.side_names = (CONTROL, *{maker.annotator for maker in self.side_makers})

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """The frames of a caption that its judge gets."""
        return self._grader.judge.select_frames(subject)

    def preflight(self, makers: Sequence[Maker]) -> Preflight:
        """Raises RequestError where the run makes success, or captions by kin of the judge."""
        grader = self._grader
        refuse_success_in_run(makers)
        new = [maker for maker in makers if maker.annotator in _GRADED]
        for maker in new:
            error = model_family_error(grader.judge, maker, grader.families_file)
            if error:
                raise error
        captioners = [*_caption_makers(self._stores).values(), *new]
        checked = grader.judge.preflight()
        related = model_family_warnings(grader.judge, captioners, grader.families_file)
        outcomes = grader.outcomes.warnings(grader.rubric, captioners)
        return replace(checked, warnings=[*checked.warnings, *related, *outcomes])

    def estimate(self, subject: Subject) -> Cost:
        """The expected cost of a caption, with its share of the controls."""
        judge, plan = self._grader.judge, self._plan
        texts = judge.estimate(subject, self._grader.rubric.criteria).scaled(1 + plan.expected(subject))
        changed = judge.estimate_changed_frames(subject).scaled(plan.expected_changed_frames(subject))
        return texts + changed + judge.estimate_observation(subject)

    def process(self, works: Sequence[Work]) -> list[Outcome]:
        """One grade per work about a caption, with its controls; the texts of all are graded together."""
        grader, captioners = self._grader, _caption_makers(self._stores)
        outcomes = grader.outcomes.read(works)
        captions = [_controlled_caption(work, grader, self._plan, captioners, outcomes) for work in works]
        texts = [text for caption in captions if isinstance(caption, _Caption) for text in caption.texts]
        graded = iter(grade_texts(grader, texts))
        results: list[Outcome] = []
        for caption in captions:
            if isinstance(caption, AresError):
                results.append(caption)
                continue
            own, *controls = [next(graded) for _ in caption.texts]
            results.append(
                _grading_result(caption, own, controls, grader)
                if isinstance(own, GradedText)
                else _grading_failure(own, controls)
            )
        return results
