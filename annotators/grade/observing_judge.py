"""A judge that gets no caption: it looks first; two values of a slot are compared, and a choice is asked blindly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ares.annotation import Cost, Producer, short_hash
from ares.episode import Json
from ares.errors import AresError
from ares.rubric import SlotName, is_same_value
from ares.store import AnnotationStore
from ares_annotators.base import CameraSeconds, PaidFailure, Preflight, Subject
from ares_annotators.grade.additions import DatasetWords, find_unknown_words
from ares_annotators.grade.judge import GradeCase, ImagesForJudge, JudgeFrames, Judgement
from ares_annotators.grade.list_calls import EntryReply, KeptAnswers, ListQuestion, ask_lists
from ares_annotators.grade.observation import LEAST_CONFIDENCE, ObservedPart
from ares_annotators.grade.questions import (
    ExtraWords,
    SlotOptions,
    ValuePair,
    bare_value,
    choice_request,
    comparison_request,
    make_pair,
    parse_choices,
    parse_comparisons,
    parse_words,
    questions_hash,
    words_request,
)
from ares_annotators.grade.segment_observer import SegmentObserver, WorkObservation
from ares_annotators.grade.settlement import RivalChooser, SlotSettlement
from ares_annotators.models import Vlm, VlmRequest, call_limit

_CAPTIONS_TOGETHER = 32
# Entries in one call.
_MOST_PAIRS, _MOST_WORDS = 32, 16
# Before anything was measured: choices by the frames for a caption; tokens in and out of all that is asked about it but
# images.
_CHOICES = 0.25
_TOKENS_IN, _TOKENS_OUT = 1_120, 207


class ObservingJudge:
    """Observation first, then slot by slot; fills the protocol `ares_annotators.grade.judge.Judge`.

    No request holds the sentence of a caption, and none says who claims what.

    Args:
        vlm: The model.
        observer: The same model, which observes before anything is known of a caption.
        frames: Which frames it gets.
        log: Where its answers are kept.
        words: Words that captions of a dataset may use; they get those of its observations.
        choose_rival: Chooses another value of a slot where the observation has none.
    """

    def __init__(
        self,
        vlm: Vlm,
        observer: SegmentObserver,
        frames: JudgeFrames,
        log: AnnotationStore,
        words: DatasetWords,
        choose_rival: RivalChooser,
    ) -> None:
        self._observer, self._frames = observer, frames
        self._words, self._choose_rival = words, choose_rival
        self.name, self.family = vlm.name, vlm.family
        self.vlm: Vlm = vlm
        # The captions of a batch share the calls that compare their values.
        self.batch_size, self.workers = max(vlm.batch_size, _CAPTIONS_TOGETHER), vlm.workers
        self.prompt_hash = short_hash([observer.prompt_hash, questions_hash()])
        self.observation_producers: Sequence[Producer] = [observer.producer]
        # Earlier versions could have another model of texts: under these names the producer of grades stays.
        text_settings: Mapping[str, Json] = {
            "text_model": vlm.name,
            "text_family": vlm.family,
            "text_has_schema": "schema" in vlm.capabilities,
        }
        self.settings: Mapping[str, Json] = {
            **vlm.settings,
            **text_settings,
            "has_schema": "schema" in vlm.capabilities,
            "observation": observer.producer.maker_id,
            "least_confidence": LEAST_CONFIDENCE,
        }
        version: list[Json] = [short_hash([dict(text_settings), questions_hash()])]
        pairs: ListQuestion[ValuePair] = ListQuestion(
            name="pair",
            version=version,
            most=_MOST_PAIRS,
            make_request=comparison_request,
            read=parse_comparisons,
        )
        extra_words: ListQuestion[ExtraWords] = ListQuestion(
            name="words",
            version=version,
            most=_MOST_WORDS,
            make_request=words_request,
            read=parse_words,
        )
        self._pairs, self._extra_words = KeptAnswers(vlm, log, pairs), KeptAnswers(vlm, log, extra_words)

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """The frames of the observation, which are those of the choices."""
        return self._frames.select(subject)

    def expect_cost(self, subject: Subject) -> Cost:
        """One observation, and what most captions leave to ask."""
        images = (1 + _CHOICES) * self._observer.expect_image_tokens(subject)
        return Cost(calls=1, tokens_in=_TOKENS_IN + round(images), tokens_out=_TOKENS_OUT)

    @property
    def call_limit(self) -> Callable[[], int] | None:
        """Enough batches of cases that the server is busy while most of them wait for their one observation."""
        limit = call_limit(self.vlm, float(self.batch_size))
        return None if limit is None else lambda: max(1, limit() - 1)

    def preflight(self) -> Preflight:
        """One observation of frames without content."""
        return self._observer.preflight()

    def judge(self, cases: Sequence[GradeCase]) -> Sequence[Judgement | PaidFailure | AresError]:
        """Rulings: all cases are observed, compared, chosen about and asked about their words, each at once."""
        captions = [SlotSettlement(case, self.name, self._choose_rival) for case in cases]
        self._observe([caption for caption in captions if caption.needs_observation])
        for caption in captions:
            caption.rule_on_words(self._words.known_words)
        self._compare(captions)
        for caption in captions:
            caption.rule_on_spans(self._is_same)
        self._choose(captions)
        self._ask_about_words(captions)
        return [caption.result() for caption in captions]

    def _observe(self, captions: Sequence[SlotSettlement]) -> None:
        """Observe captions and their neighbours, and let their datasets use the words of that."""
        around = [caption.neighbours for caption in captions]
        works = [caption.case.work for caption in captions]
        outcomes = self._observer.observe([*works, *(work for neighbours in around for work in neighbours)])
        others = iter(outcomes[len(works) :])
        for caption, neighbours, outcome in zip(captions, around, outcomes, strict=False):
            caption.see(outcome, [next(others) for _ in neighbours])
            if isinstance(outcome, WorkObservation) and not caption.case.work.frames.is_changed:
                self._words.learn(caption.case.work.episode.dataset, outcome.observation.visible_values)

    def _is_same(self, slot: SlotName, first: str, second: str) -> bool:
        """Whether two values are equal or known to be; attributes, whether the second has all of the first."""
        if slot == "attributes":
            return {part.strip() for part in first.split(",")} <= {part.strip() for part in second.split(",")}
        if is_same_value(slot, bare_value(slot, first), bare_value(slot, second)):
            return True
        return self._pairs.find(make_pair(slot, first, second)) == "same"

    def _compare(self, captions: Sequence[SlotSettlement]) -> None:
        """Compare all pairs of values that are open."""
        by_pair: dict[ValuePair, list[SlotSettlement]] = {}
        for caption in captions:
            for pair in caption.open_pairs():
                by_pair.setdefault(pair, []).append(caption)
        replies = self._pairs.ask(
            {pair: self._may_order(members, pair[1:]) for pair, members in by_pair.items()}
        )
        for pair, reply in replies.items():
            _charge_first(by_pair[pair], reply)
        for caption in captions:
            caption.take_comparisons(self._pairs.find)

    def _may_order(self, captions: Sequence[SlotSettlement], texts: Sequence[str]) -> bool:
        """Whether texts of a false caption may be an order to the model, so that they share no call with others."""
        case = captions[0].case
        known = self._words.known_words(case.work.episode.dataset)
        return case.is_control and any(find_unknown_words(text, known) for text in texts)

    def _choose(self, captions: Sequence[SlotSettlement]) -> None:
        """Let the frames decide on contested slots, those of a caption in one call."""
        contested: list[SlotSettlement] = []
        lists: list[list[tuple[ImagesForJudge, SlotOptions]]] = []
        for caption in captions:
            if not (choices := caption.open_choices()):
                continue
            shown = self._frames.read(caption.case.work)
            if isinstance(shown, ImagesForJudge):
                contested.append(caption)
                lists.append([(shown, choice) for choice in choices])
            else:
                caption.fail(shown)
        replies = iter(ask_lists(self.vlm, lists, _choice_request, _read_choices))
        for caption, entries in zip(contested, lists, strict=True):
            by_slot: dict[SlotName, EntryReply[ObservedPart]] = {
                choice.slot: next(replies) for _, choice in entries
            }
            for reply in by_slot.values():
                _charge_first([caption], reply)
            caption.take_choices(by_slot)

    def _ask_about_words(self, captions: Sequence[SlotSettlement]) -> None:
        """Ask which words beside the slots say more; they come last, as a caption that is refused needs no answer."""
        by_words: dict[ExtraWords, list[SlotSettlement]] = {}
        for caption in captions:
            if words := caption.open_words():
                by_words.setdefault(words, []).append(caption)
        replies = self._extra_words.ask(
            {words: self._may_order(members, words.words) for words, members in by_words.items()}
        )
        for words, reply in replies.items():
            _charge_first(by_words[words], reply)
            for caption in by_words[words]:
                caption.take_words(reply)


def _choice_request(entries: Sequence[tuple[ImagesForJudge, SlotOptions]]) -> VlmRequest:
    return choice_request([choice for _, choice in entries], entries[0][0])


def _read_choices(
    entries: Sequence[tuple[ImagesForJudge, SlotOptions]], reply: str
) -> list[ObservedPart] | str:
    return parse_choices([choice for _, choice in entries], reply, entries[0][0].seconds)


def _charge_first(captions: Sequence[SlotSettlement], reply: EntryReply[Any]) -> None:
    """Let the first of some captions pay for a reply; without one all of them fail."""
    captions[0].charge(reply.cost, reply.paid)
    if reply.error:
        for caption in captions:
            caption.fail(reply.error)
