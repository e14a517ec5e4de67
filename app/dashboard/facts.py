"""Facts: captions with their grades, and every annotation of an episode, as plain data for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ares.annotation import Annotation, Maker
from ares.describe import describe_annotation
from ares.episode import Episode, Json
from ares.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What was said about an episode.

    Attributes:
        captions: Newest first, each with its grades and their rulings.
        marks: Seconds to show on the timeline, with a label.
        all: Every annotation with what made it.
    """

    captions: list[Json]
    marks: list[Json]
    all: list[dict[str, Json]]


def about(ws: Workspace, episode: Episode) -> Said:
    """Read everything that was said about an episode."""
    found = ws.annotations.about([episode.episode_id])
    makers = ws.annotations.makers()
    captions = [
        _caption(fact, found, makers)
        for fact in reversed(found)
        if fact.name == "caption" and fact.value.get("text")
    ]
    return Said(
        captions=list[Json](captions),
        marks=_marks(captions),
        all=[describe_annotation(fact, makers.get(fact.maker_id)) for fact in found],
    )


def _caption(fact: Annotation, found: Sequence[Annotation], makers: Mapping[str, Maker]) -> dict[str, Json]:
    grades = [
        _grade(one, makers)
        for one in reversed(found)
        if one.name == "grade" and one.subject == fact.annotation_id
    ]
    return {
        "text": str(fact.value["text"]),
        "grade": grades[0]["grade"] if grades else "ungraded",
        "made": f"{fact.start_seconds:.2f} to {fact.stop_seconds:.2f} s, {_made(fact, makers)}",
        "grades": list[Json](grades),
    }


def _grade(fact: Annotation, makers: Mapping[str, Maker]) -> dict[str, Json]:
    rulings = cast("Sequence[Mapping[str, Any]]", fact.value.get("rulings") or [])
    score = fact.value.get("score")
    shown = "" if score is None else f"score {float(cast('float', score)):.2f}, "
    return {
        "grade": str(fact.value.get("grade", "error")),
        "made": shown + _made(fact, makers),
        "rulings": [_ruling(one) for one in rulings],
    }


def _ruling(ruling: Mapping[str, Any]) -> Json:
    texts = ("criterion", "category", "verdict", "source", "observed", "reason")
    written: dict[str, Json] = {name: str(ruling.get(name) or "") for name in texts}
    return {**written, "seconds": [float(second) for second in ruling.get("evidence") or []]}


def _marks(captions: Sequence[Mapping[str, Any]]) -> list[Json]:
    marks: dict[float, list[str]] = {}
    for caption in captions[:1]:
        for ruling in (one for grade in caption["grades"][:1] for one in grade["rulings"]):
            for second in ruling["seconds"]:
                marks.setdefault(second, []).append(f"{ruling['criterion']} {ruling['verdict']}")
    return [{"seconds": second, "label": ", ".join(labels)} for second, labels in sorted(marks.items())]


def _made(fact: Annotation, makers: Mapping[str, Maker]) -> str:
    maker = makers.get(fact.maker_id)
    by = f"{maker.annotator} {maker.version} {maker.model}".strip() if maker else f"maker {fact.maker_id}"
    return f"by {by}" + (f" from {fact.camera}" if fact.camera else "")
