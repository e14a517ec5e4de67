"""Replies of a scripted captioner."""

from __future__ import annotations

import json

CAPTIONS = "Caption one segment of a robot recording."


def typed_caption(sentence: str, **slots: str | list[str]) -> str:
    """The reply of a captioner with schemas that writes a sentence."""
    empty = dict.fromkeys(("from", "to", "hand", "manner", "count"), "")
    form = {"action": "close", "other_action": "", "object": "drawer", "attributes": [], **empty}
    return json.dumps({**form, "outcome": "completed", "sentence": sentence, **slots})
