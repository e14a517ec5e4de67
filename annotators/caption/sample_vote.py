"""Several blind captions of the same frames as one: the sample that has most of the values that most of them have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ares.rubric import SLOTS, SlotValues

# Temperature of several samples; a single one is the most probable reply.
SAMPLE_TEMPERATURE = 0.7


class VotedCaption(NamedTuple):
    """A caption by majority: one sample as it is, so that its sentence never says other than its slots.

    Attributes:
        sentence: Its sentence.
        slots: Its slots.
        agreement: Mean share of the samples that were asked for with its value, over the slots that any states.
    """

    sentence: str
    slots: SlotValues
    agreement: float


def vote_slots(samples: Sequence[tuple[str, SlotValues]], requested: int) -> VotedCaption:
    """The sample whose values most others have, slot by slot; of equally many the first.

    Args:
        samples: One or more samples that could be read, each a sentence and its slots.
        requested: Samples that were asked for.
    """
    forms = [{slot: _normal_form(slots.get(slot, "")) for slot in SLOTS} for _, slots in samples]
    votes = {slot: Counter(form[slot] for form in forms) for slot in SLOTS}
    counts = [[votes[slot][form[slot]] for slot in SLOTS if any(votes[slot])] for form in forms]
    nearest = max(range(len(forms)), key=lambda number: sum(counts[number]))
    shares = [count / requested for count in counts[nearest]]
    return VotedCaption(*samples[nearest], sum(shares) / len(shares) if shares else len(samples) / requested)


def _normal_form(value: str) -> str:
    return " ".join(value.casefold().split())
