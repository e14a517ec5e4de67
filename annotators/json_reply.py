"""Reads the replies of models: strict JSON of one form, and nothing else is corrected."""

from __future__ import annotations

import json
import re
from typing import TypeVar

from pydantic import BaseModel, ValidationError

AnyReply = TypeVar("AnyReply", bound=BaseModel)


def read_json_reply(model: type[AnyReply], reply: str) -> AnyReply | str:
    """A reply of a form, one pair of code fences removed; else what is wrong with it, in a few words.

    Args:
        model: The form.
        reply: The text of the reply.
    """
    body = reply.strip()
    fenced = re.fullmatch(r"```(?:json)?\s*(.*?)\s*```", body, re.DOTALL)
    try:
        document = json.loads(
            fenced[1] if fenced else body,
            object_pairs_hook=_reject_duplicate_keys,
            parse_constant=_reject_constant,
        )
        return model.model_validate(document)
    except (ValueError, RecursionError) as error:
        return "reply is off the menu" if isinstance(error, ValidationError) else "reply is no JSON"


def _reject_duplicate_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError("a key comes twice")
    return dict(pairs)


def _reject_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")
