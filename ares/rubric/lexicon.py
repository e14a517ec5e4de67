"""Word tables of the caption parser: synonyms, prepositions, attributes.

The hash of a grade covers every constant here, by name and value: see `parser_hash`.
"""

from __future__ import annotations

from collections.abc import Mapping

# Each group is one action; its first word is the key by which captions are compared.
VERB_GROUPS: tuple[tuple[str, ...], ...] = (
    ("pick", "grasp", "grab", "take", "lift", "get", "fetch", "raise", "retrieve", "collect"),
    ("place", "put", "set", "lay", "position", "deposit", "drop", "dunk", "return"),
    ("insert", "plug", "fit"),
    ("unplug", "remove", "extract", "detach"),
    ("push", "shove", "nudge"),
    ("pull", "drag", "tug"),
    ("press", "depress", "click"),
    ("turn", "rotate", "twist", "spin"),
    ("close", "shut"),
    ("open",),
    ("move", "reach", "go", "bring", "transfer", "carry"),
    ("sweep", "brush"),
    ("wipe", "clean", "scrub"),
    ("hammer", "drive", "hit", "strike"),
    ("flip", "overturn"),
    ("throw", "toss"),
)
VERB_KEY: Mapping[str, str] = {word: group[0] for group in VERB_GROUPS for word in group}

# Actions for which the gripper holds the object.
GRASP_VERBS = frozenset({"pick", "place", "stack", "hang", "pour"})

# State words decide the action whatever the verb: "push the drawer closed" closes it.
RESULTS: Mapping[str, str] = {
    "open": "open",
    "opened": "open",
    "closed": "close",
    "close": "close",
    "shut": "close",
    "locked": "lock",
    "lock": "lock",
    "unlocked": "unlock",
    "unlock": "unlock",
}
DIRECTIONS: Mapping[str, str] = {
    "up": "up",
    "upward": "up",
    "upwards": "up",
    "down": "down",
    "downward": "down",
    "downwards": "down",
    "left": "left",
    "leftward": "left",
    "right": "right",
    "rightward": "right",
    "forward": "forward",
    "forwards": "forward",
    "back": "back",
    "backward": "back",
    "backwards": "back",
    "sideways": "sideways",
    "clockwise": "clockwise",
    "counterclockwise": "counterclockwise",
    "anticlockwise": "counterclockwise",
}
# Particles that belong to the verb and state no direction.
SILENT_PARTICLES: Mapping[str, frozenset[str]] = {"pick": frozenset({"up"}), "lift": frozenset({"up"})}

TO_RELATIONS: Mapping[str, str] = {
    "on": "on",
    "onto": "on",
    "upon": "on",
    "atop": "on",
    "in": "in",
    "into": "in",
    "inside": "in",
    "to": "at",
    "at": "at",
    "toward": "at",
    "towards": "at",
    "under": "under",
    "beneath": "under",
    "below": "under",
    "underneath": "under",
    "over": "over",
    "above": "over",
    "behind": "behind",
    "before": "before",
    "beside": "beside",
    "near": "beside",
    "between": "between",
    "around": "around",
    "through": "through",
    "against": "against",
    "across": "across",
}
FROM_RELATIONS = frozenset({"from", "off", "out", "away"})
APPROACHES = frozenset(["above", "below", "front", "behind", "side", "left", "right", "top"])
# Prepositions of several words, and the one they stand for.
PHRASES: Mapping[str, str] = {
    "next to": "beside",
    "on top of": "on",
    "out of": "out",
    "in front of": "before",
}
MANNER_WORDS = frozenset({"by", "with", "using", "without", "while"})

# What the arm passes on its way is not a destination.
PATH_RELATIONS = frozenset({"over", "around", "through", "across"})

COLOURS = frozenset(
    [
        "red",
        "green",
        "blue",
        "yellow",
        "orange",
        "purple",
        "pink",
        "brown",
        "black",
        "white",
        "grey",
        "gray",
        "silver",
        "gold",
        "golden",
        "beige",
        "tan",
        "cyan",
    ]
)
SIZES = frozenset(["small", "big", "large", "little", "tiny", "long", "short", "tall", "wide", "narrow"])
MATERIALS = frozenset(
    ["wooden", "metal", "metallic", "plastic", "glass", "brick", "steel", "paper", "rubber", "ceramic"]
)
ATTRIBUTES = COLOURS | SIZES | MATERIALS
ATTRIBUTE_KEY: Mapping[str, str] = {
    "gray": "grey",
    "golden": "gold",
    "metallic": "metal",
    "big": "large",
    "little": "small",
    "tiny": "small",
}

NOUN_KEY: Mapping[str, str] = {
    "cup": "mug",
    "disk": "puck",
    "disc": "puck",
    "shelves": "shelf",
    "hob": "stove",
    "towel": "cloth",
    "rag": "cloth",
    "end-effector": "gripper",
    "hand": "gripper",
    "arm": "gripper",
}
DETERMINERS = frozenset(["the", "a", "an", "its", "their", "this", "that", "these", "those", "some", "one"])
PRONOUNS = frozenset({"it", "them", "itself", "themselves"})
CONJUNCTIONS = frozenset({"and", "then"})
FAILURE_STARTS = (
    "fail to ",
    "fails to ",
    "failed to ",
    "unsuccessfully ",
    "do not manage to ",
    "does not manage to ",
    "did not manage to ",
)
ATTEMPT_STARTS = ("try to ", "tries to ", "tried to ", "attempt to ", "attempts to ", "attempted to ")
