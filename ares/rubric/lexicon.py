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

# Further verbs, each an action of its own; their other forms are read as these.
OTHER_VERBS = frozenset(
    [
        "adjust",
        "align",
        "assemble",
        "attach",
        "bend",
        "break",
        "bump",
        "button",
        "catch",
        "cook",
        "cover",
        "cut",
        "dip",
        "draw",
        "dry",
        "dump",
        "eat",
        "empty",
        "erase",
        "feed",
        "fill",
        "fold",
        "grip",
        "hand",
        "hang",
        "heat",
        "hold",
        "hook",
        "hover",
        "iron",
        "join",
        "keep",
        "knock",
        "leave",
        "lever",
        "load",
        "lock",
        "lose",
        "lower",
        "mix",
        "mount",
        "operate",
        "pack",
        "paint",
        "peel",
        "point",
        "poke",
        "pour",
        "prepare",
        "rearrange",
        "release",
        "reorient",
        "reposition",
        "roll",
        "rub",
        "scoop",
        "scratch",
        "screw",
        "separate",
        "serve",
        "shake",
        "sift",
        "slice",
        "slide",
        "slip",
        "smooth",
        "sort",
        "spray",
        "spread",
        "sprinkle",
        "squeeze",
        "stack",
        "stir",
        "store",
        "straighten",
        "stretch",
        "swap",
        "swing",
        "switch",
        "tear",
        "tie",
        "tighten",
        "tilt",
        "tip",
        "touch",
        "transport",
        "type",
        "uncover",
        "unfold",
        "unlock",
        "unpack",
        "unscrew",
        "unstack",
        "untie",
        "unwrap",
        "use",
        "wash",
        "watch",
        "water",
        "wave",
        "weigh",
        "wind",
        "wrap",
        "write",
        "zip",
    ]
)
VERBS = frozenset(VERB_KEY) | OTHER_VERBS
CONTRACTIONS: Mapping[str, str] = {
    "don't": "do not",
    "doesn't": "does not",
    "didn't": "did not",
    "isn't": "is not",
    "wasn't": "was not",
    "won't": "will not",
    "can't": "cannot",
    "can not": "cannot",
    "couldn't": "could not",
}

# Actions for which the gripper closes or opens. What is poured may be held from the start.
GRASP_VERBS = frozenset({"pick", "place", "stack", "hang"})
# Words for picking that claim no grasp: a lid is lifted by an open gripper, too.
LIFT_WORDS = frozenset({"lift", "raise"})

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
# Actions that open and close nothing: "wipe the drawer open" wipes it.
VERBS_WITHOUT_RESULT = frozenset(
    [
        "cut",
        "fold",
        "hammer",
        "pour",
        "rub",
        "scratch",
        "stir",
        "sweep",
        "throw",
        "touch",
        "wash",
        "wave",
        "wipe",
    ]
)
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
CONJUNCTIONS = frozenset({"and", "then", "but", "or"})
# Words that end in "-ly" and say nothing of how something is done.
NO_ADVERBS = frozenset(
    {"assembly", "belly", "fly", "jelly", "trolley", "bully", "ply", "doily", "lily", "only"}
)
