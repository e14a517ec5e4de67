"""Texts with what others say of them, and every annotation of an episode, as plain data for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from app.dashboard.ruling_groups import group_rulings
from ares.annotation import Annotation, Maker
from ares.curation import maker_catalog
from ares.episode import Episode, Json
from ares.store import Stores
from ares.store.sync import MakerCatalog
from ares.summary import describe_annotations, shown_annotation_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeAnnotations:
    """The annotations of an episode.

    Attributes:
        captions: Texts that describe the episode or that others describe, each with its grades and their rulings;
            those that fill columns first, then the newest first.
        annotations: Every annotation with its maker.
        subjects: Ids of the episode, and of its segments and annotations.
    """

    captions: list[Json]
    annotations: list[dict[str, Json]]
    subjects: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _EpisodeLog:
    """The annotations of one episode, in the order of the log, which the tables show, and grades of segments by id."""

    episode: Episode
    annotations: Sequence[Annotation]
    catalog: MakerCatalog
    shown: set[str]
    grades: Mapping[str, str]

    def maker(self, annotation: Annotation) -> Maker | None:
        """The maker of an annotation, or None for an unknown one."""
        return self.catalog.makers.get(annotation.maker_id)

    def is_shown(self, annotation: Annotation) -> bool:
        """Whether an annotation fills columns or segments."""
        return annotation.annotation_id in self.shown

    def about(self, subject: str) -> list[Annotation]:
        """The annotations of an annotation: the shown ones first, then the newest first."""
        return self.sorted(
            annotation
            for annotation in self.annotations
            if annotation.subject_kind == "annotation" and annotation.subject == subject
        )

    def sorted(self, annotations: Any) -> list[Annotation]:
        """Annotations in the order of the log as a page lists them: the shown ones first, then the newest first."""
        newest_first = reversed(list(annotations))
        return sorted(newest_first, key=lambda annotation: not self.is_shown(annotation))


def read_annotations(
    stores: Stores, episode: Episode, segments: Sequence[Mapping[str, Any]]
) -> EpisodeAnnotations:
    """Read every annotation of an episode.

    Args:
        stores: Stores of the workspace.
        episode: The episode.
        segments: Its segments, see `read_segments`; in their grades people have corrected the judge.
    """
    annotations = stores.annotations.find_annotations([episode.episode_id])
    catalog = maker_catalog(stores)
    log = _EpisodeLog(
        episode=episode,
        annotations=annotations,
        catalog=catalog,
        shown=shown_annotation_ids(annotations, catalog),
        grades={segment["id"]: dict(segment["values"]).get("grade", "") for segment in segments},
    )
    captions = [_caption(log, annotation) for annotation in log.sorted(_captions(log))]
    return EpisodeAnnotations(
        captions=list[Json](captions),
        annotations=cast("list[dict[str, Json]]", describe_annotations(annotations, catalog)),
        subjects=_subjects(episode, annotations),
    )


def _subjects(episode: Episode, annotations: Sequence[Annotation]) -> list[str]:
    ids = (part for annotation in annotations for part in (annotation.subject, annotation.annotation_id))
    return list(dict.fromkeys([episode.episode_id, *ids]))


def _captions(log: _EpisodeLog) -> list[Annotation]:
    """The texts that cover the episode, and those that other annotations are about, or may be."""
    subjects = {annotation.subject for annotation in log.annotations}
    makers = [maker for maker in log.catalog.makers.values() if maker.subject_kind == "annotation"]
    described = {name for maker in makers for name in maker.after}
    return [
        annotation
        for annotation in log.annotations
        if isinstance(annotation.value.get("text"), str) and annotation.value["text"]
        if annotation.annotation_id in subjects
        or annotation.name in described
        or _covers_episode(annotation, log.episode)
    ]


def _covers_episode(annotation: Annotation, episode: Episode) -> bool:
    return annotation.start_seconds <= 0.0 and annotation.stop_seconds >= episode.duration_seconds


def _caption(log: _EpisodeLog, caption: Annotation) -> dict[str, Json]:
    grades = [_grade(log, annotation) for annotation in log.about(caption.annotation_id)]
    newest = next((grade["grade"] for grade in grades if grade["grade"]), "ungraded")
    span = f"{caption.start_seconds:.2f} to {caption.stop_seconds:.2f} s"
    return {
        "text": str(caption.value["text"]),
        "grade": log.grades.get(caption.annotation_id) or newest,
        "made": f"{span}, {_provenance(log, caption)}",
        "shown": log.is_shown(caption),
        "grades": list[Json](grades),
    }


def _grade(log: _EpisodeLog, grade: Annotation) -> dict[str, Json]:
    """What one annotation says of a text: a grade with its rulings, a ruling of a person, or values of columns."""
    rulings = _rulings(grade)
    score = grade.value.get("score")
    score_text = f"score {score:.2f}, " if isinstance(score, int | float) else ""
    is_whole = bool(rulings) and not grade.part
    return {
        "grade": str(grade.value.get("grade") or ("error" if is_whole else "")),
        "made": score_text + _provenance(log, grade),
        "note": _note(log, grade),
        "groups": group_rulings(rulings),
        "values": [] if rulings else list[Json](_column_values(log, grade)),
    }


def _rulings(grade: Annotation) -> list[Mapping[str, Any]]:
    rulings = grade.value.get("rulings")
    return [ruling for ruling in rulings if isinstance(ruling, dict)] if isinstance(rulings, list) else []


def _note(log: _EpisodeLog, annotation: Annotation) -> str:
    """What a reader must know of a value: that it fills no column, or is by an older maker."""
    maker = log.maker(annotation)
    if not log.is_shown(annotation):
        return "not shown in columns"
    needs_current = maker is not None and any(column.needs_current_maker for column in maker.columns)
    return "by an older maker" if maker and needs_current and log.catalog.is_stale(maker) else ""


def _column_values(log: _EpisodeLog, annotation: Annotation) -> list[list[Json]]:
    maker = log.maker(annotation)
    names = [column.name for column in maker.columns if column.name in annotation.value] if maker else []
    return [[name, value_text(annotation.value[name])] for name in names]


def value_text(value: Json) -> str:
    """A value of a column as a person reads it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(value_text(item) for item in value)
    return f"{value:.6g}" if isinstance(value, float) else "unknown" if value is None else str(value)


def _provenance(log: _EpisodeLog, annotation: Annotation) -> str:
    maker = log.maker(annotation)
    if maker is None:
        name = f"maker {annotation.maker_id}"
    elif maker.kind == "person":
        name = " ".join(["a person", maker.model, *map(str, maker.settings.values())])
    else:
        name = f"{maker.annotator} {maker.version} {maker.model}"
    candidate = f", candidate {annotation.ordinal + 1}" if annotation.ordinal else ""
    return f"by {name.strip()}" + (f" from {annotation.camera}" if annotation.camera else "") + candidate
