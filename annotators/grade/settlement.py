"""How the criteria of one caption are settled one after another: by code, by two values, by a choice among values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from annotators.base import PaidFailure
from annotators.grade.additions import addresses_judge, find_unknown_words, split_words, stem_word
from annotators.grade.call_costs import CallKind
from annotators.grade.judge import GradeCase, Judgement
from annotators.grade.observation import Observation, ObservedPart
from annotators.grade.questions import (
    CANNOT_TELL,
    ClaimedPair,
    ExtraWords,
    FrameAnswer,
    ImageEvidence,
    SlotOptions,
    ValuePair,
    bare_value,
    choice_options,
    choice_request,
    choices_request,
    comparison_request,
    make_pair,
    parse_answer,
    parse_choice,
    parse_choices,
    parse_comparison,
    parse_words,
    rubric_question_request,
    verdict_of_answer,
    words_request,
)
from annotators.grade.segment_fit import (
    SEGMENT_SLOTS,
    FitRuling,
    Neighbour,
    SameValue,
    SeenNeighbour,
    find_signal_arm,
    list_neighbours,
    list_unequal_values,
    rule_on_arm,
    rule_on_order,
    rule_on_span,
)
from annotators.grade.segment_observer import ObservationOutcome, WorkObservation, segment_of
from annotators.models import VlmFailure, VlmReply, VlmRequest
from ares.annotation import Cost
from ares.errors import AresError
from ares.rubric import (
    COMPLETED,
    GATES,
    NOT_COMPLETED,
    NOT_VISIBLE,
    OTHER,
    SLOTS,
    Criterion,
    Ruling,
    SlotName,
    Verdict,
    is_same_value,
    is_short_value,
    join_attributes,
    normalize_value,
)

# What refutes most captions comes first; nothing more is asked of a refuted one.
QUESTION_ORDER: tuple[SlotName, ...] = (
    "action", "object", "to", "attributes", "from", "count", "hand", "manner", "outcome",
)  # fmt: skip
_SAME, _REWORDED = "the observation says the same", "the observation says it in other words"

# Chooses another value of a slot where the observation has none: of a dataset, beside a value, for a segment.
RivalChooser = Callable[[str, SlotName, str, str], str]
# The pairs of values of a caption, each with the claim, that may be asked about in one call.
PlainSelector = Callable[[Sequence[ClaimedPair]], Sequence[ValuePair]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NextQuestion:
    """What is asked next about a caption.

    Attributes:
        kind: What the call is for.
        criterion: What it decides.
        options: Options of a choice.
        others: Choices about other slots of the caption in the same call.
    """

    kind: CallKind
    criterion: Criterion
    options: Sequence[str] = ()
    others: Sequence[NextQuestion] = ()

    @property
    def needs_frames(self) -> bool:
        """Whether it is asked with images."""
        return self.kind in ("choice", "question")


class SlotSettlement:
    """One caption, from its observation to its last ruling.

    Args:
        case: The caption.
        judge: Portable name of the model.
        shown: Seconds of the frames that the model gets.
        choose_rival: Chooses another value where the observation has none.
    """

    def __init__(
        self, case: GradeCase, judge: str, shown: Sequence[float], choose_rival: RivalChooser
    ) -> None:
        self.case = case
        self._judge, self._shown, self._choose_rival = judge, shown, choose_rival
        self._rulings: dict[str, Ruling] = {}
        self._queue = sorted(case.criteria, key=_order_of)
        # By criterion why it is asked of the frames, and what the caption's value is set against.
        self._contested: dict[str, str] = {}
        self._rivals: dict[str, str] = {}
        # Whether a reply to several choices could not be used.
        self._asks_singly = False
        # The slot by which the frames tell a segment from its neighbour, where they are asked.
        self._span_slot: SlotName | None = None
        self._seen: WorkObservation | None = None
        self._around: list[WorkObservation] = []
        self._neighbours: list[SeenNeighbour] = []
        self._failure: AresError | None = None
        self._calls: dict[CallKind, Cost] = {}
        self._cost = self._paid = Cost()
        self._rule_on_claims()

    @property
    def needs_observation(self) -> bool:
        """Whether an open criterion is about what the frames show, and no gate has failed."""
        return not self._failed_gate() and any(item.slot != "additions" for item in self._queue)

    @property
    def neighbours(self) -> list[Neighbour]:
        """The segments before and after, where a criterion sets the caption against what is seen in them."""
        asks = any(item.slot in ("span", "order") for item in self._queue)
        return list_neighbours(self.case.work) if asks else []

    def see(
        self,
        outcome: ObservationOutcome,
        neighbours: Sequence[tuple[Neighbour, ObservationOutcome]] = (),
    ) -> None:
        """Take what was observed, and rule on what it decides alone.

        Args:
            outcome: What was observed in the segment.
            neighbours: What was observed in those before and after it.
        """
        for item in (outcome, *(other for _, other in neighbours)):
            if not isinstance(item, WorkObservation):
                self._fail(item)
                return
        assert isinstance(outcome, WorkObservation)
        self._seen = outcome
        self._around = [other for _, other in neighbours if isinstance(other, WorkObservation)]
        for item in (outcome, *self._around):
            self._count("observation", item.cost, item.paid)
        if not outcome.observation.shows_something:
            for criterion in [item for item in self._queue if item.slot != "additions"]:
                self._rule(
                    criterion, Verdict.UNSURE, "the observation shows nothing", part=_UNSEEN, margin=0.0
                )
            self._queue = []
            self._leave_open("the observation shows nothing")
            return
        self._neighbours = [
            SeenNeighbour(slots=neighbour.slots, observation=other.observation)
            for (neighbour, _), other in zip(neighbours, self._around, strict=True)
        ]
        for criterion in list(self._queue):
            self._rule_by_observation(criterion)

    def open_pairs(self) -> list[tuple[ValuePair, str]]:
        """The pairs of values that are to be compared if nothing refutes the caption before, each with the claim."""
        if self._failure or self._failed_gate():
            return []
        slots = [item.slot for item in self._queue if item.slot in SLOTS]
        return [(self._pair(slot), self._claimed_rest(slot)) for slot in slots if self._can_compare(slot)]

    def segment_pairs(self) -> list[tuple[ValuePair, str]]:
        """The pairs of values that tell a segment from its neighbours, each with the claim."""
        if self._seen is None or not any(item.slot in ("span", "order") for item in self._queue):
            return []
        values = list_unequal_values(self.case.slots, self._seen.observation, self._neighbours)
        return [(make_pair(slot, claimed, seen), claimed) for slot, claimed, seen in values]

    def compared_pair(self, question: NextQuestion) -> ValuePair | None:
        """The pair of a question that compares values; None for another."""
        return self._pair(_slot_of(question.criterion)) if question.kind == "comparison" else None

    @property
    def extra_words(self) -> ExtraWords:
        """The words beside the slots, as they are asked about."""
        return ExtraWords(tuple(self.case.extra_words), self.case.slots)

    def take_known(self, question: NextQuestion, answer: str) -> None:
        """Take the answer of a comparison that was asked before, or together with others."""
        self._take_comparison(question.criterion, answer)

    def take_words(self, question: NextQuestion, words: list[str]) -> None:
        """Take which of the words beside the slots say more, as it was asked together with others."""
        self._take_words(question.criterion, words, "")

    def charge(self, kind: CallKind, paid: Cost) -> None:
        """Count a call that was made for this caption and others, and that this one pays for."""
        self._count(kind, paid, paid)

    def take_known_pairs(self, find: Callable[[ValuePair], str | None]) -> None:
        """Take what was said before of the pairs of values, so that all contested slots are known at once.

        Args:
            find: What was said of a pair; None for one that was not asked about.
        """
        for criterion in [item for item in self._queue if item.slot in SLOTS]:
            slot = _slot_of(criterion)
            if criterion.id not in self._contested and self._can_compare(slot):
                answer = find(self._pair(slot))
                if answer is not None:
                    self._take_comparison(criterion, answer)

    def next_question(self) -> NextQuestion | None:
        """What is to be asked now; None where nothing is left."""
        gate = self._failed_gate()
        if gate:
            self._leave_open(f"not asked, {gate} is not met")
        if self._failure or not self._queue:
            return None
        criterion = self._queue[0]
        if criterion.slot == "additions":
            return NextQuestion(kind="words", criterion=criterion)
        if criterion.slot == "span":
            return self._choose_in(criterion, self._contested_slot(criterion))
        if criterion.slot not in SLOTS:
            return NextQuestion(kind="question", criterion=criterion)
        if self._is_to_compare(criterion):
            return NextQuestion(kind="comparison", criterion=criterion)
        return self._choose_in(criterion, criterion.slot)

    def add_choices(self, question: NextQuestion, select_plain: PlainSelector) -> NextQuestion:
        """A choice with those about other contested slots that may be asked in the same call.

        Args:
            question: The choice that is to be asked now.
            select_plain: Selects pairs of values in which no caption can speak to a model.
        """
        if question.kind != "choice" or self._asks_singly or question.criterion.slot not in SLOTS:
            return question
        waiting = [item for item in self._queue if item.slot in SLOTS and not self._is_to_compare(item)]
        pairs = {item.id: self._choice_pair(_slot_of(item)) for item in waiting}
        plain = {*select_plain([pair for pair in pairs.values() if pair[0].slot != "outcome"])}
        fit = [item for item in waiting if item.slot == "outcome" or pairs[item.id][0] in plain]
        if question.criterion not in fit:
            return question
        others = [item for item in fit if item.id != question.criterion.id]
        return replace(question, others=[self._choose_in(item, _slot_of(item)) for item in others])

    def _choice_pair(self, slot: SlotName) -> ClaimedPair:
        claimed = self._claimed_rest(slot)
        return make_pair(slot, claimed, self._rival_value(slot)), claimed

    def _is_to_compare(self, criterion: Criterion) -> bool:
        """Whether two values of a slot are to be compared before the frames are asked."""
        return criterion.id not in self._contested and self._can_compare(_slot_of(criterion))

    def _choose_in(self, criterion: Criterion, slot: SlotName) -> NextQuestion:
        options = choice_options(
            segment_of(self.case.work.subject), slot, self._claimed_rest(slot), self._rival_value(slot)
        )
        return NextQuestion(kind="choice", criterion=criterion, options=options)

    def request(
        self, question: NextQuestion, evidence: ImageEvidence | None, *, has_schema: bool
    ) -> VlmRequest:
        """The request of a question; nothing of the caption's sentence is in it."""
        criterion, slots = question.criterion, self.case.slots
        if question.kind == "words":
            return words_request(self.case.extra_words, slots, has_schema)
        if question.kind == "comparison":
            return comparison_request(self._pair(_slot_of(criterion)), has_schema)
        if evidence is None:
            raise ValueError(f"a {question.kind} needs frames")
        if question.kind == "question":
            return rubric_question_request(criterion.text, slots, evidence, has_schema)
        if question.others:
            return choices_request(self._slot_options(question), evidence, has_schema)
        return choice_request(self._contested_slot(criterion), question.options, evidence, has_schema)

    def take(
        self, question: NextQuestion, reply: VlmReply | VlmFailure, seconds: Sequence[float] = ()
    ) -> None:
        """Take the reply to the last question.

        Args:
            question: The question.
            reply: What the model replied.
            seconds: Seconds of the frames that were shown.
        """
        if isinstance(reply, VlmFailure):
            self._fail(PaidFailure(reply.error, reply.cost))
            return
        self._count(question.kind, reply.cost, reply.paid)
        if question.kind == "comparison":
            self._take_comparison(question.criterion, parse_comparison(reply.text))
        elif question.kind == "words":
            self._take_words(question.criterion, parse_words(reply.text), reply.text)
        elif question.others:
            self._take_choices(question, reply.text, seconds)
        elif question.kind == "choice":
            answer = parse_choice(reply.text, question.options, seconds)
            self._take_choice(question.criterion, answer, reply.text)
        else:
            self._take_answer(question.criterion, parse_answer(reply.text, seconds), reply.text)

    def fail(self, error: AresError) -> None:
        """The caption cannot be graded: its frames cannot be read."""
        self._fail(error)

    def result(self) -> Judgement | PaidFailure | AresError:
        """The rulings in the order of the criteria, or the failure with what was paid."""
        if self._failure:
            return PaidFailure(self._failure, self._paid) if self._paid.calls else self._failure
        seen = self._seen
        return Judgement(
            rulings=[self._rulings[criterion.id] for criterion in self.case.criteria],
            cost=self._cost,
            paid=self._paid,
            calls=self._calls,
            observations=[item.annotation for item in (seen, *self._around) if item and item.annotation],
            observation_ids=[
                item.annotation_id for item in (seen, *self._around) if item and item.annotation_id
            ],
        )

    def _fail(self, outcome: PaidFailure | AresError) -> None:
        if isinstance(outcome, PaidFailure):
            self._paid += outcome.cost
        self._failure = outcome.error if isinstance(outcome, PaidFailure) else outcome
        self._queue = []

    def _count(self, kind: CallKind, cost: Cost, paid: Cost) -> None:
        self._cost, self._paid = self._cost + cost, self._paid + paid
        if paid.calls:
            self._calls[kind] = self._calls.get(kind, Cost()) + paid

    def _failed_gate(self) -> str:
        """Id of a gate that is not met, or ""."""
        gates = {name for name, category in self.case.rubric.categories if category in GATES}
        rulings = (*self.case.rulings, *self._rulings.values())
        failed = (item.criterion for item in rulings if item.verdict is Verdict.UNMET)
        return next((name for name in failed if name in gates), "")

    def _leave_open(self, reason: str) -> None:
        """Ask nothing more."""
        for criterion in self.case.criteria:
            if criterion.id not in self._rulings:
                self._rulings[criterion.id] = Ruling(
                    criterion=criterion.id,
                    verdict=Verdict.UNSURE,
                    source="hard",
                    reason=reason,
                    slot=criterion.slot or "",
                    claimed=self._claimed(criterion),
                    margin=0.0,
                )
        self._queue = []

    def _rule_on_claims(self) -> None:
        """What no model is shown is in doubt by code: values that are sentences, or that speak to a judge."""
        for criterion in [] if self.case.is_control else list(self._queue):
            if criterion.slot in SLOTS:
                problem = _claim_problem(criterion.slot, self._claimed(criterion))
                if problem:
                    self._rule(criterion, Verdict.UNSURE, problem, source="hard", margin=0.0)

    def rule_on_words(self, known_words: Callable[[str, str], Collection[str]]) -> None:
        """Leave a value in doubt that has words which nobody else uses of the dataset: no model is shown them.

        Args:
            known_words: Words of a dataset that a slot may say, see `DatasetWords`.
        """
        episode = self.case.work.episode
        stated = {stem_word(word) for text in episode.instructions for word in split_words(text)}
        doubtful = list[str]()
        for criterion in [] if self.case.is_control else list(self._queue):
            claimed, slot = self._claimed(criterion).removeprefix(f"{OTHER}: "), criterion.slot or ""
            if slot == "outcome":
                continue
            if slot == "additions":
                claimed, slot = " ".join(self.case.extra_words), ""
            if unknown := find_unknown_words(claimed, {*known_words(episode.dataset, slot), *stated}):
                reason = f"no observation and no instruction has the words: {', '.join(unknown)}"
                self._rule(criterion, Verdict.UNSURE, reason, source="hard", margin=0.0)
                doubtful.append(criterion.id)
        # Other questions show all values of a caption.
        for criterion in [item for item in self._queue if doubtful and item.slot in (None, "additions")]:
            reason = f"not asked, {doubtful[0]} is in doubt"
            self._rule(criterion, Verdict.UNSURE, reason, source="hard", margin=0.0)

    def _rule_by_observation(self, criterion: Criterion) -> None:
        """The ruling that the observation gives without any question, where it gives one."""
        if criterion.slot == "complete":
            part = self._part("to")
            is_left_out = part.is_visible and "to" not in self.case.slots
            reason = "the caption leaves out where it goes" if is_left_out else "nothing is left out"
            verdict = Verdict.UNMET if is_left_out else Verdict.MET
            self._rule(criterion, verdict, reason, source="observation", part=part)
        elif criterion.slot in SLOTS:
            part = self._part(criterion.slot)
            claimed = self._claimed(criterion)
            is_equal = is_same_value(
                criterion.slot, bare_value(criterion.slot, claimed), bare_value(criterion.slot, part.value)
            )
            if criterion.slot == "attributes":
                is_equal = not self._claimed_rest("attributes")
            if part.is_visible and is_equal:
                self._rule(criterion, Verdict.MET, _SAME, source="observation", part=part)

    def rule_on_segments(self, is_same: SameValue) -> None:
        """The rulings of code on the criteria about segments; a choice is left where a neighbour fits as well.

        Args:
            is_same: Whether two values of a slot mean the same.
        """
        if self._seen is None or self._failure:
            return
        for criterion in [item for item in self._queue if item.slot in SEGMENT_SLOTS]:
            self._rule_on_segment(criterion, self._seen.observation, is_same)

    def _rule_on_segment(self, criterion: Criterion, observed: Observation, is_same: SameValue) -> None:
        claimed = self.case.slots
        if criterion.slot == "arm":
            fit = rule_on_arm(claimed, observed, find_signal_arm(self.case.work.subject))
        else:
            rule = rule_on_span if criterion.slot == "span" else rule_on_order
            fit = rule(claimed, observed, self._neighbours, is_same)
        is_shown = self.case.is_control or not (fit.slot and _claim_problem(fit.slot, claimed[fit.slot]))
        if fit.verdict is None and fit.slot and is_shown:
            self._span_slot = fit.slot
            return
        self._take_fit(criterion, fit)

    def _take_fit(self, criterion: Criterion, fit: FitRuling) -> None:
        verdict = Verdict.UNSURE if fit.verdict is None else fit.verdict
        margin = 0.0 if fit.verdict is None else fit.margin
        # What the signals say is no word of the judge.
        source = "hard" if fit.seen and not fit.seen.seconds else "observation"
        self._rule(criterion, verdict, fit.reason, source=source, part=fit.seen, margin=margin)

    def _contested_slot(self, criterion: Criterion) -> SlotName:
        """The slot of the choice that decides a criterion."""
        if criterion.slot == "span" and self._span_slot:
            return self._span_slot
        return _slot_of(criterion)

    def _take_comparison(self, criterion: Criterion, answer: str) -> None:
        slot = _slot_of(criterion)
        if answer == "same":
            part = self._part(slot)
            self._rule(criterion, Verdict.MET, _REWORDED, source="comparison", part=part)
            return
        self._contested[criterion.id] = f"the observation says {self._part(slot).value!r}"
        # A red thing may be large, too: where values can both be true, they are no rivals.
        is_rival = slot != "attributes" or answer != CANNOT_TELL
        self._rivals[slot] = self._observed_rest(slot) if is_rival else ""

    def _slot_options(self, question: NextQuestion) -> list[SlotOptions]:
        """What one call about several slots asks, in the order of the questions."""
        return [
            SlotOptions(self._contested_slot(item.criterion), tuple(item.options))
            for item in (question, *question.others)
        ]

    def _take_choices(self, question: NextQuestion, reply: str, seconds: Sequence[float]) -> None:
        """Take the choices of one reply; where it cannot be used, each is asked alone."""
        answers = parse_choices(reply, self._slot_options(question), seconds)
        self._asks_singly = answers is None
        for item, answer in zip((question, *question.others), answers or (), strict=False):
            self._take_choice(item.criterion, answer, reply)

    def _take_choice(self, criterion: Criterion, answer: FrameAnswer, reply: str) -> None:
        slot = self._contested_slot(criterion)
        claimed = self._claimed_rest(slot)
        verdict, reason = verdict_of_answer(answer, claimed=claimed, slot=slot)
        part = self._part(slot)
        observed = answer.answer if answer.answer not in ("", OTHER, CANNOT_TELL) else part.value
        seen = ObservedPart(
            value=observed if part.is_visible or observed != part.value else NOT_VISIBLE,
            seconds=answer.seconds or part.seconds or self._shown_of(slot),
            confidence=answer.confidence,
        )
        seen_value = part.value if part.is_visible else NOT_VISIBLE
        self._contested.setdefault(criterion.id, f"the observation says {seen_value!r}")
        self._rule(criterion, verdict, reason, source="choice", part=seen, reply=reply)

    def _take_answer(self, criterion: Criterion, answer: FrameAnswer, reply: str) -> None:
        verdict, reason = verdict_of_answer(answer, claimed="yes")
        part = ObservedPart(value=answer.answer, seconds=answer.seconds, confidence=answer.confidence)
        self._rule(criterion, verdict, reason, source="choice", part=part, reply=reply)

    def _take_words(self, criterion: Criterion, words: list[str] | str, reply: str) -> None:
        if isinstance(words, str):
            self._rule(criterion, Verdict.UNSURE, words, source="comparison", margin=0.0, reply=reply)
        elif words:
            shown = ", ".join(word for word in words if word in self.case.extra_words) or "unnamed words"
            reason = f"words that no slot bears: {shown}"
            self._rule(criterion, Verdict.UNSURE, reason, source="comparison", margin=0.0, reply=reply)
        else:
            reason = "the words beside the slots say nothing more"
            self._rule(criterion, Verdict.MET, reason, source="comparison", reply=reply)

    def _rule(
        self,
        criterion: Criterion,
        verdict: Verdict,
        reason: str,
        *,
        source: str = "observation",
        part: ObservedPart | None = None,
        margin: float | None = None,
        reply: str = "",
    ) -> None:
        confidence = part.confidence if part and margin is None else 1.0 if margin is None else margin
        self._rulings[criterion.id] = Ruling(
            criterion=criterion.id,
            verdict=verdict,
            source=source,  # type: ignore[arg-type]
            slot=criterion.slot or "",
            claimed=self._claimed(criterion),
            observed=part.value if part else "",
            evidence=part.seconds if part else (),
            judge="" if source == "hard" else self._judge,
            reason=reason,
            reply=reply,
            margin=round(confidence, 4),
            contested=self._contested.get(criterion.id, ""),
        )
        self._queue = [item for item in self._queue if item.id != criterion.id]

    def _claimed(self, criterion: Criterion) -> str:
        return self.case.slots.get(criterion.slot, "") if criterion.slot in SLOTS else ""

    def _part(self, slot: SlotName) -> ObservedPart:
        return self._seen.observation.parts[slot] if self._seen else _UNSEEN

    def _claimed_rest(self, slot: SlotName) -> str:
        """What of the caption's value the observation does not say; of attributes those that it lacks."""
        claimed, part = self.case.slots.get(slot, ""), self._part(slot)
        return without_values(claimed, part.value) if slot == "attributes" and part.is_visible else claimed

    def _observed_rest(self, slot: SlotName) -> str:
        part = self._part(slot)
        return (
            without_values(part.value, self.case.slots.get(slot, "")) if slot == "attributes" else part.value
        )

    def _can_compare(self, slot: SlotName) -> bool:
        """Whether the observation says something that the caption does not, so that it may be the same."""
        return slot != "outcome" and self._part(slot).is_visible and bool(self._observed_rest(slot))

    def _pair(self, slot: SlotName) -> ValuePair:
        return make_pair(slot, self._claimed_rest(slot), self._observed_rest(slot))

    def _rival_value(self, slot: SlotName) -> str:
        rival = self._rivals.get(slot, "")
        if rival or slot == "outcome":
            return rival
        claimed, subject = self._claimed_rest(slot), self.case.work.subject
        return self._choose_rival(subject.episode.dataset, slot, claimed, segment_of(subject))

    def _shown_of(self, slot: SlotName) -> tuple[float, ...]:
        """The frames in which a slot should be seen: an outcome in the last ones."""
        return tuple(self._shown[-2:] if slot == "outcome" else self._shown)


