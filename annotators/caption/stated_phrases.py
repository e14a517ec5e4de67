"""Phrases whose slots a file states."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ares.errors import RequestError, SourceError
from ares.input import parse_yaml
from ares.rubric import (
    COMPLETED,
    NOT_COMPLETED,
    OUTCOMES,
    SLOTS,
    SlotValues,
    is_short_value,
    order_slots,
)

# A sentence of a list that begins so says that the action was tried, and not completed.
_FAIL = "fail to "


def read_phrases(path: str) -> Mapping[str, SlotValues]:
    """Known sentences with their slots, from a YAML file of a mapping; none for "".

    Raises:
        RequestError: The file cannot be read, or is no mapping of sentences to slots with short values.
    """
    if not path:
        return {}
    try:
        document = parse_yaml(Path(path).read_text("utf-8"), path)
    except (OSError, UnicodeDecodeError, SourceError) as error:
        raise RequestError("file of phrases cannot be read", f"{path}: {error}") from None
    if not isinstance(document, dict):
        raise RequestError("a file of phrases is a mapping of sentences to their slots", path)
    return {_phrase_key(str(text)): _phrase_slots(str(text), slots, path) for text, slots in document.items()}


def _phrase_key(text: str) -> str:
    return text.lower().strip(" .")


def _phrase_slots(text: str, slots: Any, path: str) -> SlotValues:
    if _phrase_key(text).startswith(_FAIL):
        raise RequestError(
            f"a phrase does not begin with {_FAIL!r}, which any phrase may have", f"{path}: {text!r}"
        )
    if not isinstance(slots, dict) or not slots.keys() <= set(SLOTS):
        raise RequestError("a phrase has slots", f"{path}: {text!r}; there are: {', '.join(SLOTS)}")
    wrong = [name for name, value in slots.items() if not (isinstance(value, str) and is_short_value(value))]
    if wrong or slots.get("outcome", COMPLETED) not in OUTCOMES:
        raise RequestError(
            "a slot of a phrase has 1 to 12 words", f"{path}: {text!r}: {(wrong or ['outcome'])[0]}"
        )
    return order_slots(slots)


def find_phrase(sentence: str, phrases: Mapping[str, SlotValues]) -> SlotValues | None:
    """The slots of a known sentence, "fail to" before it allowed; None for another."""
    text = _phrase_key(sentence)
    if (slots := phrases.get(text.removeprefix(_FAIL))) is None:
        return None
    failed: SlotValues = {"outcome": NOT_COMPLETED} if text.startswith(_FAIL) else {}
    return order_slots({"outcome": COMPLETED, **slots, **failed})
