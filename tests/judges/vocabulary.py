"""The words of the world: things, places, actions and their synonyms; written without a look at any list of ARES."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

SLOT_NAMES = ("action", "object", "attributes", "from", "to", "hand", "manner", "count", "outcome")
COMPLETED, NOT_COMPLETED, NOT_VISIBLE = "completed", "not completed", "not visible"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An action with its forms in sentences and what it is done with.

    Attributes:
        name: The verb of the guide.
        forms: Imperative, third person and participle, of each way to say it; the plain one first.
        objects: Things that it is done with.
        has_from: Whether a start can be said.
        to: Places where it ends; empty where it has no end of its own.
        preposition: Before such a place.
        is_countable: Whether it can be done several times.
        swap: Other actions that a caption may name in its place.
    """

    name: str
    forms: Sequence[tuple[str, str, str]]
    objects: Sequence[str]
    has_from: bool = False
    to: Sequence[str] = ()
    preposition: str = "in"
    is_countable: bool = False
    swap: Sequence[str] = field(default=())


# Each canonical value with what says the same.
OBJECTS: Mapping[str, Sequence[str]] = {
    "mug": ("cup",),
    "spanner": ("wrench",),
    "torch": ("flashlight",),
    "rag": ("cloth",),
    "parcel": ("package",),
    "rucksack": ("backpack",),
    "pitcher": ("jug",),
    "eraser": ("rubber",),
    "aubergine": ("eggplant",),
    "courgette": ("zucchini",),
    "screwdriver": (),
    "spoon": (),
    "fork": (),
    "stapler": (),
    "bottle": ("flask",),
    "tomato": (),
    "padlock": (),
    "kettle": ("teakettle",),
    "battery": (),
    "key": (),
    "plug": (),
    "lamp": ("light",),
    "fan": ("ventilator",),
    "radio": (),
    "knob": (),
    "dial": (),
    "tap": ("faucet",),
    "towel": (),
    "shirt": (),
    "napkin": ("serviette",),
    "window": (),
    "tabletop": ("table surface",),
    "whiteboard": (),
    "chair": (),
    "trolley": ("cart",),
    "crate": (),
}
PLACES: Mapping[str, Sequence[str]] = {
    "drawer": (),
    "cupboard": ("cabinet",),
    "bin": ("trash can",),
    "basket": ("hamper",),
    "counter": ("worktop",),
    "sink": ("basin",),
    "bowl": (),
    "box": ("carton",),
    "shelf": (),
    "toolbox": ("tool case",),
    "tray": (),
    "socket": ("outlet",),
    "lock": (),
    "holder": (),
    "bucket": ("pail",),
    "pot": ("saucepan",),
}
COLOURS: Mapping[str, Sequence[str]] = {
    "red": (),
    "blue": (),
    "green": (),
    "yellow": (),
    "black": (),
    "white": (),
    "orange": (),
    "purple": ("violet",),
    "grey": ("gray",),
}
SIZES: Mapping[str, Sequence[str]] = {"small": ("little",), "large": ("big",), "wooden": (), "plastic": ()}
HANDS: Mapping[str, Sequence[str]] = {
    "left hand": ("left arm", "left gripper"),
    "right hand": ("right arm", "right gripper"),
}
MANNERS: Mapping[str, Sequence[str]] = {
    "slowly": (),
    "quickly": ("fast",),
    "gently": ("softly",),
    "jerkily": (),
}
COUNTS: Mapping[str, Sequence[str]] = {"twice": ("two times",), "three times": ("thrice",), "four times": ()}