_UNSEEN = ObservedPart(value=NOT_VISIBLE)


def _order_of(criterion: Criterion) -> int:
    """The place of a criterion in the order of questions: whose span it is, slots, questions of a lab, words."""
    if criterion.slot in SEGMENT_SLOTS:
        return -1
    if criterion.slot in SLOTS:
        return QUESTION_ORDER.index(criterion.slot)
    return len(QUESTION_ORDER) + (criterion.slot == "additions")


def _slot_of(criterion: Criterion) -> SlotName:
    slot = criterion.slot
    if slot not in SLOTS:
        raise ValueError(f"criterion {criterion.id} is about no slot")
    return slot


def _claim_problem(slot: SlotName, claimed: str) -> str:
    """Why no model is shown a value of a caption, or ""."""
    if not is_short_value(claimed):
        return "its value is no short value" if claimed else "caption does not say"
    if slot == "outcome":
        return "" if claimed in (COMPLETED, NOT_COMPLETED) else "caption states no outcome"
    word = addresses_judge([claimed])
    if word:
        return f"it may speak to the judge: {word!r}"
    return "its value says nothing" if normalize_value(claimed) in (OTHER, CANNOT_TELL, NOT_VISIBLE) else ""


def without_values(attributes: str, others: str) -> str:
    """The attributes that are not among others."""
    known = {normalize_value(part) for part in others.split(",")}
    return join_attributes([part for part in attributes.split(",") if normalize_value(part) not in known])
