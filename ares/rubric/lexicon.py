"""Word tables of the caption parser: verbs, prepositions, attributes.

The hash of a grade covers every constant here, by name and value: see `parser_hash`.
"""

from __future__ import annotations

from collections.abc import Mapping

# Words for an action of the shipped guide of verbs, by its verb; the verbs of the guide stand for themselves.
VERB_GROUPS: Mapping[str, tuple[str, ...]] = {
    "pick up": ("pick", "take", "get", "fetch", "retrieve", "collect"),
    "grasp": ("grab", "grip"),
    "lift": ("raise",),
    "place": ("put", "set", "lay", "position", "deposit", "drop", "dunk", "return"),
    "insert": ("plug", "fit"),
    "remove": ("unplug", "extract"),
    "push": ("shove", "nudge"),
    "pull": ("drag", "tug"),
    "press": ("depress", "click"),
    "rotate": ("turn", "twist", "spin"),
    "close": ("shut",),
    "move": ("bring", "transfer", "carry", "transport"),
    "reach": ("go",),
    "sweep": ("brush",),
    "wipe": ("clean", "scrub"),
    "hit": ("hammer", "drive", "strike", "knock", "kick"),
    "throw": ("toss",),
    "cut": ("slice",),
    "stir": ("mix",),
}
VERB_KEY: Mapping[str, str] = {word: verb for verb, words in VERB_GROUPS.items() for word in words}

# Further verbs, each a separate action; their other forms are read as these.
OTHER_VERBS = frozenset(
    (
        *("adjust", "align", "assemble", "attach", "bend", "break", "bump", "button", "catch"),
        *("cook", "cover", "detach", "dip", "draw", "dry", "dump", "eat", "empty", "erase"),
        *("feed", "fill", "flip", "fold", "hand", "hang", "heat", "hold", "hook", "hover"),
        *("iron", "join", "keep", "leave", "lever", "load", "lock", "lose", "lower"),
        *("mount", "open", "operate", "overturn", "pack", "paint", "peel", "point", "poke"),
        *("pour", "prepare", "rearrange", "release", "reorient", "reposition", "roll", "rub"),
        *("scoop", "scratch", "screw", "separate", "serve", "shake", "sift", "slide", "slip"),
        *("smooth", "sort", "spray", "spread", "sprinkle", "squeeze", "stack", "store"),
        *("straighten", "stretch", "swap", "swing", "switch", "tear", "tie", "tighten", "tilt"),
        *("tip", "touch", "type", "uncover", "unfold", "unlock", "unpack", "unscrew", "unstack"),
        *("untie", "unwrap", "use", "wash", "watch", "water", "wave", "weigh", "wind", "wrap"),
        *("write", "zip"),
    )
)
VERBS = frozenset(VERB_KEY) | {verb.split()[0] for verb in VERB_GROUPS} | OTHER_VERBS
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
# Abbreviations whose period ends no sentence: any; those that a number follows; and units of a number.
ABBREVIATIONS = frozenset(
    ["approx", "ca", "cf", "dr", "e.g", "i.e", "incl", "mr", "mrs", "prof", "resp", "vs"]
)
ABBREVIATIONS_OF_NUMBERS = frozenset(["fig", "figs", "max", "min", "no", "nos", "nr", "vol"])
DOTTED_UNITS = frozenset(
    [
        "deg",
        "ft",
        "hr",
        "hrs",
        "in",
        "lb",
        "lbs",
        "min",
        "mins",
        "oz",
        "qt",
        "sec",
        "secs",
        "tbsp",
        "tsp",
        "yd",
    ]
)

TO_RELATIONS = frozenset(
    (
        *("on", "onto", "upon", "atop", "on top of", "in", "into", "inside", "to", "at", "toward", "towards"),
        *("under", "beneath", "below", "underneath", "above", "behind", "before", "in front of", "beside"),
        *("next to", "near", "between", "against"),
    )
)
FROM_RELATIONS = frozenset({"from", "off", "out", "out of", "away"})
# With what the arm passes on its way, which is no destination.
MANNER_WORDS = frozenset(
    {"by", "with", "using", "without", "while", "over", "around", "through", "across", "along"}
)

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
DETERMINERS = frozenset(["the", "a", "an", "its", "their", "this", "that", "these", "those", "some", "one"])
RELATIVE_PRONOUNS = frozenset({"who", "that", "which"})
CONJUNCTIONS = frozenset({"and", "then", "but", "or"})
# Words that end in "-ly" and say nothing of how something is done.
NO_ADVERBS = frozenset(
    {"assembly", "belly", "fly", "jelly", "trolley", "bully", "ply", "doily", "lily", "only"}
)
# Words before an adverb that say how much.
INTENSIFIERS = frozenset({"very", "quite", "rather"})
