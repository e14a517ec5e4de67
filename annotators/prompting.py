"""How models are asked: prompts from files, parallel batches, and replies read as strict JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from ares.episode import Json
from ares.store import batched

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


def escape_json(document: Mapping[str, Json]) -> str:
    """Data for a prompt as JSON on one line: no letter of it reaches the chat template of a model as markup."""
    data = json.dumps(document, ensure_ascii=True)
    return re.sub(r"[<>&`|]", lambda match: f"\\u{ord(match.group()):04x}", data)


def read_prompt(package: str, name: str) -> str:
    """The text of `prompts/NAME.txt` in a package, without its last line break."""
    return files(package).joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")


Item = TypeVar("Item")
Value = TypeVar("Value")


def apply_in_batches(
    function: Callable[[Sequence[Item]], Sequence[Value]],
    items: Sequence[Item],
    batch_size: int,
    workers: int,
) -> list[Value]:
    """What a function makes of items, in their order.

    Args:
        function: Makes one value of each item of a batch, in order.
        items: The items.
        batch_size: Most items of a batch.
        workers: Most calls at the same time.
    """
    batches = [list(batch) for batch in batched(items, batch_size)]
    if workers == 1 or len(batches) == 1:
        return [value for batch in batches for value in function(batch)]
    with ThreadPoolExecutor(workers) as pool:
        return [value for results in pool.map(function, batches) for value in results]
