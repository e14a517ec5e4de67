"""Runs a revision while hidden criteria improve: what it would cost, its rounds, and what they have shown."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from annotators.base import Budget, make_episode_subject
from annotators.caption import CaptionAnnotator, CaptionOptions, load_captioner
from annotators.grade import GradeAnnotator, load_rubric
from annotators.revise.new_captions import Proposer, find_failed_criteria, make_revision_captioner
from annotators.revise.rounds import (
    GradedCaption,
    Revised,
    RevisionJob,
    RevisionJudge,
    Spent,
    choose_hidden_criteria,
    compare_acceptance,
    compare_hidden_criteria,
    compare_second_judge,
    find_captioner,
    is_improvement_shown,
    meets_all_criteria,
    read_graded_captions,
    revise_captions,
)
from ares.annotation import Cost
from ares.errors import RequestError
from ares.jobs import Progress, record_job
from ares.review import compare_producers

if TYPE_CHECKING:
    from annotators.base import Options
    from annotators.caption import Captioner
    from ares.annotation import Cost, Producer
    from ares.episode import Json
    from ares.review import ProducerComparison
    from ares.statistics import PairedDifference
    from ares.store import Stores


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionQuote:
    """What a revision would do, and cost if all rounds are run: kept replies cost nothing, and rounds may stop early.

    Attributes:
        captions: Captions with a grade.
        refused: Those that would be asked again in the first round.
        hidden: Criteria of which no captioner is told.
        rounds: Most rounds.
        first_round: Expected cost of the first round.
        cost: Cost of all rounds, each with as many captions as the first.
    """

    captions: int
    refused: int
    hidden: Sequence[str]
    rounds: int
    first_round: Cost
    cost: Cost

    def to_json(self) -> dict[str, Json]:
        """The quote as a document."""
        counts: dict[str, Json] = {"captions": self.captions, "refused": self.refused, "rounds": self.rounds}
        return {
            **counts,
            "hidden": list(self.hidden),
            "first_round": asdict(self.first_round),
            **asdict(self.cost),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRound:
    """One round: refused captions before, and what the captioner made of them.

    Attributes:
        number: Number of the round, from 1.
        refused: Captions that were asked again.
        compared: Those of them that have all their grades before and after.
        changed: Those of them whose words are others now.
        hidden_met: Compared captions that met all hidden criteria before: these cannot improve.
        judge: How much more often the judge accepts them; None where nothing could be compared.
        anchors: How much more often they meet all criteria of which the captioner was not told.
        second_judge: How much more often the second judge accepts them; None without one.
        is_adopted: Whether its captions are shown now.
    """

    number: int
    refused: int
    compared: int
    changed: int
    hidden_met: int
    judge: PairedDifference | None
    anchors: PairedDifference | None
    second_judge: PairedDifference | None
    is_adopted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRun:
    """What a revision has done and shown.

    Attributes:
        first: Producer of the captions that were revised.
        second: Producer of the revised captions.
        judge: Producer of the grades.
        hidden: Criteria of which the captioner was not told.
        captions: Captions with a grade.
        rounds: Its rounds.
        stopped: Why there is no further round.
        ended_by: "budget" or "server" where that ended it before all was done, else "".
        noise: How much more often the judge accepts captions that were asked again without a critique; or None.
        comparison: All captions before and after, as `ares rubric compare` says it; None where no round was adopted.
        failures: Number of failures by reason.
        cost: What was paid.
        warnings: What a person should know.
    """

    first: str
    second: str
    judge: str
    hidden: Sequence[str]
    captions: int
    rounds: Sequence[RevisionRound]
    stopped: str
    ended_by: str
    noise: PairedDifference | None
    comparison: ProducerComparison | None
    failures: Mapping[str, int]
    cost: Cost
    warnings: Sequence[str]

    def to_json(self) -> dict[str, Json]:
        """The run as a document."""
        document: dict[str, Json] = {
            "first": self.first,
            "second": self.second,
            "judge": self.judge,
            "hidden": list(self.hidden),
            "captions": self.captions,
            "rounds": [asdict(item) for item in self.rounds],
            "stopped": self.stopped,
            "ended_by": self.ended_by,
            "noise": asdict(self.noise) if self.noise else None,
            "comparison": self.comparison.to_json() if self.comparison else None,
            "failures": dict(self.failures),
            "cost": asdict(self.cost),
            "warnings": list(self.warnings),
        }
        return document


# The first shares and rounds that a user gets without asking.
DEFAULT_ANCHORS, DEFAULT_ROUNDS = 0.33, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRequest:
    """What a revision is to do.

    Attributes:
        rubric: Shipped name or YAML file of the rubric.
        captions: Id of the producer of the captions, or the start of it; "" where there is only one.
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
class ReviserAndJudges:
    """Who takes part in a revision: the captioner, also as an annotator for its price, and the judges."""

    captioner: Captioner
    caption_annotator: CaptionAnnotator
    base: Producer
    graded_by: Producer
    job: RevisionJob

    @property
    def annotators(self) -> list[CaptionAnnotator | GradeAnnotator]:
        """All that call a model."""
        return [self.caption_annotator, *(judge.annotator for judge in self.job.judges)]


