"""Captions with their grades, and every annotation of an episode, as plain data for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ares.annotation import Annotation, Maker
from ares.episode import Episode, Json
from ares.store import Stores
from ares.summary import describe_annotation


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeAnnotations:
    """The annotations of an episode.

    Attributes:
        captions: Newest first, each with its grades and their rulings.
        evidence: Seconds to show on the timeline, with a label.
        annotations: Every annotation with its maker.
    """

    captions: list[Json]
    evidence: list[Json]
    annotations: list[dict[str, Json]]


def read_annotations(stores: Stores, episode: Episode) -> EpisodeAnnotations:
    """Read every annotation of an episode."""
    annotations = stores.annotations.find_annotations([episode.episode_id])
    makers = stores.annotations.makers()
    captions = [
        _caption(annotation, annotations, makers)
        for annotation in reversed(annotations)
        if annotation.name == "caption" and annotation.value.get("text")
    ]
    return EpisodeAnnotations(
        captions=list[Json](captions),
        evidence=_evidence(captions),
        annotations=[
            describe_annotation(annotation, makers.get(annotation.maker_id)) for annotation in annotations
        ],
    )


def _caption(
    caption: Annotation, annotations: Sequence[Annotation], makers: Mapping[str, Maker]
) -> dict[str, Json]:
    grades = [
        _grade(annotation, makers)
        for annotation in reversed(annotations)
        if annotation.name == "grade" and annotation.subject == caption.annotation_id
    ]
    span = f"{caption.start_seconds:.2f} to {caption.stop_seconds:.2f} s"
    return {
        "text": str(caption.value["text"]),
        "grade": grades[0]["grade"] if grades else "ungraded",
        "made": f"{span}, {_provenance(caption, makers)}",
        "grades": list[Json](grades),
    }


def _grade(grade: Annotation, makers: Mapping[str, Maker]) -> dict[str, Json]:
    rulings = cast("Sequence[Mapping[str, Any]]", grade.value.get("rulings") or [])
    score = grade.value.get("score")
    score_text = "" if score is None else f"score {float(cast('float', score)):.2f}, "
    return {
        "grade": str(grade.value.get("grade", "error")),
        "made": score_text + _provenance(grade, makers),
        "rulings": [_ruling(ruling) for ruling in rulings],
    }


def _ruling(ruling: Mapping[str, Any]) -> Json:
    keys = ("criterion", "category", "verdict", "source", "observed", "reason")
    texts: dict[str, Json] = {key: str(ruling.get(key) or "") for key in keys}
    return {**texts, "seconds": [float(second) for second in ruling.get("evidence") or []]}


def _evidence(captions: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Seconds that the newest grade of the newest caption refers to, with criterion and verdict."""
    labels: dict[float, list[str]] = {}
    for caption in captions[:1]:
        for ruling in (ruling for grade in caption["grades"][:1] for ruling in grade["rulings"]):
            for second in ruling["seconds"]:
                labels.setdefault(second, []).append(f"{ruling['criterion']} {ruling['verdict']}")
    return [{"seconds": second, "label": ", ".join(texts)} for second, texts in sorted(labels.items())]


def _provenance(annotation: Annotation, makers: Mapping[str, Maker]) -> str:
    maker = makers.get(annotation.maker_id)
    name = f"{maker.annotator} {maker.version} {maker.model}" if maker else f"maker {annotation.maker_id}"
    return f"by {name.strip()}" + (f" from {annotation.camera}" if annotation.camera else "")
