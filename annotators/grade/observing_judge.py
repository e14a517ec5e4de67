"""A judge that gets no caption: it looks first; two values of a slot are compared, and a choice is asked blindly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from annotators.base import CameraSeconds, PaidFailure, Preflight, Subject
from annotators.grade.call_costs import CallRates, CallTotals
from annotators.grade.judge import GradeCase, ImagesForJudge, JudgeFrames, Judgement
from annotators.grade.observation import LEAST_CONFIDENCE
from annotators.grade.pair_answers import PairAnswers, TextModel, ask_once
from annotators.grade.questions import (
    ImageEvidence,
    ValuePair,
    bare_value,
    make_pair,
    parse_comparison,
    questions_hash,
)
from annotators.grade.segment_observer import (
    ObservationOutcome,
    SegmentObserver,
    WorkObservation,
    shared_frames_key,
)
from annotators.grade.settlement import NextQuestion, RivalChooser, SlotSettlement
from annotators.models import (
    Vlm,
    VlmReply,
    VlmRequest,
    call_limit,
)
from ares.annotation import Producer, short_hash
from ares.episode import Json
from ares.errors import AresError
from ares.rubric import SlotName, is_same_value

_CAPTIONS_TOGETHER = 32
# Before anything was measured: calls for one caption, and tokens of a call.
_DEFAULT_CALLS: Mapping[str, float] = {"comparison": 0.12, "choice": 0.25, "words": 0.08}
_TEXT_TOKENS: Mapping[str, tuple[int, int]] = {"comparison": (290, 20), "words": (280, 8)}
_FRAME_TOKENS: Mapping[str, tuple[int, int]] = {"choice": (260, 15), "question": (230, 30)}
# Calls that fill the slots of one sentence that has none, and their tokens.
_SLOTS = CallTotals(0.27, 250, 55)


class ObservingJudge:
    """Observation first, then slot by slot; fills the protocol `annotators.grade.judge.Judge`.

    No request holds the sentence of a caption, and none says who claims what.

    Args:
        vlm: The model that gets frames.
        observer: The same model, which observes before anything is known of a caption.
        frames: Which frames it gets.
        texts: The model of texts, which gets no frames.
        pairs: What it says of two values; their words get those of its observations.
        choose_rival: Chooses another value of a slot where the observation has none.
        questions: Criteria of the rubric that are about no slot.
    """

    reads_slots = True

    def __init__(
        self,
        vlm: Vlm,
        observer: SegmentObserver,
        frames: JudgeFrames,
        texts: TextModel,
        pairs: PairAnswers,
        choose_rival: RivalChooser,
        questions: int,
    ) -> None:
        self._vlm, self._observer, self._frames, self._texts = vlm, observer, frames, texts
        self._pairs, self._choose_rival, self._questions = pairs, choose_rival, questions
        self._has_schema = "schema" in vlm.capabilities
        self.name, self.family = vlm.name, vlm.family
        self.text_vlm: Vlm | None = texts.vlm
        # The captions of a batch share the calls that compare their values.
        self.batch_size, self.workers = max(vlm.batch_size, _CAPTIONS_TOGETHER), vlm.workers
        self.prompt_hash = short_hash([observer.prompt_hash, questions_hash()])
        self.observation_producers: Sequence[Producer] = [observer.producer]
        self.settings: Mapping[str, Json] = {
            **vlm.settings,
            **texts.settings,
            "has_schema": self._has_schema,
            "observation": observer.producer.maker_id,
            "least_confidence": LEAST_CONFIDENCE,
        }

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """The frames of the observation, which are those of the choices."""
        return self._frames.select(subject)

    def expect_calls(self, subject: Subject) -> CallRates:
        """One observation, and what most captions leave to ask."""
        images = self._observer.expect_image_tokens(subject)
        calls = {**_DEFAULT_CALLS, "question": float(self._questions)}
        text = {name: CallTotals(1, *tokens).scaled(calls[name]) for name, tokens in _TEXT_TOKENS.items()}
        frames = {
            name: CallTotals(1, images + tokens_in, tokens_out).scaled(calls[name])
            for name, (tokens_in, tokens_out) in _FRAME_TOKENS.items()
        }
        is_typed = subject.annotation is None or bool(subject.annotation.value.get("slots"))
        slots = {} if is_typed else {"slots": _SLOTS}
        return {"observation": self._observer.expect_call(subject), **text, **frames, **slots}  # type: ignore[dict-item]

    @property
    def call_limit(self) -> Callable[[], int] | None:
        """Enough batches of cases that the server is busy while most of them wait for their one observation."""
        limit = call_limit(self._vlm, float(self.batch_size))
        return None if limit is None else lambda: max(1, limit() - 1)

    def preflight(self) -> Preflight:
        """One observation of frames without content, and a question to the model of texts where that is another one."""
        checked = self._observer.preflight()
        if self._texts.settings["text_model"] == self.name:
            return checked
        compared = self._texts.preflight()
        return Preflight(cost=checked.cost + compared.cost, warnings=[*checked.warnings, *compared.warnings])

    def judge(self, cases: Sequence[GradeCase]) -> Sequence[Judgement | PaidFailure | AresError]:
        """Rulings: all cases are observed at once, then each of them is asked its next question, round by round."""
        captions = [self._open(case) for case in cases]
        observed = [caption for caption in captions if caption.needs_observation]
        around = [caption.neighbours for caption in observed]
        works = [item.work for neighbours in around for item in neighbours]
        outcomes = iter(self._observer.observe([*(caption.case.work for caption in observed), *works]))
        caption_outcomes = [next(outcomes) for _ in observed]
        for caption, outcome, neighbours in zip(observed, caption_outcomes, around, strict=True):
            caption.see(outcome, [(item, next(outcomes)) for item in neighbours])
        self._learn_words(observed, caption_outcomes)
        for caption in captions:
            caption.rule_on_words(self._pairs.words.known_words)
        self._compare_plain_values(captions)
        for caption in captions:
            caption.rule_on_segments(self._is_same)
        while questions := [
            (caption, question) for caption in captions if (question := self._next_question(caption))
        ]:
            others = [pair for pair in questions if pair[1].kind != "words"]
            self._ask_texts([pair for pair in others if not pair[1].needs_frames])
            self._ask_frames([pair for pair in others if pair[1].needs_frames])
            if not others:
                # Words come last, so that captions that are still open share their calls.
                self._ask_texts(self._ask_words_together(questions))
        return [caption.result() for caption in captions]

    def _learn_words(
        self, captions: Sequence[SlotSettlement], outcomes: Sequence[ObservationOutcome]
    ) -> None:
        """Add the words of observations to those that captions of their datasets may use."""
        for caption, outcome in zip(captions, outcomes, strict=True):
            if isinstance(outcome, WorkObservation) and not caption.case.work.frames.is_changed:
                dataset = caption.case.work.episode.dataset
                self._pairs.words.learn(dataset, outcome.observation.visible_values)

    def _next_question(self, caption: SlotSettlement) -> NextQuestion | None:
        """What a caption is asked next; its contested slots share a call where their values cannot speak in it."""
        caption.take_known_pairs(self._pairs.find)
        question = caption.next_question()
        dataset = caption.case.work.episode.dataset
        select = partial(self._pairs.select_plain, dataset=dataset)
        return caption.add_choices(question, select) if question else None

    def _is_same(self, slot: SlotName, first: str, second: str) -> bool:
        """Whether two values are equal or known to be; attributes, whether the second has all of the first."""
        if slot == "attributes":
            return {part.strip() for part in first.split(",")} <= {part.strip() for part in second.split(",")}
        if is_same_value(slot, bare_value(slot, first), bare_value(slot, second)):
            return True
        return self._pairs.find(make_pair(slot, first, second)) == "same"

    def _open(self, case: GradeCase) -> SlotSettlement:
        selected = self.select_frames(case.work.subject).values()
        shown = sorted({second for seconds in selected for second in seconds})
        return SlotSettlement(case, self.name, shown, self._choose_rival)

    def _compare_plain_values(self, captions: Sequence[SlotSettlement]) -> None:
        """Ask about all pairs of plain values that were never asked about, many in a call."""
        first: dict[ValuePair, SlotSettlement] = {}
        for caption in captions:
            for pairs in (caption.open_pairs(), caption.segment_pairs()):
                for pair in self._pairs.select_plain(pairs, caption.case.work.episode.dataset):
                    first.setdefault(pair, caption)
        missing = [pair for pair in first if self._pairs.find(pair) is None]
        for pair, paid in self._pairs.ask_together(missing) if len(missing) > 1 else ():
            first[pair].charge("comparison", paid)

    def _ask_texts(self, questions: Sequence[tuple[SlotSettlement, NextQuestion]]) -> None:
        """Ask each question alone; a pair of values that was asked about before has its answer."""
        unanswered: list[tuple[SlotSettlement, NextQuestion]] = []
        for caption, question in questions:
            pair = caption.compared_pair(question)
            known = self._pairs.find(pair) if pair else None
            if known is None:
                unanswered.append((caption, question))
            else:
                caption.take_known(question, known)
        requests = [
            caption.request(question, None, has_schema=self._texts.has_schema)
            for caption, question in unanswered
        ]
        for (caption, question), reply in zip(unanswered, self._texts.ask(requests), strict=True):
            pair = caption.compared_pair(question)
            if pair and isinstance(reply, VlmReply):
                self._pairs.put({pair: parse_comparison(reply.text)})
            caption.take(question, reply)

    def _ask_words_together(
        self, questions: Sequence[tuple[SlotSettlement, NextQuestion]]
    ) -> list[tuple[SlotSettlement, NextQuestion]]:
        """Ask about plain words of captions, many in a call; the questions that are to be asked alone."""
        shared: list[tuple[SlotSettlement, NextQuestion]] = []
        single: list[tuple[SlotSettlement, NextQuestion]] = []
        for caption, question in questions:
            dataset = caption.case.work.episode.dataset
            is_plain = self._pairs.are_plain_words(caption.extra_words, dataset)
            (shared if is_plain else single).append((caption, question))
        answers = self._pairs.ask_about_words([caption.extra_words for caption, _ in shared])
        for (caption, question), (words, paid) in zip(shared, answers, strict=True):
            caption.charge("words", paid)
            if words is None:
                single.append((caption, question))
            else:
                caption.take_words(question, words)
        return single

    def _ask_frames(self, questions: Sequence[tuple[SlotSettlement, NextQuestion]]) -> None:
        ready: list[tuple[SlotSettlement, NextQuestion, ImagesForJudge]] = []
        for caption, question in questions:
            read = self._frames.read(caption.case.work)
            if isinstance(read, ImagesForJudge):
                ready.append((caption, question, read))
            else:
                caption.fail(read)
        requests = [self._frames_request(*item) for item in ready]
        keys = [
            (*shared_frames_key(caption.case.work), request.prompt)
            for (caption, _, _), request in zip(ready, requests, strict=True)
        ]
        for (caption, question, read), reply in zip(ready, ask_once(self._vlm, requests, keys), strict=True):
            caption.take(question, reply, read.seconds)

    def _frames_request(
        self, caption: SlotSettlement, question: NextQuestion, read: ImagesForJudge
    ) -> VlmRequest:
        evidence = ImageEvidence(images=read.images, legend=read.plan.legend(), seconds=read.seconds)
        return caption.request(question, evidence, has_schema=self._has_schema)
