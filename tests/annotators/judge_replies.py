"""Replies of a scripted vision-language judge: what it sees, whether two values are the same, and what it chooses."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.annotators.caption_replies import CAPTIONS, typed_caption
from tests.annotators.samples import choice

OBSERVES = "Observe one segment of a robot recording."
COMPARES = "Compare the two values of each pair."
CHOOSES = "Choose what the frames show for each slot."
WORDS = "Which of these words say more than the slots beside them?"
FILLS = "Fill the slots of one sentence."
_KINDS = {
    OBSERVES: "observation",
    COMPARES: "comparison",
    CHOOSES: "choice",
    WORDS: "words",
    FILLS: "slots",
    CAPTIONS: "caption",
}
SLOTS = ("action", "object", "attributes", "from", "to", "hand", "manner", "count", "outcome")
DRAWER = {"action": "close", "object": "drawer", "attributes": "green", "outcome": "completed"}


def part(value: Any, frames: Sequence[int] = (1, 3), confidence: int = 90) -> dict[str, Any]:
    """One slot of an observation."""
    return {"value": value, "frames": list(frames), "confidence": confidence}


def observation(**slots: Any) -> str:
    """The reply of a model that sees a green drawer closed; other slots by name, "" for one that is not visible."""
    values = {**DRAWER, **{name.rstrip("_"): value for name, value in slots.items()}}
    document = {name: _part_of(name, values.get(name, "")) for name in SLOTS}
    document["action"].setdefault("other_action", "")
    return json.dumps(document)


def _part_of(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return dict(value)
    if not value:
        hidden: Any = [] if name == "attributes" else "other" if name == "action" else "not visible"
        return part(hidden, [], 0)
    return part([word.strip() for word in value.split(",")] if name == "attributes" else value)


def prompt_of(request: Mapping[str, Any]) -> str:
    """The text of a request."""
    content = request["messages"][-1]["content"]
    return str(content if isinstance(content, str) else content[-1]["text"])


def kind_of(request: Mapping[str, Any]) -> str:
    """What a request asks, by the first line of its prompt."""
    return _KINDS.get(prompt_of(request).splitlines()[0], "")


def data_of(request: Mapping[str, Any]) -> dict[str, Any]:
    """The data of a request: the line of its prompt that is JSON."""
    lines = [line for line in prompt_of(request).splitlines() if line.startswith('{"')]
    document: dict[str, Any] = json.loads(lines[0])
    return document


def entries_of(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The entries that a request about a list has, in order."""
    return list(data_of(request).values())


Answer = Callable[[dict[str, Any]], Any]


def judge(
    seen: str = "",
    compares: str | Answer = "same",
    chooses: str | Answer = "cannot tell",
    words: Sequence[str] = (),
    confidence: int = 90,
    frames: Sequence[int] = (1, 3),
) -> Callable[[Mapping[str, Any]], list[dict[str, Any]]]:
    """Answers every question of a judge, for `ModelServer.replies`.

    Args:
        seen: Its observation.
        compares: What it says of two values, or makes of a pair; a text that begins with "{" is the whole reply.
        chooses: The option that it chooses, by its text, or makes of the entry; what is none is its whole reply.
        words: The words that it says say more.
        confidence: How sure it is of choices.
        frames: The frames that it cites for them.
    """
    seen = seen or observation()

    def answer(request: Mapping[str, Any]) -> list[dict[str, Any]]:
        kind = kind_of(request)
        if kind == "observation":
            return [choice(seen)]
        if kind == "caption":
            return [choice(typed_caption("close the drawer"))]
        if kind not in ("comparison", "choice", "words"):
            return [choice("yes" if "Answer yes or no" in prompt_of(request) else "close the drawer")]
        rest = {"frames": list(frames), "confidence": confidence}
        replies: dict[str, Any] = {}
        for number, entry in data_of(request).items():
            if kind == "words":
                replies[number] = [word for word in entry["words"] if word in words]
                continue
            said = _said_of(compares if kind == "comparison" else chooses, entry)
            if said.startswith("{") or (kind == "choice" and said not in entry["options"]):
                return [choice(said)]
            replies[number] = (
                said if kind == "comparison" else {"option": entry["options"].index(said) + 1, **rest}
            )
        return [choice(json.dumps(replies))]

    return answer


def _said_of(says: str | Answer, entry: dict[str, Any]) -> str:
    """What it says of an entry."""
    return says if isinstance(says, str) else str(says(entry))
