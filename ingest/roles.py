"""What a name tells: where a camera looks from, and which text says nothing."""

from __future__ import annotations

import re

from ares.episode import Role

# First match wins: a "wrist_image_left" is a wrist camera, not a side one.
_ROLES: tuple[tuple[Role, re.Pattern[str]], ...] = (
    ("wrist", re.compile(r"wrist|hand|gripper|ego_?in|in_hand")),
    ("top", re.compile(r"top|overhead|bird|ceiling|above")),
    ("side", re.compile(r"side|left|right")),
    ("other", re.compile(r"depth|tactile|finger|digit|additional")),
    (
        "front",
        re.compile(
            r"front|exterior|ext\d?|static|agent|ego|head|high|main|primary|rgb|^(highres_)?images?(_?0)?$|^cam(era)?(_?0)?$"
        ),
    ),
)
_NOTHING = frozenset({"", "null", "none", "nan", "n/a", "na", "unknown", "no instruction", "dummy", "."})


def camera_role(name: str) -> Role:
    """Where a camera of that name looks from; "other" when the name does not tell."""
    text = name.lower()
    return next((role for role, pattern in _ROLES if pattern.search(text)), "other")


def says_something(text: str) -> bool:
    """Whether a text is an instruction at all, and not a stand-in for none."""
    return text.strip().strip("\x00").lower() not in _NOTHING


def distinct(texts: list[str]) -> tuple[str, ...]:
    """The texts that say something, each once, without outer blanks, in order of appearance."""
    return tuple(dict.fromkeys(text.strip() for text in texts if says_something(text)))
