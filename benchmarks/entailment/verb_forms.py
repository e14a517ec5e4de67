"""The forms of English verbs: closes, closing, closed."""

from __future__ import annotations

import re

# Past and participle of verbs that are bent in their own way.
_IRREGULAR = {
    "bend": "bent bent", "bind": "bound bound", "bring": "brought brought", "build": "built built",
    "cast": "cast cast", "cut": "cut cut", "dig": "dug dug", "do": "did done", "draw": "drew drawn",
    "drive": "drove driven", "feed": "fed fed", "feel": "felt felt", "fling": "flung flung", "get": "got got",
    "give": "gave given", "go": "went gone", "hang": "hung hung", "hit": "hit hit", "hold": "held held",
    "keep": "kept kept", "lay": "laid laid", "leave": "left left", "let": "let let", "light": "lit lit",
    "lose": "lost lost", "make": "made made", "put": "put put", "run": "ran run", "set": "set set",
    "shake": "shook shaken", "shut": "shut shut", "sit": "sat sat", "slide": "slid slid", "spin": "spun spun",
    "spread": "spread spread", "stand": "stood stood", "stick": "stuck stuck", "strike": "struck struck",
    "sweep": "swept swept", "swing": "swung swung", "take": "took taken", "throw": "threw thrown",
    "undo": "undid undone", "wind": "wound wound", "wring": "wrung wrung", "write": "wrote written",
}  # fmt: skip
_DOUBLED = {"unplug", "transfer", "propel", "unclip", "unzip"}


def third_person(verb: str) -> str:
    """ "closes"."""
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        return f"{verb}es"
    if re.search(r"[^aeiou]y$", verb):
        return f"{verb[:-1]}ies"
    return f"{verb}s"


def gerund(verb: str) -> str:
    """ "closing"."""
    if verb.endswith("ie"):
        return f"{verb[:-2]}ying"
    if verb.endswith("e") and not verb.endswith(("ee", "ye", "oe")):
        return f"{verb[:-1]}ing"
    return f"{_doubled(verb)}ing"


def past(verb: str) -> str:
    """ "closed"."""
    return _IRREGULAR[verb].split()[0] if verb in _IRREGULAR else _regular(verb)


def participle(verb: str) -> str:
    """ "closed", as in "it is closed"."""
    return _IRREGULAR[verb].split()[1] if verb in _IRREGULAR else _regular(verb)


def _regular(verb: str) -> str:
    if verb.endswith("e"):
        return f"{verb}d"
    if re.search(r"[^aeiou]y$", verb):
        return f"{verb[:-1]}ied"
    return f"{_doubled(verb)}ed"


def _doubled(verb: str) -> str:
    is_short = len(re.findall(r"[aeiouy]+", verb)) == 1 and re.search(r"[^aeiou][aeiou][bdgklmnprt]$", verb)
    return verb + verb[-1] if is_short or verb in _DOUBLED else verb
