"""Groups of dimensions by the part of the body in their names, such as "left shoulder"."""

from __future__ import annotations

import re
from collections.abc import Sequence

# "kLeftShoulderPitch", "LShoulder", "L_SHOULDER_PITCH" and "left_shoulder.pos" have the same words.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SIDES = {"left": "left", "l": "left", "lft": "left", "right": "right", "r": "right", "rgt": "right"}
_FINGERS = ("thumb", "index", "middle", "ring", "pinky", "little", "finger", "fingers", "palm")
# Part by the words that name it; the first word of a name that is here decides.
_PARTS = {
    **dict.fromkeys(("shoulder", "clavicle", "scapula"), "shoulder"),
    **dict.fromkeys(("elbow", "forearm"), "elbow"),
    **{word: word for word in ("wrist", "gripper", "hip", "knee", "ankle", "arm", "leg")},
    **dict.fromkeys(("hand", *_FINGERS), "hand"),
    **dict.fromkeys(("foot", "toe"), "foot"),
    **dict.fromkeys(("head", "neck"), "head"),
    **dict.fromkeys(("torso", "waist", "trunk", "spine", "chest"), "torso"),
}
# A word that is a part only where nothing else in the name is one: "left_arm_shoulder" is a shoulder.
_WIDE_PARTS = frozenset({"arm", "leg"})
_GLUED = re.compile(
    rf"^(left|right|l|r)?({'|'.join(sorted(_PARTS, key=len, reverse=True))})(pitch|roll|yaw|l|r)?$"
)
_SIGNALS = frozenset(
    ("observation", "state", "action", "actions", "qpos", "pos", "position", "joint", "joints")
)


def group_dimensions(names: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Group dimensions by side and part of the body, or else by the first word that several share.

    Returns:
        (group, positions in `names`), in order of first appearance; the group "" has those that share nothing.
    """
    groups = [body_part(name) for name in names]
    words = [name_words(name) for name in names]
    heads = [own[0] if len(own) > 1 else "" for own in words]
    rest = [head for head, group in zip(heads, groups, strict=True) if not group]
    by_group: dict[str, list[int]] = {}
    for position, group in enumerate(groups):
        shared = heads[position] if rest.count(heads[position]) > 1 else ""
        by_group.setdefault(group or shared, []).append(position)
    # A heading above a single row, or above all, says nothing.
    return list(by_group.items()) if 1 < len(by_group) < len(names) else [("", list(range(len(names))))]


def name_words(name: str) -> list[str]:
    """Lower-case words of a name, without a leading "k" of a constant, and with words that are glued apart."""
    parts = _WORD.findall(name)
    if len(parts) > 1 and parts[0] == "k":
        parts = parts[1:]
    return [word for part in parts for word in _unglued(part.lower())]


def body_part(name: str) -> str:
    """Side and part of the body of a dimension, such as "left shoulder" or "torso"; "" where its name has no part."""
    words = name_words(name)
    named = [_PARTS[word] for word in words if word in _PARTS]
    narrow = [part for part in named if part not in _WIDE_PARTS]
    side = next((_SIDES[word] for word in words if word in _SIDES), "")
    is_finger = any(word in _FINGERS for word in words)
    if is_finger and not side and "hand" not in words:
        return ""  # "index" and "middle" alone are seldom fingers
    part = "hand" if is_finger else (narrow or named or [""])[0]
    return f"{side} {part}".strip() if part else ""


def short_name(name: str, group: str) -> str:
    """The name of a dimension without what its group says: "pitch" for "kLeftShoulderPitch" of "left shoulder"."""
    terms = set(group.split())
    rest = [
        word
        for word in name_words(name)
        if word in _FINGERS or not {_SIDES.get(word), _PARTS.get(word), word} & terms
    ]
    rest = [word for word in rest if word not in _SIGNALS]
    return " ".join(rest) if group and rest else name


def match_key(name: str) -> tuple[str, ...]:
    """What two dimensions share that are the state and the action of the same joint."""
    words = name_words(name)
    return tuple(word for word in words if word not in _SIGNALS) or tuple(words)


def _unglued(word: str) -> list[str]:
    """ "lshoulderpitch" as "l", "shoulder", "pitch"; any other word as it is."""
    match = _GLUED.match(word)
    return [part for part in match.groups() if part] if match else [word]
