"""Hashes of the identities of purged episodes: enough to refuse them when they come again, and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ares.episode import Json

if TYPE_CHECKING:
    from ares.store.annotations import AnnotationStore

TOMBSTONES = "tombstones"


def hash_identity(workspace_id: str, episode_id: str) -> str:
    """32 hex digits of an episode in a workspace; the same episode has another hash in another workspace."""
    digest = hashlib.blake2b(episode_id.encode(), digest_size=16, key=workspace_id.encode()[:64])
    return digest.hexdigest()


def read_tombstones(annotations: AnnotationStore) -> frozenset[str]:
    """The hashes of all purged episodes. Raises StoreError."""
    return frozenset(key for key, _ in annotations.find_documents(TOMBSTONES))


def add_tombstones(annotations: AnnotationStore, identity_hashes: Iterable[str], created: str) -> None:
    """Remember that the episodes of some hashes were purged. Raises StoreError."""
    documents: dict[str, Json] = dict.fromkeys(identity_hashes, created)
    annotations.put_documents(TOMBSTONES, documents)
