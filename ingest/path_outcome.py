"""The outcome that the path of an episode states in words."""

from __future__ import annotations

import re
from dataclasses import replace

from ares.episode import Episode, Record

PROPOSED_OUTCOME = "proposed_success"

PROPOSED_WARNING = (
    "a name in the path suggests an outcome, which is kept as metadata.proposed_success; success stays unknown "
    "(to accept it, set outcome_in_path: true in the spec)"
)

_WORDS = {
    **dict.fromkeys(("success", "successes", "successful", "succeeded", "succ"), True),
    **dict.fromkeys(("failure", "failures", "fail", "fails", "failed", "unsuccessful"), False),
}

# Every word contains one of these; most paths contain none.
_SYLLABLE = re.compile("succ|fail", re.IGNORECASE)


def outcome_in_path(path: str) -> tuple[bool, str] | None:
    """The outcome that a path suggests, and the folder or file name that does; None for none, or for both outcomes.

    Words count as a whole: "success_003.mp4" and "failed/" do, "successor" does not; "not_success" suggests nothing.
    """
    if not _SYLLABLE.search(path):
        return None
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


def add_outcome_of_path(record: Record) -> Record:
    """The record; where its outcome is not known, with the one that its path in the dataset suggests, as metadata."""
    episode = record.episode
    suggested = outcome_in_path(names_that_state_outcome(episode)) if episode.success is None else None
    if suggested is None or PROPOSED_OUTCOME in episode.metadata:
        return record
    success, name = suggested
    metadata = {**episode.metadata, PROPOSED_OUTCOME: success, f"{PROPOSED_OUTCOME}_source": name}
    return replace(
        record,
        episode=replace(episode, metadata=metadata),
        warnings=(*record.warnings, PROPOSED_WARNING),
    )


def names_that_state_outcome(episode: Episode) -> str:
    """The names that may hold an episode's outcome: the path that its source states, and its key in the dataset."""
    return f"{episode.metadata.get('file_path') or ''}/{episode.key}"