def load_reviser_and_judges(stores: Stores, options: Options, request: RevisionRequest) -> ReviserAndJudges:
    """Load the models of a revision, and find the producers of the captions and grades. Raises as `run_revision`."""
    options = replace(options, values={**options.values, "rubric": request.rubric})
    base = find_captioner(stores, request.captions)
    values = {name: base.settings[name] for name in CaptionOptions.model_fields if name in base.settings}
    values["verbs"] = options.values.get("verbs", "")
    captioner_options = replace(options, model=request.captioner, values=values)
    captioner = load_captioner(captioner_options, stores)
    _check_captioner(captioner.producer, base, is_loaded=options.load_models)
    rubric = load_rubric(request.rubric)
    judge = RevisionJudge(annotator=GradeAnnotator(options, stores))
    second = None
    if request.second_judge:
        annotator = GradeAnnotator(replace(options, model=request.second_judge), stores)
        second = RevisionJudge(annotator=annotator, is_anchor=True)
        if annotator.producer.model == judge.producer.model and options.load_models:
            raise RequestError("the second judge is the first", f"both are {annotator.producer.model!r}")
    budget, spent = options.budget, Spent()
    job = RevisionJob(
        stores=stores,
        rubric=rubric,
        hidden=choose_hidden_criteria(rubric, request.anchors, request.seed),
        judge=judge,
        second=second,
        spent=spent,
        is_stopped=lambda: bool(spent.server) or (budget is not None and budget.is_spent),
    )
    return ReviserAndJudges(
        captioner=replace(captioner, producer=base),
        caption_annotator=CaptionAnnotator(captioner_options, stores),
        base=base,
        graded_by=_graded_by(stores, judge.producer, is_exact=options.load_models),
        job=job,
    )


def _check_captioner(captioner: Producer, base: Producer, *, is_loaded: bool) -> None:
    """Raises RequestError where the captions were written by another model, or with another guide of verbs."""
    if is_loaded and captioner.model != base.model:
        raise RequestError(
            "captions are revised by the model that wrote them",
            f"they are by {base.model!r}, the captioner is {captioner.model!r}; give --captioner",
        )
    known = base.settings.get("verbs_hash")
    if known and known != captioner.settings["verbs_hash"]:
        raise RequestError(
            "captions are revised with the verbs that they were written with",
            "give their guide of verbs by --verbs FILE, or none where they have the shipped one",
        )


def _graded_by(stores: Stores, judge: Producer, *, is_exact: bool) -> Producer:
    """The producer of the grades; without models its id is unknown, and the last one with the rubric stands for it."""
    producers = stores.annotations.producers()
    if judge.maker_id in producers:
        return judge
    alike = [
        producer
        for producer in producers.values()
        if producer.annotator == judge.annotator
        and producer.prompt_hash == judge.prompt_hash
        and producer.kind == "model"
    ]
    if is_exact or not alike:
        known = "; ".join(
            f"{producer.maker_id} ({producer.model})"
            for producer in producers.values()
            if producer.annotator == "grade"
        )
        raise RequestError(
            "no caption was graded by this judge and rubric",
            f"run `ares annotate grade` with it; graded by: {known or 'none'}",
        )
    return alike[-1]


