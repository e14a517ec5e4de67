"""Facts: annotations about a whole work, stamped with the time they were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ares.annotation import Annotation, Cost, Maker

if TYPE_CHECKING:
    from annotators.base import Work
    from ares.episode import Json


def fact(
    work: Work,
    maker: Maker,
    value: Mapping[str, Json],
    *,
    camera: str = "",
    frames: Sequence[float] = (),
    cost: Cost | None = None,
) -> Annotation:
    """What a maker found about a work's subject: over the whole episode, or over the span of the caption it judges."""
    about = work.about
    return Annotation(
        episode_id=work.episode.episode_id,
        name=maker.annotator,
        value=value,
        maker_id=maker.maker_id,
        subject=work.subject,
        start_seconds=about.start_seconds if about else 0.0,
        stop_seconds=about.stop_seconds if about else work.episode.duration_seconds,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        camera=camera,
        frames=tuple(frames),
        cost=cost or Cost(),
    )
