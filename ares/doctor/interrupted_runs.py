"""Finds and deletes vectors that a killed run wrote without their annotations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ares.doctor.checks import REPAIR, Finding
from ares.episode import Json

if TYPE_CHECKING:
    from ares.store import Stores


# Documents: for each space that a run writes to, the annotator and model of the run.
UNFINISHED_SPACES = "unfinished_spaces"


def delete_unrecorded_vectors(stores: Stores) -> int:
    """Delete vectors that a killed run wrote without their annotations. Returns the number of rows deleted."""
    unfinished = dict(stores.annotations.find_documents(UNFINISHED_SPACES))
    deleted = sum(
        stores.tables.vectors(space).delete_unknown(partial(_annotated_ids, stores, run))
        for space, run in unfinished.items()
    )
    stores.annotations.drop_documents(UNFINISHED_SPACES, unfinished)
    return deleted


def check_interrupted_runs(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Find spaces that a run was writing to when it was killed; the caller holds the write lock."""
    spaces = [space for space, _ in stores.annotations.find_documents(UNFINISHED_SPACES)]
    if spaces:
        if repair:
            delete_unrecorded_vectors(stores)
        yield Finding(
            check="each vector has its annotation",
            count=len(spaces),
            example=spaces[0],
            repaired=repair,
            remedy=REPAIR,
        )


def _annotated_ids(stores: Stores, run: Json, episode_ids: Sequence[str]) -> set[str]:
    """Episodes with an annotation by any maker of the run's annotator and model: they share the table."""
    makers = [
        maker
        for maker in stores.annotations.makers().values()
        if {"annotator": maker.annotator, "model": maker.model} == run
    ]
    subjects = (stores.annotations.find_done_subjects(maker.maker_id, episode_ids) for maker in makers)
    return set().union(*subjects)
