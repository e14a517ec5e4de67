"""How the criteria of one caption are settled: by code, by two values, by a choice among values, by a question."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from ares.annotation import Cost
from ares.episode import Json
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
from ares_annotators.base import PaidFailure, Work
from ares_annotators.grade.additions import find_unknown_words, split_words, stem_word
from ares_annotators.grade.judge import GradeCase, Judgement
from ares_annotators.grade.list_calls import EntryReply
from ares_annotators.grade.observation import ObservedPart
from ares_annotators.grade.questions import (
    CANNOT_TELL,
    ExtraWords,
    SlotOptions,
    ValuePair,
    bare_value,
    make_pair,
    slot_options,
    verdict_of_answer,
)
from ares_annotators.grade.segment_fit import SameValue, list_neighbours, rule_on_span
from ares_annotators.grade.segment_observer import ObservationOutcome, WorkObservation, segment_of

_SAME, _REWORDED = "the observation says the same", "the observation says it in other words"
_SHOWS_NOTHING = "the observation shows nothing"
_UNSEEN, _NO_ANSWER = ObservedPart(value=NOT_VISIBLE), ObservedPart(value="")

# Chooses another value of a slot where the observation has none: of a dataset, beside a value, for a segment.
RivalChooser = Callable[[str, SlotName, str, str], str]


class SlotSettlement:
    """One caption, from its observation to its last ruling.

    Args:
        case: The caption.
        judge: Portable name of the model.
        choose_rival: Chooses another value where the observation has none.
    """

    def __init__(self, case: GradeCase, judge: str, choose_rival: RivalChooser) -> None:
        self.case = case
        self._judge, self._choose_rival = judge, choose_rival
        self._rulings: dict[str, Ruling] = {}
        # By criterion why it is asked of the frames, and by slot what the caption's value is set against.
        self._contested: dict[str, str] = {}
        self._rivals: dict[SlotName, str] = {}
        self._seen: WorkObservation | None = None
        self._around: list[WorkObservation] = []
        self._failure: AresError | None = None
        self._cost = self._paid = Cost()
        self._rule_on_claims()

    @property
    def needs_observation(self) -> bool:
        """Whether an open criterion is about what the frames show, and no gate has failed."""
        return any(item.slot != "additions" for item in self._open())

    @property
    def neighbours(self) -> list[Work]:
        """The segments before and after, where a criterion sets the caption against what is seen in them."""
        asks = any(item.slot == "span" for item in self._open())
        return list_neighbours(self.case.work) if asks else []

    def see(
        self,
        outcome: ObservationOutcome,
        neighbours: Sequence[ObservationOutcome] = (),
    ) -> None:
        """Take what was observed, and rule on what it decides alone.

        Args:
            outcome: What was observed in the segment.
            neighbours: What was observed in those before and after it.
        """
        seen: list[WorkObservation] = []
        for item in (outcome, *neighbours):
            if not isinstance(item, WorkObservation):
                paid = item.cost if isinstance(item, PaidFailure) else Cost()
                self.charge(paid, paid)
                self.fail(item.error if isinstance(item, PaidFailure) else item)
                return
            self.charge(item.cost, item.paid)
            seen.append(item)
        self._seen, *self._around = seen
        if not self._seen.observation.visible_values:
            for criterion in self._open():
                self._rule(criterion, Verdict.UNSURE, _SHOWS_NOTHING, part=_UNSEEN, margin=0.0)
            return
        for criterion in self._open():
            self._rule_by_observation(criterion)

    def charge(self, cost: Cost, paid: Cost) -> None:
        """Count a call that was made for this caption, or for several of which this one pays for it.

        Args:
            cost: What it costs, whenever it was paid.
            paid: What was paid for it now.
        """
        self._cost, self._paid = self._cost + cost, self._paid + paid

    def fail(self, error: AresError) -> None:
        """The caption cannot be graded: the model or its frames cannot be read."""
        self._failure = self._failure or error

    def rule_on_words(self, known_words: Callable[[str, str], Collection[str]]) -> None:
        """Leave a value in doubt that has words which nobody else uses of the dataset: no model is shown them.

        Args:
            known_words: Words of a dataset that a slot may say, see `DatasetWords`.
        """
        episode = self.case.work.episode
        stated = {stem_word(word) for text in episode.instructions for word in split_words(text)}
        doubtful = ""
        for criterion in [] if self.case.is_control else self._open():
            claimed, slot = self._claimed(criterion).removeprefix(f"{OTHER}: "), criterion.slot or ""
            if slot == "outcome":
                continue
            if slot == "additions":
                claimed, slot = " ".join(self.case.extra_words), ""
            if unknown := find_unknown_words(claimed, {*known_words(episode.dataset, slot), *stated}):
                reason = f"no observation and no instruction has the words: {', '.join(unknown)}"
                self._rule(criterion, Verdict.UNSURE, reason, source="hard", margin=0.0)
                doubtful = doubtful or criterion.id
        # The question about them shows all values of a caption.
        for criterion in [item for item in self._open() if doubtful and item.slot == "additions"]:
            reason = f"not asked, {doubtful} is in doubt"
            self._rule(criterion, Verdict.UNSURE, reason, source="hard", margin=0.0)

    def open_pairs(self) -> list[ValuePair]:
        """The pairs of values to compare."""
        return [self._pair(slot) for _, slot in self._open_slots()]

    def take_comparisons(self, find: Callable[[ValuePair], Json]) -> None:
        """Take what a model of texts says of the pairs; what are not the same is contested.

        Args:
            find: The answer about a pair; None where there is none.
        """
        for criterion, slot in self._open_slots():
            answer, part = find(self._pair(slot)), self._part(slot)
            if answer == "same":
                self._rule(criterion, Verdict.MET, _REWORDED, source="comparison", part=part)
                continue
            self._contested[criterion.id] = f"the observation says {part.value!r}"
            # A red thing may be large, too: where values can both be true, they are no rivals.
            if slot != "attributes" or answer == "different":
                self._rivals[slot] = self._observed_rest(slot)

    def rule_on_spans(self, is_same: SameValue) -> None:
        """The ruling of code on whether the caption is of its segment.

        Args:
            is_same: Whether two values of a slot mean the same.
        """
        around = [other.observation for other in self._around]
        for criterion in [item for item in self._open() if item.slot == "span"]:
            if self._seen:
                fit = rule_on_span(self.case.slots, self._seen.observation, around, is_same)
                self._rule(criterion, fit.verdict, fit.reason, part=fit.seen, margin=fit.margin)

    def open_choices(self) -> tuple[SlotOptions, ...]:
        """The choices that the frames decide, one for each contested slot."""
        segment = segment_of(self.case.work.subject)
        return tuple(
            slot_options(segment, slot, self._claimed_rest(slot), self._rival_value(slot))
            for item in self._open()
            if (slot := item.slot) in SLOTS
        )

    def take_choices(self, replies: Mapping[SlotName, EntryReply[ObservedPart]]) -> None:
        """Take the choices by slot."""
        for criterion in self._open():
            if (slot := criterion.slot) in SLOTS:
                self._take_choice(criterion, slot, replies[slot])

    def open_words(self) -> ExtraWords | None:
        """The words beside the slots, where a model of texts is to be asked about them."""
        if not any(item.slot == "additions" for item in self._open()):
            return None
        return ExtraWords(tuple(self.case.extra_words), tuple(self.case.slots.items()))

    def take_words(self, reply: EntryReply[Json]) -> None:
        """Take which of the words beside the slots say more."""
        words = [str(word) for word in reply.answer] if isinstance(reply.answer, list) else []
        shown = ", ".join(word for word in words if word in self.case.extra_words) or "unnamed words"
        reason = reply.problem or f"words that no slot bears: {shown}"
        is_met = not words and not reply.problem
        for criterion in [item for item in self._open() if item.slot == "additions"]:
            self._rule(
                criterion,
                Verdict.MET if is_met else Verdict.UNSURE,
                "the words beside the slots say nothing more" if is_met else reason,
                source="comparison",
                margin=1.0 if is_met else 0.0,
                reply=reply.text,
            )

    def result(self) -> Judgement | PaidFailure | AresError:
        """The rulings in the order of the criteria, or the failure with what was paid."""
        if self._failure:
            return PaidFailure(self._failure, self._paid) if self._paid.calls else self._failure
        for criterion in [item for item in self.case.criteria if item.id not in self._rulings]:
            reason = f"not asked, {self._failed_gate()} is not met"
            self._rule(criterion, Verdict.UNSURE, reason, source="hard", margin=0.0)
        seen = [item for item in (self._seen, *self._around) if item]
        return Judgement(
            rulings=[self._rulings[criterion.id] for criterion in self.case.criteria],
            cost=self._cost,
            paid=self._paid,
            observations=[item.annotation for item in seen if item.annotation],
            seen=[self._seen.observation] if self._seen else [],
        )

    def _open(self) -> list[Criterion]:
        """The criteria without a ruling; none of a caption that a gate refuses, or that failed."""
        if self._failure or self._failed_gate():
            return []
        return [item for item in self.case.criteria if item.id not in self._rulings]

    def _open_slots(self) -> list[tuple[Criterion, SlotName]]:
        """Open criteria of which the observation says something that the caption does not, with their slots."""
        return [
            (item, slot) for item in self._open() if (slot := item.slot) in SLOTS and self._can_compare(slot)
        ]

    def _failed_gate(self) -> str:
        """Id of a gate that is not met, or ""."""
        gates = {name for name, category in self.case.rubric.categories if category in GATES}
        rulings = (*self.case.rulings, *self._rulings.values())
        failed = (item.criterion for item in rulings if item.verdict is Verdict.UNMET)
        return next((name for name in failed if name in gates), "")

    def _rule_on_claims(self) -> None:
        """What code says of values that are none, and of a sentence that says nothing beside its slots."""
        for criterion in self.case.criteria:
            if criterion.slot == "additions" and not self.case.extra_words:
                self._rule(criterion, Verdict.MET, "every word is borne by a slot", source="hard")
            elif criterion.slot in SLOTS and not self.case.is_control:
                problem = _claim_problem(criterion.slot, self._claimed(criterion))
                if problem:
                    self._rule(criterion, Verdict.UNSURE, problem, source="hard", margin=0.0)

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

    def _take_choice(self, criterion: Criterion, slot: SlotName, reply: EntryReply[ObservedPart]) -> None:
        answer = reply.answer or _NO_ANSWER
        verdict, reason = verdict_of_answer(reply, bare_value(slot, self._claimed_rest(slot)))
        part = self._part(slot)
        observed = answer.value if answer.value not in ("", OTHER, CANNOT_TELL) else part.value
        seen = ObservedPart(
            value=observed if part.is_visible or observed != part.value else NOT_VISIBLE,
            seconds=answer.seconds or part.seconds,
            confidence=answer.confidence,
        )
        seen_value = part.value if part.is_visible else NOT_VISIBLE
        self._contested.setdefault(criterion.id, f"the observation says {seen_value!r}")
        self._rule(criterion, verdict, reason, source="choice", part=seen, reply=reply.text)

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


def _claim_problem(slot: SlotName, claimed: str) -> str:
    """Why no model is shown a value of a caption, or ""."""
    if not is_short_value(claimed):
        return "its value is no short value" if claimed else "caption does not say"
    if slot == "outcome":
        return "" if claimed in (COMPLETED, NOT_COMPLETED) else "caption states no outcome"
    return "its value says nothing" if normalize_value(claimed) in (OTHER, CANNOT_TELL, NOT_VISIBLE) else ""


def without_values(attributes: str, others: str) -> str:
    """The attributes that are not among others."""
    known = {normalize_value(part) for part in others.split(",")}
    return join_attributes([part for part in attributes.split(",") if normalize_value(part) not in known])