def quote_revision(stores: Stores, options: Options, request: RevisionRequest) -> RevisionQuote:
    """What a revision would do and cost; no model is loaded and no server asked. Raises as `run_revision`."""
    stores.sync()
    parties = load_reviser_and_judges(stores, replace(options, load_models=False), request)
    captions = _read_captions(stores, parties, request)
    refused = list(_refused_captions(captions, parties.job))
    first, later = Cost(), Cost()
    for item in refused:
        subject = make_episode_subject(stores.tables.episodes.get_episode(item.caption.episode_id))
        costs = [annotator.estimate(subject) for annotator in parties.annotators]
        later = sum(costs, later)
        # The second judge has not seen the captions before.
        first = sum([*costs, *costs[2:], *(costs if request.has_noise_floor else ())], first)
    return RevisionQuote(
        captions=len(captions),
        refused=len(refused),
        hidden=parties.job.hidden,
        rounds=request.rounds,
        first_round=first,
        cost=sum([later] * (request.rounds - 1), first),
    )


def run_revision(
    stores: Stores, options: Options, request: RevisionRequest, *, quiet: bool = False
) -> RevisionRun:
    """Run rounds of critique until the anchors improve no longer; the captions of rounds that improved are shown.

    Replies are kept, money is booked and captions are stored as in every run: an interrupted revision goes on where
    it was.

    Args:
        stores: Stores of the workspace.
        options: The judge whose grades are told, and values of the options of `grade`.
        request: What to do.
        quiet: Show no progress.

    Raises:
        RequestError: No caption was graded by this judge and rubric, a producer is not known, or an option is wrong.
        ModelError: A model cannot be loaded or does not answer.
    """
    if request.budget_usd is not None and options.settings.price is None:
        raise RequestError("a budget needs a price", "set ARES_PRICE=IN,OUT in US dollars per million tokens")
    options = replace(options, budget=Budget(request.budget_usd))
    with stores.write_lock("ares rubric revise"):
        stores.sync()
        parties = load_reviser_and_judges(stores, options, request)
        captions = _read_captions(stores, parties, request)
        warnings = list(_preflight_annotators(parties))
        for producer in _revision_producers(parties):
            stores.annotations.add_producer(producer)
        run = _run_rounds(stores, parties, request, captions, warnings, quiet)
        record_job(stores.annotations, "rubric revise", run.to_json())
    return run


def _read_captions(
    stores: Stores, parties: ReviserAndJudges, request: RevisionRequest
) -> list[GradedCaption]:
    captions = list(
        read_graded_captions(stores, parties.base, parties.graded_by, request.where, request.limit)
    )
    if not captions:
        raise RequestError(
            "no caption was graded by this judge and rubric",
            "run `ares annotate caption` and `ares annotate grade`",
        )
    return captions


def _refused_captions(captions: Sequence[GradedCaption], job: RevisionJob) -> Iterator[GradedCaption]:
    """Captions that fail a gate of which the captioner may be told."""
    return (item for item in captions if find_failed_criteria(item.grade, job.rubric, job.hidden))


def _preflight_annotators(parties: ReviserAndJudges) -> Iterator[str]:
    """Call each model once; yields what a person should know."""
    for annotator in parties.annotators:
        learnt = annotator.preflight([])
        parties.job.spent.cost = parties.job.spent.cost + learnt.cost
        yield from (*annotator.warnings, *learnt.warnings)


def _revision_proposer(parties: ReviserAndJudges, *, has_critique: bool) -> Proposer:
    job = parties.job
    return make_revision_captioner(
        parties.captioner, job.judge.producer, job.hidden, has_critique=has_critique
    )


def _revision_producers(parties: ReviserAndJudges) -> Iterator[Producer]:
    for has_critique in (True, False):
        proposer = _revision_proposer(parties, has_critique=has_critique)
        yield from (proposer.producer, proposer.proposal_producer)
    for judge in parties.job.judges:
        yield from (judge.producer, *judge.annotator.side_producers)


def _run_rounds(
    stores: Stores,
    parties: ReviserAndJudges,
    request: RevisionRequest,
    captions: Sequence[GradedCaption],
    warnings: Sequence[str],
    quiet: bool,
) -> RevisionRun:
    job, proposer = parties.job, _revision_proposer(parties, has_critique=True)
    refused = list(_refused_captions(captions, job))
    rounds, stopped = _improve_in_rounds(job, proposer, refused, request, quiet)
    is_adopted = any(item.is_adopted for item in rounds)
    first, second, judge = parties.base.maker_id, proposer.producer.maker_id, job.judge.producer.maker_id
    noise = _measure_noise(parties, refused, request, quiet) if request.has_noise_floor else None
    return RevisionRun(
        first=first,
        second=second,
        judge=judge,
        hidden=job.hidden,
        captions=len(captions),
        rounds=rounds,
        stopped=stopped,
        ended_by="" if not job.is_stopped() else "server" if job.spent.server else "budget",
        noise=noise,
        comparison=compare_producers(
            stores, first, second, judge=judge, where=request.where, seed=request.seed
        )
        if is_adopted
        else None,
        failures=job.spent.failures,
        cost=job.spent.cost,
        warnings=warnings,
    )


