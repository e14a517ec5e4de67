"""Checks that what is kept of judges follows from their controls, and that grades show it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ares.annotation import canonical_json
from ares.doctor.finding import REPAIR, Finding
from ares.rubric import JUDGE_TRUST, TRUST_COLUMN, GradeProjection, trust_changes, trust_documents
from ares.store.sync import MakerCatalog

if TYPE_CHECKING:
    from ares.store import Stores


def check_controls(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Compare what is kept of judges with their controls, counted anew."""
    tables, annotations = stores.tables, stores.annotations
    counted = trust_documents(tables, annotations)
    kept = dict(annotations.find_documents(JUDGE_TRUST))
    wrong = sorted(
        key
        for key in counted.keys() | kept.keys()
        if canonical_json(counted.get(key)) != canonical_json(kept.get(key))
    )
    if not wrong:
        return
    if repair:
        GradeProjection().count(tables, annotations)
    yield Finding(
        check="what is kept of judges follows from their controls",
        count=len(wrong),
        example=wrong[0],
        repaired=repair,
        remedy=REPAIR,
    )


def check_judge_trust(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Compare the grades of judges with what their controls say: what an untrusted judge says is no decision."""
    tables, annotations = stores.tables, stores.annotations
    catalog = MakerCatalog(annotations.makers())
    wrong = [(key, rows) for key, rows in trust_changes(tables, annotations, catalog) if len(rows)]
    if not wrong:
        return
    if repair:
        GradeProjection().refresh(tables, annotations, catalog)
    key, rows = wrong[0]
    label = "episode" if key == "episode_id" else "segment"
    yield Finding(
        check="each grade follows from the controls of its judge",
        count=sum(len(rows) for _, rows in wrong),
        example=f"{label} {rows[key][0]}: its judge is {rows[TRUST_COLUMN][0]}",
        repaired=repair,
        remedy=REPAIR,
    )
