"""Hides what was annotated of a source that has changed since, until its annotator has annotated it again."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ares.annotation import WITHDRAWN, Annotation
from ares.store.log.protocol import OUTDATED, find_outdated_subjects
from ares.store.sync.shown_values import keep_newest_annotations

if TYPE_CHECKING:
    from ares.store.log.protocol import AnnotationStore


def outdate_annotations(log: AnnotationStore, episode_ids: Sequence[str], sources: Collection[str]) -> int:
    """Hide what models and code say of some episodes, until their annotators have said it again.

    What people say stays, and so does everything in the log.

    Args:
        log: The annotation log.
        episode_ids: The episodes; pass some thousands.
        sources: Producers, by maker_id, whose annotations come from the source itself: they stay.

    Returns:
        Number of annotations that are hidden now.

    Raises:
        StoreError: The log cannot be written.
    """
    makers = {
        maker_id
        for maker_id, producer in log.producers().items()
        if producer.kind != "person" and maker_id not in sources
    }
    if not makers:
        return 0
    newest = keep_newest_annotations(log.find_annotations(episode_ids, maker_ids=sorted(makers)))
    hidden = [annotation for annotation in newest if not annotation.is_withdrawn]
    hide_annotations(log, hidden)
    return len(hidden)


def hide_annotations(log: AnnotationStore, hidden: Sequence[Annotation]) -> None:
    """Hide some annotations, until their annotators have said it again. Raises StoreError."""
    now, created = time.time_ns(), datetime.now(UTC).isoformat(timespec="seconds")
    # Noted first: an annotation that is hidden and not noted would never be made again.
    log.put_documents(OUTDATED, {f"{item.maker_id}/{item.subject}": item.subject for item in hidden})
    log.append([replace(item, value=WITHDRAWN, revision=now, created=created) for item in hidden])


def forget_outdated(log: AnnotationStore, annotations: Sequence[Annotation]) -> None:
    """Note that the subjects of new annotations are up to date again. Raises StoreError."""
    subjects: dict[str, set[str]] = {}
    for annotation in annotations:
        # What was hidden is said again by a revision.
        if annotation.revision:
            subjects.setdefault(annotation.maker_id, set()).add(annotation.subject)
    for maker_id, of_maker in subjects.items():
        done = find_outdated_subjects(log, maker_id, of_maker)
        log.drop_documents(OUTDATED, [f"{maker_id}/{subject}" for subject in done])
