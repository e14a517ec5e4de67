"""Outcomes that the names of folders and files suggest; they are proposed in the metadata and never assumed."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ares.episode import Json

PROPOSED_OUTCOME = "proposed_success"
PROPOSED_WARNING = (
    "a name in the path suggests an outcome, which is kept as metadata.proposed_success; success stays unknown "
    "(to accept it, set outcome_in_path: true in the spec)"
)
_WORDS = {
    **dict.fromkeys(("success", "successes", "successful", "succeeded", "succ"), True),
    **dict.fromkeys(("failure", "failures", "fail", "fails", "failed", "unsuccessful"), False),
}


def outcome_in_path(path: str) -> tuple[bool, str] | None:
    """The outcome that a path suggests, and the folder or file name that does; None for none, or for both outcomes.

    Words count as a whole: "success_003.mp4" and "failed/" do, "successor" does not; "not_success" suggests nothing.
    """
    seen: dict[bool, str] = {}
    for part in path.replace("\\", "/").split("/"):
        words = [
            word for word in re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", part).lower()) if word
        ]
        if {"not", "no", "or", "and", "non"} & set(words):
            continue
        for word in words:
            if word in _WORDS:
                seen.setdefault(_WORDS[word], part)
    if len(seen) != 1:
        return None
    return next(iter(seen.items()))


def proposed_outcome(path: str) -> tuple[Mapping[str, Json], tuple[str, ...]]:
    """Metadata and warnings of an episode whose outcome is not stated, by its path in the dataset."""
    outcome = outcome_in_path(path)
    if outcome is None:
        return {}, ()
    return {PROPOSED_OUTCOME: {"success": outcome[0], "name": outcome[1]}}, (PROPOSED_WARNING,)