def _improve_in_rounds(
    job: RevisionJob,
    proposer: Proposer,
    refused: Sequence[GradedCaption],
    request: RevisionRequest,
    quiet: bool,
) -> tuple[list[RevisionRound], str]:
    """The rounds, and why there is no further one; the captions of each that is an improvement are stored."""
    rounds: list[RevisionRound] = []
    while refused:
        number = len(rounds) + 1
        if number > request.rounds:
            return rounds, f"{request.rounds} rounds were asked for"
        revised = _ask_again(job, proposer, refused, number, quiet)
        latest = _measure_round(job, number, refused, revised, request.seed)
        stopped = _stop_reason(job, latest)
        rounds.append(replace(latest, is_adopted=not stopped))
        if stopped:
            return rounds, stopped
        _store_adopted_captions(job.stores, revised)
        refused = list(_refused_captions([item.after for item in revised], job))
    return rounds, "no caption fails a criterion of which the captioner may be told"


def _measure_noise(
    parties: ReviserAndJudges, refused: Sequence[GradedCaption], request: RevisionRequest, quiet: bool
) -> PairedDifference | None:
    """How much more often the judge accepts captions that were asked again without a critique."""
    plain = _revision_proposer(parties, has_critique=False)
    return compare_acceptance(_ask_again(parties.job, plain, refused, 1, quiet), request.seed)


def _ask_again(
    job: RevisionJob, proposer: Proposer, refused: Sequence[GradedCaption], number: int, quiet: bool
) -> list[Revised]:
    label = f"revise, round {number}" if proposer.has_critique else "ask again without a critique"
    progress = Progress(label, len(refused), None if quiet else sys.stderr)
    try:
        return revise_captions(job, proposer, refused, number, progress.advance)
    finally:
        progress.close()


def _measure_round(
    job: RevisionJob, number: int, refused: Sequence[GradedCaption], revised: Sequence[Revised], seed: int
) -> RevisionRound:
    return RevisionRound(
        number=number,
        refused=len(refused),
        compared=len(revised),
        changed=sum(item.is_changed for item in revised),
        hidden_met=sum(meets_all_criteria(item.before.verdicts, job.hidden) for item in revised),
        judge=compare_acceptance(revised, seed),
        anchors=compare_hidden_criteria(revised, job.hidden, seed),
        second_judge=compare_second_judge(revised, seed),
        is_adopted=False,
    )


def _stop_reason(job: RevisionJob, latest: RevisionRound) -> str:
    """Why a round is the last, and its captions are not shown; "" where it is an improvement."""
    if job.is_stopped():
        return job.spent.server or "the budget is spent; with a larger one the same command goes on"
    if latest.judge is None or latest.anchors is None:
        return "no caption could be compared"
    if not latest.changed:
        return "the captioner changed nothing"
    # Criteria that are hidden, but ruled on by the judge that is to be pleased, weigh less than a judge that is not.
    evidence = latest.second_judge or latest.anchors
    if is_improvement_shown(evidence) and latest.anchors.high >= 0:
        return ""
    name = "the second judge does not accept more" if latest.second_judge else _hidden_reason(latest)
    if is_improvement_shown(latest.judge):
        return f"{name}, although the judge accepts more: the captioner may please the judge"
    return name


def _hidden_reason(latest: RevisionRound) -> str:
    """Why the hidden criteria speak for no further round."""
    if latest.hidden_met == latest.compared:
        return "all captions met the hidden criteria before: only a second judge can show an improvement"
    return "the hidden criteria are not met more often"


def _store_adopted_captions(stores: Stores, revised: Sequence[Revised]) -> None:
    """Store the captions of a round; their grades are stored under their ids already."""
    stores.annotations.append([item.after.caption for item in revised if item.is_changed])
    stores.sync()
