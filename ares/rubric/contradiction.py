"""What code knows to contradict: an opposite action, a start named as the end, a part named as the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from ares.rubric.caption_parser import CaptionSlots
from ares.rubric.slot_match import is_reversed, slot_matches

_OPPOSITE_ACTIONS = (("open", "close"), ("push", "pull"), ("lock", "unlock"), ("insert", "unplug"))
_OPPOSITE_DIRECTIONS = (
    ("up", "down"),
    ("left", "right"),
    ("forward", "back"),
    ("clockwise", "counterclockwise"),
)


# Who puts a thing somewhere has picked it up, whether that is said or not.
_IMPLY_PICKING = frozenset({"place", "insert", "stack", "hang"})


def contradicts(slot: str, claimed: CaptionSlots, observed: CaptionSlots) -> bool:
    """Whether the claims in a slot cannot be true of what was observed, whatever other words may mean.

    Args:
        slot: Name of the slot; those of which code knows nothing contradict never.
        claimed: A caption.
        observed: An observed action.
    """
    if slot == "verb":
        return _are_opposite(claimed.verbs, observed.verbs, _OPPOSITE_ACTIONS)
    if slot == "direction":
        return _are_opposite(claimed.directions, observed.directions, _OPPOSITE_DIRECTIONS)
    if slot in ("destination", "source", "additions"):
        return is_reversed(claimed, observed) or is_reversed(observed, claimed)
    return slot == "complete" and _is_part(claimed, observed)


def _are_opposite(
    claimed: Collection[str], observed: Collection[str], opposites: Collection[tuple[str, str]]
) -> bool:
    """Whether one says what is the opposite of what the other says, and what that does not say as well."""
    return any(
        ours in claimed and theirs in observed and ours not in observed and theirs not in claimed
        for pair in opposites
        for ours, theirs in (pair, pair[::-1])
    )


def _is_part(claimed: CaptionSlots, observed: CaptionSlots) -> bool:
    """Whether a caption says some of the observed actions in the same words, and leaves out others."""
    stated, seen = Counter(claimed.verbs), Counter(observed.verbs)
    if _IMPLY_PICKING & stated.keys():
        seen["pick"] = stated["pick"]
    return bool(stated) and stated < seen and slot_matches("additions", claimed, observed)
