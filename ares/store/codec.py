"""Codec: facts and makers to JSON text and back, the same for every annotation store."""

from __future__ import annotations

import json
from dataclasses import asdict

from ares.annotation import Annotation, Column, Cost, Maker
from ares.episode import Json


def to_text(value: Json) -> str:
    """JSON in ASCII, so that any string of a model (half an emoji too) can be stored.

    Raises ValueError for NaN and infinity, which are no JSON.
    """
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def from_text(text: str) -> Json:
    """What `to_text` was given."""
    value: Json = json.loads(text)
    return value


def fact_to_text(fact: Annotation) -> str:
    """What of a fact has no column of its own in a store. Raises ValueError for NaN and infinity."""
    cost = fact.cost
    return to_text(
        {
            "value": fact.value,
            "span": [fact.start_seconds, fact.stop_seconds],
            "created": fact.created,
            "camera": fact.camera,
            "frames": list(fact.frames),
            "cost": [cost.calls, cost.tokens_in, cost.tokens_out, cost.usd],
        }
    )


def fact_from_text(text: str, *, episode_id: str, name: str, maker_id: str, subject: str) -> Annotation:
    """The fact of `fact_to_text` and its columns."""
    body = json.loads(text)
    calls, tokens_in, tokens_out, usd = body["cost"]
    start, stop = body["span"]
    return Annotation(
        episode_id=episode_id,
        name=name,
        value=body["value"],
        maker_id=maker_id,
        subject=subject,
        start_seconds=start,
        stop_seconds=stop,
        created=body["created"],
        camera=body["camera"],
        frames=tuple(body["frames"]),
        cost=Cost(calls=calls, tokens_in=tokens_in, tokens_out=tokens_out, usd=usd),
    )


def maker_to_text(maker: Maker) -> str:
    """A maker as JSON text."""
    return to_text({**asdict(maker), "settings": dict(maker.settings)})


def maker_from_text(text: str) -> Maker:
    """The maker of `maker_to_text`."""
    body = json.loads(text)
    columns = tuple(Column(**column) for column in body.pop("columns"))
    return Maker(**body, columns=columns)
