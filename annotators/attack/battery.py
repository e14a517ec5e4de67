"""Attacks a judge with texts of known truth: the sampled episodes, the price, and the run."""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from annotators.attack.grading import TextGrade, grade_texts, make_text_subject, read_episode_work
from annotators.base import Budget
from annotators.grade import GradeAnnotator
from annotators.models import VlmReply, VlmRequest, load_encoder_for, load_vlm
from ares.annotation import Cost
from ares.errors import RequestError
from ares.registry import did_you_mean
from ares.rubric import (
    EXACT,
    FAMILIES,
    AttackCaption,
    AttackResult,
    CaptionAttackReport,
    KnownCaption,
    compose_attack_captions,
    read_paraphrases,
    report_battery,
    shipped_paraphrases,
    split_outcome,
)

if TYPE_CHECKING:
    from pathlib import Path

    from annotators.base import Options, Work
    from ares.episode import Json
    from ares.rubric import FrameChange, Texts
    from ares.store import Stores


_INSTRUCTION = "instruction"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTrueEpisodes:
    """Episodes for the battery, and what it takes to be true of them.

    Attributes:
        captions: What is true, by episode.
        warnings: What a person should know of it.
    """

    captions: Sequence[KnownCaption]
    warnings: Sequence[str]


def sample_known_true_episodes(
    stores: Stores, column: str, where: str, count: int, seed: int
) -> KnownTrueEpisodes:
    """A random sample of the episodes of which something is known.

    Args:
        stores: Stores of the workspace.
        column: Text column with true captions, or "" for the instruction with the outcome of `success`.
        where: SQL filter over the episode columns.
        count: Most episodes.
        seed: Of the sample.

    Raises:
        RequestError: The column does not exist or is no text, the filter is wrong, or no episode has a truth.
    """
    text_column = column or _INSTRUCTION
    columns = stores.tables.episodes.columns()
    if columns.get(text_column) != "string":
        raise RequestError(
            f"no text column {text_column!r}",
            f"{did_you_mean(text_column, columns)}give a text column with true captions",
        )
    known = (
        caption
        for caption in _read_known_captions(stores, text_column, where, bool(column))
        if caption.phrase
    )
    captions = heapq.nsmallest(count, known, key=lambda caption: _seeded_rank(caption.episode_id, seed))
    if not captions:
        raise RequestError(
            "no episode has a truth", f"column {text_column!r} is empty where {where or 'true'}"
        )
    return KnownTrueEpisodes(captions=captions, warnings=_truth_warnings(captions, column))


def _read_known_captions(stores: Stores, column: str, where: str, is_caption: bool) -> Iterator[KnownCaption]:
    for batch in stores.tables.episodes.scan(["episode_id", column, "success"], where):
        for row in batch.to_pylist():
            outcome, phrase = split_outcome(row[column] or "")
            success = row["success"]
            yield KnownCaption(
                episode_id=row["episode_id"],
                phrase=phrase,
                succeeded=outcome == "success" if is_caption and success is None else success,
            )


def _seeded_rank(episode_id: str, seed: int) -> str:
    return hashlib.blake2b(f"{seed} {episode_id}".encode(), digest_size=8).hexdigest()


def _truth_warnings(captions: Sequence[KnownCaption], column: str) -> list[str]:
    warnings = []
    if not column:
        warnings.append(
            "the truth is the instruction and the outcome of each episode: a demonstration may deviate from it; give "
            "--truth COLUMN where people have checked captions"
        )
    unknown = sum(caption.succeeded is None for caption in captions)
    if unknown:
        warnings.append(f"the outcome of {unknown} episodes is not known: no outcome of theirs is flipped")
    return warnings


_CLIP_PREFIX = "clip:"
_MAX_NEW_TOKENS = 8
_QUESTION = (
    "The images are frames of one video, in the order of time. Is this caption true of the video? "
    "Answer yes or no.\nCaption: {caption}"
)
# Whether each text is accepted, None where the model did not answer; and what was paid.
PlainJudge = Callable[["Work", Sequence["AttackCaption"], str], tuple[list[bool | None], Cost]]


def make_judge_without_rubric(options: Options, stores: Stores, spec: str) -> PlainJudge:
    """The judge without its rubric: a plain question, or for a clip judge the similarity alone.

    Similarity has no threshold of its own: a text is accepted where it fits the frames at least as well as the truth.

    Raises:
        ModelError: The model cannot be loaded.
    """
    if spec.startswith(_CLIP_PREFIX):
        return _judge_by_similarity(options, stores, spec.removeprefix(_CLIP_PREFIX))
    return _judge_by_question(options, stores, spec)


