"""Camera roles by camera name, and texts that stand for a missing instruction."""

from __future__ import annotations

import re

from ares.episode import Role

# First match wins: a "wrist_image_left" is a wrist camera, not a side one.
_ROLE_PATTERNS: tuple[tuple[Role, re.Pattern[str]], ...] = (
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
_PLACEHOLDER_TEXTS = frozenset(
    {"", "null", "none", "nan", "n/a", "na", "unknown", "no instruction", "dummy", "."}
)

# Words that state an outcome, and numbers that do where a field is known to hold one.
OUTCOME_WORDS = {
    **dict.fromkeys(("true", "success", "successful", "succeeded", "pass", "passed", "yes"), True),
    **dict.fromkeys(("false", "failure", "fail", "failed", "unsuccessful", "no"), False),
}
OUTCOME_NUMBERS = {"1": True, "1.0": True, "0": False, "0.0": False}


def parse_outcome(value: object) -> bool | None:
    """The outcome that a bool, a number or a word states; None for anything else."""
    return (OUTCOME_WORDS | OUTCOME_NUMBERS).get(str(value).strip().lower())


def camera_role(name: str) -> Role:
    """The role that a camera's name implies; "other" when it implies none."""
    text = name.lower()
    return next((role for role, pattern in _ROLE_PATTERNS if pattern.search(text)), "other")


def is_meaningful_text(text: str) -> bool:
    """Whether a text is an instruction, and not a placeholder for a missing one."""
    return text.strip().strip("\x00").lower() not in _PLACEHOLDER_TEXTS


def distinct_texts(texts: list[str]) -> tuple[str, ...]:
    """The meaningful texts, stripped and without repetitions, in order of appearance."""
    return tuple(dict.fromkeys(text.strip() for text in texts if is_meaningful_text(text)))
