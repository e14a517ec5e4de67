"""What is known of one episode, as `ares show` prints it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from ares.annotation import Annotation, Producer
from ares.curation import notes_of, producer_catalog, tags_of
from ares.episode import Camera, Episode, Json
from ares.rubric import REFUTED_COLUMN
from ares.store import (
    ids_filter,
    list_uncounted_answers,
    make_stored_segments,
    origin_of,
    person_of,
)

if TYPE_CHECKING:
    from ares.store import ProducerCatalog, Stores


# Fields of an episode before and after its cameras, in the order of the document.
_FIELDS = (
    "episode_id", "format", "dataset", "version", "split", "key", "source", "content_hash", "robot", "instruction",
    "instructions", "num_steps", "duration_seconds", "rate_hz", "rate_source", "claimed_rate_hz", "measured_rate_hz",
    "rate_spread", "clock_shift_seconds", "frame_pairing",
)  # fmt: skip
_NAMED_FIELDS = ("success", "success_source", "state_names", "action_names")
_SUBJECT_FIELDS = ("annotation_id", "name", "value", "subject", "subject_kind", "part", "ordinal", "revision")
_SPAN_FIELDS = ("start_seconds", "stop_seconds", "camera", "frames", "created", "maker_id")
_PRODUCER_FIELDS = ("annotator", "kind", "version", "model", "prompt_hash")
# Kind and key of what is there once instructions were audited, as `ares.review` writes it.
_AUDIT_STAMPS, _LAST = "instruction_audit_stamps", "last"
_GRADE = "grade"


def describe_grade(grade: str, *, is_refuted: bool) -> str:
    """A grade for people, such as "not acceptable", and that it does not count where its judge is refuted."""
    words = grade.replace("_", " ")
    if is_refuted and grade in ("acceptable", "not_acceptable"):
        return f"graded {words} by a refuted judge: does not count"
    return words


def describe_episode(stores: Stores, episode_id: str) -> dict[str, Json]:
    """Return an episode with its cameras, its segments where it has any, and its annotations.

    Args:
        stores: Stores of the workspace.
        episode_id: Its id, or the unique start of it.

    Raises:
        RequestError: No episode or several have such an id.
    """
    episode = stores.tables.episodes.get_episode(stores.tables.episodes.resolve_id(episode_id))
    catalog = producer_catalog(stores)
    annotations = stores.annotations.find_annotations([episode.episode_id])
    return {
        **{name: getattr(episode, name) for name in _FIELDS},
        "cameras": [_camera_json(camera) for camera in episode.cameras],
        **({"depth": list[Json](depth)} if (depth := episode.depth_texts) else {}),
        **{name: getattr(episode, name) for name in _NAMED_FIELDS},
        **({"recorded": dict(episode.recorded)} if episode.recorded else {}),
        "metadata": dict(episode.metadata),
        "tags": list[Json](tags_of(stores, episode.episode_id)),
        "notes": list[Json](notes_of(stores, episode.episode_id)),
        **_describe_judges(stores, episode),
        **_describe_segments(stores, episode, annotations, catalog),
        "annotations": describe_annotations(annotations, catalog),
        **_describe_uncounted(stores, episode.episode_id),
    }


def _describe_uncounted(stores: Stores, episode_id: str) -> dict[str, Json]:
    """What people say of an episode in files and does not count, where there is any."""
    answers: list[Json] = [
        {
            **_describe_annotation(answer.annotation, answer.producer, False),
            "origin": answer.origin,
            "person": person_of(answer.producer),
        }
        for answer in list_uncounted_answers(stores.annotations, episode_id)
    ]
    return {"uncounted_answers": answers} if answers else {}


def _describe_segments(
    stores: Stores, episode: Episode, annotations: Sequence[Annotation], catalog: ProducerCatalog
) -> dict[str, Json]:
    """The shown segments of an episode, in order of time, where it has others than captions of all of it."""
    segmenters = {id for id, producer in catalog.producers.items() if producer.fills_segments}
    if not any(
        annotation.value.get("style")
        or annotation.stop_seconds - annotation.start_seconds < episode.duration_seconds
        for annotation in annotations
        if annotation.maker_id in segmenters
    ):
        return {}
    rows = stores.tables.segments.read(ids_filter([episode.episode_id]))
    return {"segments": [segment.to_json() for segment in make_stored_segments(rows)]}


def _describe_judges(stores: Stores, episode: Episode) -> dict[str, Json]:
    """The grade of its caption, and whether its judge is refuted; and what the audit says, where there is one.

    The audit says it of the instruction, before a person ruled on it.
    """
    described: dict[str, Json] = {_GRADE: None, REFUTED_COLUMN: None}
    if columns := described.keys() & stores.tables.episodes.columns().keys():
        rows = stores.tables.episodes.read_columns(sorted(columns), ids_filter([episode.episode_id]))
        described |= next(iter(rows.to_pylist()), {})
    if stores.annotations.get_document(_AUDIT_STAMPS, _LAST) is not None:
        from ares.review import find_finding

        finding = find_finding(stores, episode.dataset, episode.episode_id)
        # A source that says something else by now is not judged by what was said of the old instruction.
        recorded = episode.recorded.get("instruction", episode.instruction)
        if finding is not None and finding.instruction == recorded:
            described["instruction_audit"] = {"verdict": "unmet", **asdict(finding)}
    return described


def _camera_json(camera: Camera) -> Json:
    return {
        "name": camera.name,
        "role": camera.role,
        "width": camera.width,
        "height": camera.height,
        "codec": camera.codec,
        "frames": camera.media.num_frames,
        "flags": list(camera.flags),
    }


def describe_annotations(annotations: Sequence[Annotation], catalog: ProducerCatalog) -> list[Json]:
    """Return all annotations of one episode with their producers, and whether each fills columns or segments.

    Args:
        annotations: The annotations, in the order of the log.
        catalog: The producers.
    """
    shown = shown_annotation_ids(annotations, catalog)
    return [
        _describe_annotation(
            annotation, catalog.producers.get(annotation.maker_id), annotation.annotation_id in shown
        )
        for annotation in annotations
    ]


def shown_annotation_ids(annotations: Sequence[Annotation], catalog: ProducerCatalog) -> set[str]:
    """Return which annotations of one episode, in the order of the log, the tables show."""
    from ares.store import select_shown

    names = {producer.annotator for producer in catalog.producers.values()}
    shown = select_shown(annotations, catalog, names)
    return {annotation.annotation_id for members in shown.values() for annotation in members}


def _describe_annotation(annotation: Annotation, producer: Producer | None, shown: bool) -> dict[str, Json]:
    origin: dict[str, Json] = (
        {"origin": origin_of(annotation)} if producer and producer.kind == "person" else {}
    )
    producer_fields = {name: getattr(producer, name, None) for name in _PRODUCER_FIELDS}
    cost = {name: getattr(annotation.cost, name) for name in ("usd", "tokens_in", "tokens_out")}
    return {
        **{name: getattr(annotation, name) for name in _SUBJECT_FIELDS},
        "shown": shown,
        **{name: getattr(annotation, name) for name in _SPAN_FIELDS},
        **producer_fields,
        **cost,
        **origin,
    }