def _judge_by_similarity(options: Options, stores: Stores, spec: str) -> PlainJudge:
    encoder = load_encoder_for(spec, options, stores)

    def accept(work: Work, texts: Sequence[AttackCaption], truth: str) -> tuple[list[bool | None], Cost]:
        import numpy as np

        images = np.concatenate(
            [work.frames.at(camera, seconds) for camera, seconds in work.frames.requested.items()]
        )
        frames = encoder.encode_images(list(images)).mean(axis=0)
        *scores, least = encoder.encode_texts([*(text.text for text in texts), truth]) @ frames
        return [bool(score >= least) for score in scores], Cost()

    return accept


def _judge_by_question(options: Options, stores: Stores, spec: str) -> PlainJudge:
    vlm = load_vlm(spec, options, _MAX_NEW_TOKENS, stores)

    def accept(work: Work, texts: Sequence[AttackCaption], truth: str) -> tuple[list[bool | None], Cost]:
        camera, seconds = next(iter(work.frames.requested.items()))
        images = list(work.frames.at(camera, seconds))
        questions = [_QUESTION.format(caption=json.dumps(text.text)) for text in texts]
        replies = vlm.ask([VlmRequest(images=images, prompt=question) for question in questions])
        paid = sum((reply.paid if isinstance(reply, VlmReply) else reply.cost for reply in replies), Cost())
        return [_is_yes(reply.text) if isinstance(reply, VlmReply) else None for reply in replies], paid

    return accept


def _is_yes(reply: str) -> bool:
    return reply.strip().lower().startswith("yes")


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
    report: CaptionAttackReport
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


def quote_caption_attack(stores: Stores, options: Options, request: AttackRequest) -> AttackQuote:
    """What a battery would do and cost; no model is loaded and no server asked. Raises as `run_attack`."""
    sample, batteries = _compose_batteries(stores, request)
    annotator = GradeAnnotator(replace(options, load_models=False), stores)
    cost = Cost()
    for truth, texts in batteries:
        subject = make_text_subject(stores.tables.episodes.get_episode(truth.episode_id), truth.text)
        expected = annotator.estimate(subject)
        calls = max(expected.calls, 1)
        # The plain question is one call more per text; the criteria of a text share its frames.
        factor = len(texts) * (calls + 1) / calls
        cost = cost + expected.scaled(factor)
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
    sample, batteries = _compose_batteries(stores, request)
    options = replace(options, budget=Budget(request.budget_usd))
    annotator = GradeAnnotator(options, stores)
    plain_judge = make_judge_without_rubric(options, stores, options.model or options.settings.judge_model)
    checked = annotator.preflight([])
    graded: list[AttackResult] = []
    paid = checked.cost
    for number, (truth, texts) in enumerate(batteries, 1):
        work = read_episode_work(stores, stores.tables.episodes.get_episode(truth.episode_id), annotator)
        grades = grade_texts(annotator, work, [(text.text, _frame_change(text)) for text in texts])
        unbent = [text for text in texts if _frame_change(text) == "none"]
        answers, plain_cost = plain_judge(work, unbent, truth.text)
        accepted = dict(zip(unbent, answers, strict=True))
        graded += [
            _attack_result(truth, text, grade, accepted.get(text))
            for text, grade in zip(texts, grades, strict=True)
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


def _compose_batteries(
    stores: Stores, request: AttackRequest
) -> tuple[KnownTrueEpisodes, list[tuple[KnownCaption, list[AttackCaption]]]]:
    """The sample, and the texts for each of its episodes."""
    sample = sample_known_true_episodes(stores, request.truth, request.where, request.episodes, request.seed)
    paraphrases = dict(shipped_paraphrases())
    if request.paraphrases:
        paraphrases |= read_paraphrases(request.paraphrases)
    batteries = [
        (truth, _compose_texts(truth, sample.captions, paraphrases, request)) for truth in sample.captions
    ]
    return sample, batteries


def _compose_texts(
    truth: KnownCaption, captions: Sequence[KnownCaption], paraphrases: Texts, request: AttackRequest
) -> list[AttackCaption]:
    others = [other for other in captions if other is not truth]
    texts = compose_attack_captions(truth, others, paraphrases, request.per_family, request.seed)
    return [text for text in texts if not request.families or text.family in request.families]


def _frame_change(text: AttackCaption) -> FrameChange:
    return FAMILIES[text.family].frames


def _attack_result(
    truth: KnownCaption, text: AttackCaption, grade: TextGrade, without_rubric: bool | None
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