_HELD = (
    "mug", "spanner", "torch", "rag", "parcel", "rucksack", "pitcher", "eraser", "aubergine", "courgette",
    "screwdriver", "spoon", "fork", "stapler", "bottle", "tomato", "padlock",
)  # fmt: skip
_STORES = ("drawer", "cupboard", "basket", "sink", "bowl", "box", "toolbox", "bucket", "pot", "bin")
ACTIONS: Mapping[str, Action] = {
    action.name: action
    for action in (
        Action(
            name="place",
            forms=(
                ("place", "places", "placed"),
                ("put", "puts", "put"),
                ("set down", "sets down", "set down"),
            ),
            objects=_HELD,
            has_from=True,
            to=_STORES,
            swap=("throw", "drop"),
        ),
        Action(
            name="pick up",
            forms=(
                ("pick up", "picks up", "picked up"),
                ("grab", "grabs", "grabbed"),
                ("take", "takes", "taken"),
            ),
            objects=_HELD,
            has_from=True,
            swap=("push", "shake", "touch"),
        ),
        Action(
            name="push",
            forms=(("push", "pushes", "pushed"), ("shove", "shoves", "shoved")),
            objects=("chair", "trolley", "crate", "parcel", "rucksack"),
            is_countable=True,
            swap=("pull", "touch"),
        ),
        Action(
            name="pull",
            forms=(("pull", "pulls", "pulled"), ("tug", "tugs", "tugged")),
            objects=("chair", "trolley", "crate", "parcel", "rucksack"),
            is_countable=True,
            swap=("push", "touch"),
        ),
        Action(
            name="open",
            forms=(("open", "opens", "opened"), ("open up", "opens up", "opened up")),
            objects=("drawer", "cupboard", "box", "toolbox", "window"),
            swap=("close",),
        ),
        Action(
            name="close",
            forms=(("close", "closes", "closed"), ("shut", "shuts", "shut")),
            objects=("drawer", "cupboard", "box", "toolbox", "window"),
            swap=("open",),
        ),
        Action(
            name="insert",
            forms=(("insert", "inserts", "inserted"), ("stick", "sticks", "stuck")),
            objects=("battery", "key", "plug"),
            has_from=True,
            to=("socket", "lock", "holder"),
            preposition="into",
            swap=("throw",),
        ),
        Action(
            name="turn on",
            forms=(("turn on", "turns on", "turned on"), ("switch on", "switches on", "switched on")),
            objects=("lamp", "fan", "radio", "kettle"),
            swap=("turn off",),
        ),
        Action(
            name="turn off",
            forms=(("turn off", "turns off", "turned off"), ("switch off", "switches off", "switched off")),
            objects=("lamp", "fan", "radio", "kettle"),
            swap=("turn on",),
        ),
        Action(
            name="rotate",
            forms=(("rotate", "rotates", "rotated"), ("twist", "twists", "twisted")),
            objects=("knob", "dial", "tap"),
            is_countable=True,
            swap=("press", "pull"),
        ),
        Action(
            name="fold",
            forms=(("fold", "folds", "folded"), ("fold up", "folds up", "folded up")),
            objects=("towel", "shirt", "napkin", "rag"),
            is_countable=True,
            swap=("unfold", "shake"),
        ),
        Action(
            name="wipe",
            forms=(("wipe", "wipes", "wiped"), ("wipe down", "wipes down", "wiped down")),
            objects=("tabletop", "whiteboard", "window", "tray"),
            is_countable=True,
            swap=("touch", "hit"),
        ),
    )
}
# Actions that only false captions name.
SWAPPED_FORMS: Mapping[str, tuple[str, str, str]] = {
    "throw": ("throw", "throws", "thrown"),
    "drop": ("drop", "drops", "dropped"),
    "touch": ("touch", "touches", "touched"),
    "shake": ("shake", "shakes", "shaken"),
    "press": ("press", "presses", "pressed"),
    "unfold": ("unfold", "unfolds", "unfolded"),
    "hit": ("hit", "hits", "hit"),
}
VALUES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "object": {**OBJECTS, **PLACES},
    "attributes": {**COLOURS, **SIZES},
    "from": {**PLACES, **OBJECTS},
    "to": {**PLACES, **OBJECTS},
    "hand": HANDS,
    "manner": MANNERS,
    "count": COUNTS,
    "outcome": {COMPLETED: ("success", "done"), NOT_COMPLETED: ("failure", "failed")},
}
# Words that claim nothing, which a reader of English knows.
_GLUE = """
a an the of with and its it is are being been by to into onto in on from out at this that robot arm hand gripper manages
successfully tries try attempt attempts fails fail failing but without success succeeding be was were then using uses
use one manipulator machine over up down off
"""
GLUE_WORDS = frozenset(_GLUE.split())


def action_forms(name: str) -> Sequence[tuple[str, str, str]]:
    """The ways to say an action, plain one first."""
    return ACTIONS[name].forms if name in ACTIONS else (SWAPPED_FORMS[name],)


def plain_words(text: str) -> str:
    """A text in lower case, without articles and punctuation."""
    words = re.findall(r"[^\W_]+(?:['-][^\W_]+)*", text.lower())
    return " ".join(word for word in words if word not in ("the", "a", "an"))


def canonical(slot: str, value: str) -> str:
    """What a value means: the same text for all that says the same; the plain words where the world lacks it."""
    if slot == "attributes":
        parts = {_canonical_word("attributes", part) for part in value.split(",") if part.strip()}
        return ", ".join(sorted(parts))
    if slot == "action":
        return _canonical_action(plain_words(value.removeprefix("other:")))
    return _canonical_word(slot, value)


def _canonical_word(slot: str, value: str) -> str:
    text = plain_words(value)
    if slot in ("from", "to", "hand"):
        text = re.sub(r"^(out of|in|into|on|onto|from|with|to) ", "", text)
    for name, others in VALUES[slot].items():
        if text == name or text in others:
            return name
    return text


def _canonical_action(text: str) -> str:
    for name in (*ACTIONS, *SWAPPED_FORMS):
        if any(text in forms for forms in action_forms(name)):
            return name
    return text
