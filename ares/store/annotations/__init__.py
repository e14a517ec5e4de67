"""The append-only log of annotations and documents, in SQLite, MongoDB or memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.store.annotations.log import AnnotationStore, LogEntry
    from ares.store.annotations.memory import MemoryAnnotationStore
    from ares.store.annotations.mongo import MongoAnnotationStore
    from ares.store.annotations.serialization import AnnotationRow, UnstorableError, annotation_to_row
    from ares.store.annotations.spending import (
        MODEL_REPLIES,
        new_spending_key,
        read_spending,
        spending_document,
    )
    from ares.store.annotations.sqlite import SqliteAnnotationStore

__all__ = [
    "MODEL_REPLIES",
    "AnnotationRow",
    "AnnotationStore",
    "LogEntry",
    "MemoryAnnotationStore",
    "MongoAnnotationStore",
    "SqliteAnnotationStore",
    "UnstorableError",
    "annotation_to_row",
    "new_spending_key",
    "read_spending",
    "spending_document",
]

__getattr__ = lazy_exports(__name__)
