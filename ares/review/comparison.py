"""Whose texts, answers or grades people accept more often, of two producers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.errors import RequestError
from ares.review.answers import ACCEPTABLE, SUCCESS, format_attribute, is_about_attribute, list_answers
from ares.statistics import PairedDifference, compare_paired
from ares.store import original_answer_id

if TYPE_CHECKING:
    from ares.store import Stores


_CAPTION = "caption"
# Outcomes that a model may state.
_OUTCOMES = ("success", "failure", "unsure")


def compare_producers(
    stores: Stores, first: str, second: str
) -> tuple[list[str], dict[str, PairedDifference]]:
    """How often people accept the texts or answers of two producers, or two judges of captions agree with people.

    Args:
        stores: Stores of the workspace.
        first: Id of a producer of captions, grades, attributes or outcomes, or the unique start of it.
        second: The same of the other one.

    Returns:
        Both ids, and the difference by what was compared: "caption", on the spans of which people judged a caption of
        either, or the captions that both judges graded; "success_verdict", or the column of an attribute, on the
        episodes of which people judged what either says. What a person refuses is refused, and an undecided grade or
        outcome agrees with nobody.

    Raises:
        RequestError: The ids name no two producers, or people judged nothing that both have.
    """
    sides, log = _find_two_producers(stores, first, second), stores.annotations
    accepted, episodes = _read_accepted(stores)
    flags: dict[str, dict[object, dict[str, bool]]] = {}
    for own in log.find_annotations(sorted(episodes), maker_ids=sides):
        span = own.episode_id, own.start_seconds, own.stop_seconds
        # What an undo let count again has another id than what people spoke of.
        texts = (accepted.get(key, {}) for key in {own.annotation_id, original_answer_id(own)})
        verdicts: list[tuple[str, object, bool]] = [
            (_CAPTION, span, is_met) for text in texts for is_met in text.values()
        ]
        for (what, word), is_met in accepted.get(own.subject, {}).items():
            if what == _CAPTION:
                verdicts.append((what, own.subject, own.value.get("acceptable") is is_met))
            elif format_attribute(own.value.get(what)) == word:
                verdicts.append((what, own.subject, is_met))
        for what, item, flag in verdicts:
            flags.setdefault(what, {}).setdefault(item, {})[own.maker_id] = flag
    both = {what: [item for item in items.values() if len(item) == 2] for what, items in flags.items()}
    if not any(both.values()):
        raise RequestError("people judged nothing that both have", "`ares use` shows one, `ares review` asks")
    pairs = {what: [[item[key] for item in items] for key in sides] for what, items in both.items() if items}
    return sides, {what: compare_paired(*pairs[what]) for what in sorted(pairs)}


def _find_two_producers(stores: Stores, first: str, second: str) -> list[str]:
    producers = stores.annotations.producers()
    known = [key for key, producer in producers.items() if producer.kind != "person"]
    matches = {start: [key for key in known if key.startswith(start)] for start in (first, second)}
    for start, keys in matches.items():
        if len(keys) != 1 or not start:
            raise RequestError(f"no single producer {start!r}", f"there are: {', '.join(known) or 'none'}")
    sides = [keys[0] for keys in matches.values()]
    if len(set(sides)) != 2:
        raise RequestError("two producers are compared", f"got {sides[0]} twice")
    return sides


def _read_accepted(stores: Stores) -> tuple[dict[str, dict[tuple[str, str], bool]], set[str]]:
    """By subject what people judged of it, with its value, and whether they accept that; and their episodes."""
    accepted, episodes = dict[str, dict[tuple[str, str], bool]](), set[str]()
    for annotation, answer in list_answers(stores):
        says = {(_CAPTION, ""): answer.verdict == "met"}
        if answer.question == SUCCESS:
            says = {("success_verdict", word): word == answer.verdict for word in _OUTCOMES}
        elif is_about_attribute(answer.question):
            says = {(answer.question, answer.text): answer.verdict == "met"}
        elif answer.question != ACCEPTABLE:
            continue
        if answer.verdict != "unsure":
            own = accepted.setdefault(answer.subject_id, {})
            own |= {key: is_met and own.get(key, True) for key, is_met in says.items()}
            episodes.add(annotation.episode_id)
    return accepted, episodes
