"""The attack battery on the episodes of a workspace: its price, and its run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from annotators.attack.grading import TextGrade, grade_texts, read_episode_work, text_subject
from annotators.attack.plain_judge import make_plain_judge
from annotators.attack.truths import TruthSample, sample_truths
from annotators.budget import Budget
from annotators.grade import make_grade_annotator
from ares.annotation import Cost
from ares.errors import RequestError
from ares.rubric.attacks import (
    EXACT,
    FAMILIES,
    AttackResult,
    AttackText,
    BatteryReport,
    KnownCaption,
    compose_battery,
    read_paraphrases,
    report_battery,
    shipped_paraphrases,
)

if TYPE_CHECKING:
    from pathlib import Path

    from annotators.base import Options
    from ares.episode import Json
    from ares.rubric.attacks import FrameChange, Texts
    from ares.store import Stores


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackRequest:
    """What the battery is to do.

    Attributes:
        truth: Text column with true captions, or "" for the instruction.
        where: SQL filter over the episode columns.
        episodes: Most episodes.
        per_family: Most texts of a family in one episode.
        seed: Of the sample and of the texts.
        paraphrases: YAML file with true paraphrases by caption, beside those that come with ARES; None for these alone.
        families: Names of the families to compose; empty for all.
        budget_usd: Hard stop, or None.
    """

    truth: str = ""
    where: str = ""
    episodes: int
    per_family: int
    seed: int
    paraphrases: Path | None = None
    families: Sequence[str] = ()
    budget_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackQuote:
    """What a battery would do and cost, at most: replies that were kept cost nothing.

    Attributes:
        judge: Name of the judge.
        episodes: Number of episodes.
        texts: Number of texts.
        cost: Expected cost.
        warnings: What a person should know.
    """

    judge: str
    episodes: int
    texts: int
    cost: Cost
    warnings: Sequence[str]

    def to_json(self) -> dict[str, Json]:
        """The quote as a document."""
        return {
            "judge": self.judge,
            "episodes": self.episodes,
            "texts": self.texts,
            **asdict(self.cost),
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackRun:
    """What a battery has shown.

    Attributes:
        judge: Name of the judge.
        grader: Id of the maker whose grades these texts would have got.
        seed: Seed of the sample and of the texts.
        report: Its results.
        graded: Every text with its grade.
        cost: What was paid.
        warnings: What a person should know.
    """

    judge: str
    grader: str
    seed: int
    report: BatteryReport
    graded: Sequence[AttackResult]
    cost: Cost
    warnings: Sequence[str]

    def to_json(self) -> dict[str, Json]:
        """The run as a document, with the texts that were graded."""
        return {
            "judge": self.judge,
            "grader": self.grader,
            "seed": self.seed,
            **self.report.to_json(),
            "cost": asdict(self.cost),
            "warnings": list(self.warnings),
            "accepted_falsehoods": [
                {"family": text.family, "episode_id": text.episode_id, "text": text.text}
                for text in self.graded
                if text.is_accepted and not FAMILIES[text.family].is_true
            ],
        }


def quote_attack(stores: Stores, options: Options, request: AttackRequest) -> AttackQuote:
    """What a battery would do and cost; no model is loaded and no server asked. Raises as `run_attack`."""
    sample, batteries = _compose(stores, request)
    annotator = make_grade_annotator(replace(options, load_models=False), stores)
    cost = Cost()
    for truth, texts in batteries:
        subject = text_subject(stores.tables.episodes.get_episode(truth.episode_id), truth.text)
        expected = annotator.estimate(subject)
        calls = max(expected.calls, 1)
        # The plain question is one call more per text; the criteria of a text share its frames.
        factor = len(texts) * (calls + 1) / calls
        cost = cost + _scaled(expected, factor)
    return AttackQuote(
        judge=annotator.maker.model,
        episodes=len(batteries),
        texts=sum(len(texts) for _, texts in batteries),
        cost=cost,
        warnings=sample.warnings,
    )


def run_attack(
    stores: Stores, options: Options, request: AttackRequest, advance: Callable[[int, int], None]
) -> AttackRun:
    """Run the battery. Replies are kept and money is booked as in a run; no grade is stored.

    Args:
        stores: Stores of the workspace.
        options: The judge, and values of the options of `grade`.
        request: What to do.
        advance: Called after each episode with the number that is done and that of all.

    Raises:
        RequestError: No episode has a truth, or an option is wrong.
        ModelError: The judge cannot be loaded or does not answer.
    """
    if request.budget_usd is not None and options.settings.price is None:
        raise RequestError("a budget needs a price", "set ARES_PRICE=IN,OUT in US dollars per million tokens")
    sample, batteries = _compose(stores, request)
    options = replace(options, budget=Budget(request.budget_usd))
    annotator = make_grade_annotator(options, stores)
    plain_judge = make_plain_judge(options, stores, options.model or options.settings.judge_model)
    checked = annotator.preflight([])
    graded: list[AttackResult] = []
    paid = checked.cost
    for number, (truth, texts) in enumerate(batteries, 1):
        work = read_episode_work(stores, stores.tables.episodes.get_episode(truth.episode_id), annotator)
        grades = grade_texts(annotator, work, [(text.text, _change(text)) for text in texts])
        unbent = [text for text in texts if _change(text) == "none"]
        answers, plain_cost = plain_judge(work, unbent, truth.text)
        accepted = dict(zip(unbent, answers, strict=True))
        graded += [
            _graded(truth, text, grade, accepted.get(text)) for text, grade in zip(texts, grades, strict=True)
        ]
        paid = sum((grade.cost for grade in grades), paid + plain_cost)
        advance(number, len(batteries))
    return AttackRun(
        judge=annotator.maker.model,
        grader=annotator.maker.maker_id,
        seed=request.seed,
        report=report_battery(graded),
        graded=graded,
        cost=paid,
        warnings=[*sample.warnings, *annotator.warnings, *checked.warnings],
    )


def _compose(
    stores: Stores, request: AttackRequest
) -> tuple[TruthSample, list[tuple[KnownCaption, list[AttackText]]]]:
    """The sample, and the texts for each of its episodes."""
    sample = sample_truths(stores, request.truth, request.where, request.episodes, request.seed)
    paraphrases = dict(shipped_paraphrases())
    if request.paraphrases:
        paraphrases |= read_paraphrases(request.paraphrases)
    batteries = [
        (truth, _compose_texts(truth, sample.captions, paraphrases, request)) for truth in sample.captions
    ]
    return sample, batteries


def _compose_texts(
    truth: KnownCaption, captions: Sequence[KnownCaption], paraphrases: Texts, request: AttackRequest
) -> list[AttackText]:
    others = [other for other in captions if other is not truth]
    texts = compose_battery(truth, others, paraphrases, request.per_family, request.seed)
    return [text for text in texts if not request.families or text.family in request.families]


def _change(text: AttackText) -> FrameChange:
    return FAMILIES[text.family].frames


def _graded(
    truth: KnownCaption, text: AttackText, grade: TextGrade, without_rubric: bool | None
) -> AttackResult:
    return AttackResult(
        family=text.family,
        text=text.text,
        episode_id=truth.episode_id,
        grade=grade.grade,
        score=grade.score,
        verdicts=grade.verdicts,
        without_rubric=without_rubric if text.family != EXACT else None,
    )


def _scaled(cost: Cost, factor: float) -> Cost:
    return Cost(
        calls=round(cost.calls * factor),
        tokens_in=round(cost.tokens_in * factor),
        tokens_out=round(cost.tokens_out * factor),
        usd=None if cost.usd is None else cost.usd * factor,
    )
