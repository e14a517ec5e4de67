"""Who takes part in a revision: the captioner, the judge and the second judge, and what is asked of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from annotators.caption import CaptionOptions, load_captioner, make_caption_annotator
from annotators.grade import load_rubric, make_grade_annotator
from annotators.revise.anchors import anchor_criteria
from annotators.revise.episodes import find_captioner
from annotators.revise.judging import RevisionJudge, Spent
from annotators.revise.rounds import RevisionJob
from ares.errors import RequestError

if TYPE_CHECKING:
    from annotators.base import Annotator, Options
    from annotators.caption import Captioner
    from ares.annotation import Maker
    from ares.store import Stores

# The first shares and rounds that a user gets without asking.
DEFAULT_ANCHORS, DEFAULT_ROUNDS = 0.33, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRequest:
    """What a revision is to do.

    Attributes:
        rubric: Shipped name or YAML file of the rubric.
        captions: Id of the maker of the captions, or the start of it; "" where there is only one.
        captioner: Spec of its model; "" for the configured one.
        second_judge: Spec of a judge of which nothing is told; "" for none.
        anchors: Share of the criteria of which nothing is told, 0 to 1.
        rounds: Most rounds.
        has_noise_floor: Whether the captions of the first round are also asked again without a critique.
        where: SQL filter over the episode columns.
        limit: Most captions, or None.
        seed: Of the choice of criteria and of the bootstrap.
        budget_usd: Hard stop, or None.
    """

    rubric: str = "caption"
    captions: str = ""
    captioner: str = ""
    second_judge: str = ""
    anchors: float = DEFAULT_ANCHORS
    rounds: int = DEFAULT_ROUNDS
    has_noise_floor: bool = False
    where: str = ""
    limit: int | None = None
    seed: int = 0
    budget_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionParties:
    """Who takes part in a revision: the captioner, also as an annotator for its price, and the judges."""

    captioner: Captioner
    caption_annotator: Annotator
    base: Maker
    graded_by: Maker
    job: RevisionJob

    @property
    def annotators(self) -> list[Annotator]:
        """All that call a model."""
        return [self.caption_annotator, *(judge.annotator for judge in self.job.judges)]


def load_parties(stores: Stores, options: Options, request: RevisionRequest) -> RevisionParties:
    """Load the models of a revision, and find the makers of the captions and grades. Raises as `run_revision`."""
    options = replace(options, values={**options.values, "rubric": request.rubric})
    base = find_captioner(stores, request.captions)
    values = {name: base.settings[name] for name in CaptionOptions.model_fields if name in base.settings}
    own = replace(options, model=request.captioner, values=values)
    captioner = load_captioner(own, stores)
    if options.load_models and captioner.maker.model != base.model:
        raise RequestError(
            "captions are revised by the model that wrote them",
            f"they are by {base.model!r}, the captioner is {captioner.maker.model!r}; give --captioner",
        )
    rubric = load_rubric(request.rubric)
    judge = RevisionJudge(annotator=make_grade_annotator(options, stores))
    second = None
    if request.second_judge:
        annotator = make_grade_annotator(replace(options, model=request.second_judge), stores)
        second = RevisionJudge(annotator=annotator, is_anchor=True)
        if annotator.maker.model == judge.maker.model and options.load_models:
            raise RequestError("the second judge is the first", f"both are {annotator.maker.model!r}")
    budget = options.budget
    job = RevisionJob(
        stores=stores,
        rubric=rubric,
        hidden=anchor_criteria(rubric, request.anchors, request.seed),
        judge=judge,
        second=second,
        spent=Spent(),
        is_stopped=lambda: budget is not None and budget.is_spent,
    )
    return RevisionParties(
        captioner=replace(captioner, maker=base),
        caption_annotator=make_caption_annotator(own, stores),
        base=base,
        graded_by=_graded_by(stores, judge.maker, is_exact=options.load_models),
        job=job,
    )


def _graded_by(stores: Stores, judge: Maker, *, is_exact: bool) -> Maker:
    """The maker of the grades; without models its id is not known, and the last one with the rubric stands for it."""
    makers = stores.annotations.makers()
    if judge.maker_id in makers:
        return judge
    alike = [
        maker
        for maker in makers.values()
        if maker.annotator == judge.annotator
        and maker.prompt_hash == judge.prompt_hash
        and maker.kind == "model"
    ]
    if is_exact or not alike:
        known = "; ".join(
            f"{maker.maker_id} ({maker.model})" for maker in makers.values() if maker.annotator == "grade"
        )
        raise RequestError(
            "no caption was graded by this judge and rubric",
            f"run `ares annotate grade` with it; graded by: {known or 'none'}",
        )
    return alike[-1]
