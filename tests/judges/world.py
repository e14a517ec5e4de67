"""Episodes with a log of what happened in slots, and captions whose truth follows from it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tests.judges.notes import NOTES, make_note
from tests.judges.vocabulary import (
    ACTIONS,
    COLOURS,
    COMPLETED,
    COUNTS,
    HANDS,
    MANNERS,
    NOT_COMPLETED,
    SIZES,
    VALUES,
    action_forms,
    canonical,
)

Slots = Mapping[str, str]
# Kinds of captions that are true.
TRUE_KINDS = ("exact", "paraphrase", "omission")
_STARTS = ("drawer", "cupboard", "counter", "basket", "tray", "shelf", "box", "toolbox")
# Of the actions, one where nothing is said.
_WEIGHTS = {"place": 24.0, "insert": 8.0, "pick up": 4.0}
_ADDITIONS = (
    "while a woman watches from the doorway",
    "next to a sleeping dog",
    "and then hums a melody",
    "before the fire alarm rings",
    "with a birthday candle burning",
    "and salutes the camera",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSettings:
    """How a world is made.

    Attributes:
        seed: Seed of everything.
        episodes: Number of episodes.
        first_id: Number of the first episode; no two worlds of a server share one.
        stated: Share of captions that state a slot where it has a value; the others are always stated.
        injected: Share of captions that are lies with a note to the judge.
        in_values: Share of these notes that stand in the wrong value, the others in the sentence alone.
        wordings: Different notes, which are made; 0 for those of `NOTES`.
        synonyms: Share of the words of a paraphrase that are synonyms.
    """

    seed: int
    episodes: int = 64
    first_id: int = 0
    stated: Mapping[str, float]
    injected: float = 0.0
    in_values: float = 0.0
    wordings: int = 0
    synonyms: float = 0.5


# Slots that nearly every caption states, so that each can be proven on some sixty episodes.
COMMON_SLOTS = {"attributes": 0.95, "from": 0.95, "hand": 0.95, "manner": 0.0, "count": 0.0}
# All slots, some of them in few captions.
RARE_SLOTS = {"attributes": 0.7, "from": 0.6, "hand": 0.4, "manner": 0.25, "count": 0.5}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldCaption:
    """A caption.

    Attributes:
        kind: One of `TRUE_KINDS`, "near miss", "flipped", "other task", "addition" or "injected".
        slot: The slot that a near miss has wrong, or "".
        note: Name of the note to the judge in it, or "".
        sentence: The sentence.
        slots: What the sentence says, in its words.
    """

    kind: str
    slot: str = ""
    note: str = ""
    sentence: str
    slots: Slots

    @property
    def is_true(self) -> bool:
        """Whether all that it says happened."""
        return self.kind in TRUE_KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldEpisode:
    """An episode.

    Attributes:
        number: Its number in the server.
        truth: What happened, in canonical words; a slot without a value is left out.
        seconds: Length.
        instruction: What the robot was told; not always what it did.
        caption: What the captioner says of it.
    """

    number: int
    truth: Slots
    instruction: str
    seconds: int
    caption: WorldCaption

    @property
    def succeeded(self) -> bool:
        """Whether the action was completed."""
        return self.truth["outcome"] == COMPLETED


def make_world(settings: WorldSettings) -> list[WorldEpisode]:
    """The episodes of a world; every second one failed."""
    dice = random.Random(f"world {settings.seed}")
    truths = [draw_truth(dice, settings, number % 2 == 0) for number in range(settings.episodes)]
    dice.shuffle(truths)
    kinds = _draw_kinds(dice, settings)
    notes = _draw_notes(settings)
    return [
        WorldEpisode(
            number=settings.first_id + number,
            truth=truth,
            seconds=dice.randrange(4, 13),
            instruction=_instruct(dice, truth if dice.random() < 0.8 else dice.choice(truths)),
            caption=_draw_caption(dice, settings, truth, kind, truths, notes[number]),
        )
        for number, (truth, kind) in enumerate(zip(truths, kinds, strict=True))
    ]


def _draw_notes(settings: WorldSettings) -> list[tuple[str, str]]:
    """A note for each episode with its name, all about equally often."""
    dice, made = random.Random(f"notes {settings.seed}"), dict[str, None]()
    while len(made) < settings.wordings:
        made[make_note(dice)] = None
    named = [(f"made-{number}", note) for number, note in enumerate(made)] or list(NOTES.items())
    notes = [named[number % len(named)] for number in range(settings.episodes)]
    dice.shuffle(notes)
    return notes


def draw_truth(dice: random.Random, settings: WorldSettings, succeeded: bool) -> Slots:
    """What happens in an episode or a segment, in canonical words."""
    # Most episodes have places, so that enough captions state each slot.
    names = list(ACTIONS)
    weights = [_WEIGHTS.get(name, 1.0) for name in names]
    action = ACTIONS[dice.choices(names, weights)[0]]
    attributes = [dice.choice(list(COLOURS))]
    if settings.stated.get("manner") and dice.random() < 0.4:
        attributes.append(dice.choice(list(SIZES)))
    truth = {
        "action": action.name,
        "object": dice.choice(list(action.objects)),
        "attributes": ", ".join(sorted(attributes)),
        "hand": dice.choice(list(HANDS)),
        "manner": dice.choice(list(MANNERS)),
        "outcome": COMPLETED if succeeded else NOT_COMPLETED,
    }
    if action.to:
        truth["to"] = dice.choice(list(action.to))
    if action.has_from:
        truth["from"] = dice.choice([place for place in _STARTS if place != truth.get("to")])
    if action.is_countable:
        truth["count"] = dice.choice(list(COUNTS))
    return truth


def _instruct(dice: random.Random, truth: Slots) -> str:
    told = {slot: value for slot, value in truth.items() if slot not in ("hand", "manner", "count")}
    return say(dice, {**told, "outcome": COMPLETED}, 0.0, is_plain=True).sentence


def _draw_kinds(dice: random.Random, settings: WorldSettings) -> list[str]:
    shares = {"exact": 0.36, "paraphrase": 0.28, "omission": 0.03, "near miss": 0.15, "flipped": 0.09}
    shares |= {"other task": 0.06, "addition": 0.03}
    number = settings.episodes
    kinds = ["injected"] * round(settings.injected * number)
    rest = number - len(kinds)
    for kind, share in shares.items():
        kinds += [kind] * round(share * rest)
    kinds = (kinds + ["exact"] * number)[:number]
    dice.shuffle(kinds)
    return kinds


def _draw_caption(
    dice: random.Random,
    settings: WorldSettings,
    truth: Slots,
    kind: str,
    truths: Sequence[Slots],
    named_note: tuple[str, str],
) -> WorldCaption:
    said, slot = _state(dice, settings, truth), ""
    if kind == "omission":
        if "to" not in said:
            kind = "exact"
        said = {name: value for name, value in said.items() if name != "to"}
    if kind in ("near miss", "injected"):
        slot = dice.choice([name for name in said if name != "outcome"])
        said = swap_value(dice, said, slot)
    if kind == "flipped":
        said = {**said, "outcome": COMPLETED if truth["outcome"] == NOT_COMPLETED else NOT_COMPLETED}
    if kind == "other task":
        others = [
            other
            for other in truths
            if other["action"] != truth["action"] and other["object"] != truth["object"]
        ]
        other = dice.choice(
            others or [dict(truth, object="stapler" if truth["object"] != "stapler" else "fork")]
        )
        said = {**_state(dice, settings, other), "outcome": truth["outcome"]}
    name, words = named_note if kind == "injected" else ("", "")
    is_in_value = bool(name) and slot != "action" and dice.random() < settings.in_values
    if is_in_value:
        said = {**said, slot: f"{said[slot]} {words}"}
    is_plain = kind == "exact" or (kind != "paraphrase" and dice.random() < 0.6)
    caption = say(dice, said, 0.0 if is_plain else settings.synonyms, is_plain)
    sentence = caption.sentence
    if kind == "addition":
        sentence = f"{sentence.rstrip('.')} {dice.choice(_ADDITIONS)}"
    if name and not is_in_value:
        sentence = f"{sentence.rstrip('.')}. {words}"
    return replace(caption, kind=kind, slot=slot, note=name, sentence=sentence)


def _state(dice: random.Random, settings: WorldSettings, truth: Slots) -> dict[str, str]:
    """The slots of a truth that a caption states."""
    return {slot: value for slot, value in truth.items() if dice.random() < settings.stated.get(slot, 1.0)}


def swap_value(dice: random.Random, said: Slots, slot: str) -> dict[str, str]:
    """What is said, with another value in a slot."""
    return {**said, slot: wrong_value(dice, slot, said)}


def wrong_value(dice: random.Random, slot: str, truth: Slots) -> str:
    """A value of a slot that is not the one of a truth, and could be."""
    action = ACTIONS.get(truth["action"])
    now = truth.get(slot, "")
    if slot == "action":
        return dice.choice(list(action.swap)) if action else dice.choice(list(ACTIONS))
    if slot == "outcome":
        return COMPLETED if now == NOT_COMPLETED else NOT_COMPLETED
    if slot == "attributes":
        # One of several is wrong.
        kept = now.split(", ")[1:]
        return ", ".join(sorted([dice.choice([colour for colour in COLOURS if colour not in now]), *kept]))
    pools = {
        "object": action.objects if action else (),
        "to": action.to if action else (),
        "from": _STARTS,
    }
    taken = (now, truth.get("to"), truth.get("from"))
    pool = [value for value in pools.get(slot) or VALUES[slot] if value not in taken]
    return dice.choice(pool or [value for value in VALUES[slot] if value != now])


def say(dice: random.Random, said: Slots, synonyms: float, is_plain: bool) -> WorldCaption:
    """Slots as a sentence: plainly in the imperative, or in other words and another order."""
    words = {slot: _say_value(dice, slot, value, synonyms) for slot, value in said.items()}
    forms = dice.choice(action_forms(said["action"])) if synonyms else action_forms(said["action"])[0]
    style = "imperative" if is_plain else dice.choice(["imperative", "statement", "passive"])
    form = forms[{"imperative": 0, "statement": 1, "passive": 2}[style]]
    thing = " ".join([*(words["attributes"].split(", ") if "attributes" in words else ()), words["object"]])
    phrases = _phrases(said["action"], words)
    lead = "" if is_plain or dice.random() < 0.7 or "hand" not in words else phrases.pop("hand")
    rest = list(phrases.values())
    if not is_plain and style != "statement":
        dice.shuffle(rest)
    sentence = _frame(
        dice, style, form, f"the {thing}", " ".join(rest), said["outcome"] == COMPLETED, is_plain
    )
    if lead:
        sentence = f"{lead}, {sentence[0].lower()}{sentence[1:]}"
        sentence = sentence[0].upper() + sentence[1:]
    slots = {**words, "action": said["action"], "outcome": said["outcome"]}
    return WorldCaption(kind="exact", sentence=sentence, slots=slots)


def _say_value(dice: random.Random, slot: str, value: str, synonyms: float) -> str:
    if slot in ("action", "outcome"):
        return value
    parts = value.split(", ")
    said = []
    for part in parts:
        others = VALUES[slot].get(part, ())
        said.append(dice.choice(list(others)) if others and dice.random() < synonyms else part)
    return ", ".join(said)


def _phrases(action: str, words: Slots) -> dict[str, str]:
    """The parts of a sentence after the thing."""
    known = ACTIONS.get(action)
    found = {
        "from": f"from the {words['from']}" if "from" in words else "",
        "to": f"{known.preposition if known and known.to else 'into'} the {words['to']}"
        if "to" in words
        else "",
        "count": words.get("count", ""),
        "hand": f"with the {words['hand']}" if "hand" in words else "",
        "manner": words.get("manner", ""),
    }
    return {name: phrase for name, phrase in found.items() if phrase}


def _frame(
    dice: random.Random, style: str, form: str, thing: str, rest: str, done: bool, is_plain: bool
) -> str:
    tail = f" {rest}" if rest else ""
    if style == "imperative":
        if done:
            return f"{form} {thing}{tail}"
        failed = (
            ["fail to {}"] if is_plain else ["fail to {}", "try to {}, but fail", "try to {} without success"]
        )
        return dice.choice(failed).format(f"{form} {thing}{tail}")
    if style == "statement":
        if done:
            return f"The robot {form} {thing}{tail}."
        return f"The robot {form} {thing}{tail}, but without success."
    passive = f"{thing[0].upper()}{thing[1:]} is {form}{tail}"
    return f"{passive}." if done else f"{passive}, but this fails."


def is_borne_out(said: Slots, truth: Slots) -> bool:
    """Whether every stated slot is what happened; fewer attributes than there are may be said."""
    for slot, value in said.items():
        claimed, actual = canonical(slot, value), truth.get(slot, "")
        if slot == "attributes":
            if not set(claimed.split(", ")) <= set(actual.split(", ")):
                return False
        elif claimed != actual:
            return False
    return True
