"""Tell: a log of facts about made-up episodes, as ingestion and annotators write them, four for each."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

from annotators.base import Options
from annotators.motion import motion
from ares.annotation import Annotation, Column, Maker
from ares.episode import Json
from ares.workspace import Workspace
from ingest.check import CHECKER

_PER_WRITE = 20_000
_NOW = "2026-01-01T00:00:00+00:00"
_CAPTION = Maker(
    annotator="caption", version="1", columns=(Column(name="caption", type="string", meaning="Made up."),)
)
_GRADE = Maker(
    annotator="grade",
    version="1",
    columns=(
        Column(name="acceptable", type="bool", meaning="Made up."),
        Column(name="grade", type="string", meaning="Made up."),
        Column(name="score", type="float64", meaning="Made up."),
    ),
)


def tell(ws: Workspace, seed: int = 0, times: int = 1) -> None:
    """Append facts about every episode; nothing is applied to the tables.

    Args:
        ws: Where the episodes are.
        seed: Of everything random.
        times: Captions of each episode, each of a maker of its own and with a grade.
    """
    measured = motion(Options(settings=ws.settings), ws).maker
    captioners = [
        Maker(annotator="caption", version=str(number + 1), columns=_CAPTION.columns)
        for number in range(times)
    ]
    for maker in (measured, _GRADE, CHECKER, *captioners):
        ws.annotations.add_maker(maker)
    facts = _facts(ws, random.Random(seed), measured, captioners)
    while batch := list(islice(facts, _PER_WRITE)):
        ws.annotations.append(batch)


def _facts(
    ws: Workspace, chance: random.Random, measured: Maker, captioners: list[Maker]
) -> Iterator[Annotation]:
    for batch in ws.tables.episodes.scan(["episode_id"]):
        for episode_id in batch["episode_id"].to_pylist():
            yield _fact(episode_id, CHECKER, {"findings": [], "quality_findings": 0})
            yield _fact(episode_id, measured, _motion(chance))
            for captioner in captioners:
                text = f"take the thing number {chance.randrange(1_000_000)}"
                caption = _fact(episode_id, captioner, {"text": text, "caption": text})
                yield caption
                yield _fact(episode_id, _GRADE, _grade(chance), caption.annotation_id)


def _fact(episode_id: str, maker: Maker, value: dict[str, Json], subject: str = "") -> Annotation:
    return Annotation(
        episode_id=episode_id,
        name=maker.annotator,
        value=value,
        maker_id=maker.maker_id,
        subject=subject or episode_id,
        start_seconds=0.0,
        stop_seconds=5.0,
        created=_NOW,
    )


def _motion(chance: random.Random) -> dict[str, Json]:
    return {
        "path_length": chance.lognormvariate(0.0, 1.0),
        "jerk_ldlj": chance.gauss(-8.0, 2.0),
        "idle_share": chance.random(),
        "gripper_events": chance.randrange(8),
    }


def _grade(chance: random.Random) -> dict[str, Json]:
    good = chance.random() < 0.7
    return {"acceptable": good, "grade": "acceptable" if good else "not_acceptable", "score": float(good)}
