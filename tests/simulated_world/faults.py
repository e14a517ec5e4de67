"""Captions with one fault each, and the criterion that has to find it; each is held against the log of its episode."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tests.simulated_world.drawing import COLOURS
from tests.simulated_world.events import VERBS, Claim, EventLog, false_criteria, true_claim
from tests.simulated_world.wordings import wordings

_ADDITIONS = (
    "while a person watches",
    "and wipe the table",
    "with a screwdriver",
    "next to the sleeping dog",
)
_KINDS = ("cube", "ball", "can", "cup", "box")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyCaption:
    """A false caption.

    Attributes:
        fault: What was changed.
        criterion: The criterion of the shipped rubric that the change breaks.
        claim: What the caption says.
        text: The caption.
    """

    fault: str
    criterion: str
    claim: Claim
    text: str


Change = Callable[[Claim, EventLog, random.Random], Claim | None]


def _verb(claim: Claim, log: EventLog, dice: random.Random) -> Claim:
    others = [verb for verb in VERBS if verb not in (claim.verb, "lift" if claim.verb == "place" else "")]
    verb = dice.choice(others)
    return replace(
        claim,
        verb=verb,
        target=claim.target if verb in ("place", "pour") else "",
        source="",
        direction="left" if verb == "push" else "",
    )


def _kind(claim: Claim, log: EventLog, dice: random.Random) -> Claim:
    return replace(claim, kind=dice.choice([kind for kind in _KINDS if kind != claim.kind]))


def _colour(claim: Claim, log: EventLog, dice: random.Random) -> Claim:
    return replace(claim, colour=dice.choice([colour for colour in COLOURS if colour != claim.colour]))


def _target(claim: Claim, log: EventLog, dice: random.Random) -> Claim | None:
    places = [f"{colour} {kind}" for colour in COLOURS for kind in ("bin", "bowl")]
    return replace(claim, target=dice.choice(places)) if claim.target else None


def _source(claim: Claim, log: EventLog, dice: random.Random) -> Claim | None:
    trays = [f"{colour} tray" for colour in COLOURS]
    return replace(claim, source=dice.choice(trays)) if claim.source else None


def _direction(claim: Claim, log: EventLog, dice: random.Random) -> Claim | None:
    return replace(claim, direction=dice.choice(["left", "right"])) if claim.direction else None


def _arm(claim: Claim, log: EventLog, dice: random.Random) -> Claim:
    return replace(claim, arm=dice.choice(["left", "right"]))


def _order(claim: Claim, log: EventLog, dice: random.Random) -> Claim | None:
    return replace(claim, is_reversed=True) if claim.verb == "place" else None


def _outcome(claim: Claim, log: EventLog, dice: random.Random) -> Claim:
    return replace(claim, succeeded=not claim.succeeded)


def _omission(claim: Claim, log: EventLog, dice: random.Random) -> Claim | None:
    return replace(claim, verb="lift", target="", source="") if claim.verb == "place" else None


def _addition(claim: Claim, log: EventLog, dice: random.Random) -> Claim:
    return replace(claim, addition=dice.choice(_ADDITIONS))


def _neighbour(claim: Claim, log: EventLog, dice: random.Random) -> Claim:
    colour, kind = dice.choice(log.names).split()
    return replace(claim, colour=colour, kind=kind)


def _negation(claim: Claim, log: EventLog, dice: random.Random) -> Claim:
    return replace(claim, is_negated=True)


# What is changed, with the criterion that it breaks.
FAULTS: Mapping[str, tuple[str, Change]] = {
    "verb": ("VERB", _verb),
    "object": ("OBJECT", _kind),
    "colour": ("ATTRIBUTES", _colour),
    "destination": ("DESTINATION", _target),
    "source": ("SOURCE", _source),
    "direction": ("DIRECTION", _direction),
    "arm": ("NOADD", _arm),
    "order": ("VERB", _order),
    "outcome": ("OUTCOME", _outcome),
    "omission": ("COMPLETE", _omission),
    "addition": ("NOADD", _addition),
    "neighbour": ("ATTRIBUTES", _neighbour),
    "negation": ("VERB", _negation),
}


def faulty_captions(
    log: EventLog, dice: random.Random, faults: Mapping[str, tuple[str, Change]] = FAULTS
) -> Iterator[FaultyCaption]:
    """One caption for each fault that an episode can have; those that happen to be true are left out."""
    truth = true_claim(log)
    for fault, (criterion, change) in faults.items():
        claim = change(truth, log, dice)
        if claim and false_criteria(claim, log):
            yield FaultyCaption(
                fault=fault, criterion=criterion, claim=claim, text=dice.choice(wordings(claim))
            )


def unmade_faults(
    logs: Sequence[EventLog], seed: int, faults: Mapping[str, tuple[str, Change]] = FAULTS
) -> set[str]:
    """Faults that the generator makes in none of the episodes, or whose captions do not break their criterion."""
    dice = random.Random(seed)
    made = [(log, caption) for log in logs for caption in faulty_captions(log, dice, faults)]
    right = {
        caption.fault for log, caption in made if caption.criterion in false_criteria(caption.claim, log)
    }
    wrong = {
        caption.fault for log, caption in made if caption.criterion not in false_criteria(caption.claim, log)
    }
    return (faults.keys() - right) | wrong
