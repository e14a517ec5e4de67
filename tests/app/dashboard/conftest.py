"""A small real workspace: the sample episodes with fabricated captions and grades, one of them hostile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ares.annotation import Annotation, Column, Maker
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace

HOSTILE = "<img src=x onerror=\"document.title='broken in'\"> ![p](http://example.invalid/p.png) **lift**"


def _annotation(episode_id: str, name: str, maker: Maker, subject: str, **value: object) -> Annotation:
    return Annotation(
        episode_id=episode_id,
        name=name,
        value=value,  # type: ignore[arg-type]
        maker_id=maker.maker_id,
        subject=subject,
        start_seconds=0.0,
        stop_seconds=4.0,
        created="2026-11-01T00:00:00+00:00",
    )


def _say(ws: Workspace) -> None:
    text = Column(name="caption", type="string", meaning="what a captioner saw")
    grade = Column(name="grade", type="string", meaning="what the rubric makes of it")
    captioner = Maker(annotator="caption", version="1", model="hand", columns=(text,))
    judge = Maker(annotator="grade", version="1", model="hand", columns=(grade,))
    for maker in (captioner, judge):
        ws.annotations.add_maker(maker)
    grades = ("acceptable", "not_acceptable", "unsure")
    for number, episode in enumerate(ws.episodes("dataset = 'metaworld_sawyer'")):
        words = HOSTILE if number == 0 else episode.instruction
        caption = _annotation(
            episode.episode_id, "caption", captioner, episode.episode_id, text=words, caption=words
        )
        ruling = {"criterion": "VERB", "verdict": "MET", "source": "probe", "observed": HOSTILE}
        rulings = [{**ruling, "reason": "fits", "evidence": [0.5, 1.5]}]
        graded = _annotation(
            episode.episode_id,
            "grade",
            judge,
            caption.annotation_id,
            grade=grades[number % 3],
            acceptable=number % 3 == 0,
            score=1.0,
            rulings=rulings,
        )
        ws.annotations.append([caption, graded])
    ws.sync()


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[Workspace]:
    from annotators.base import Options as AnnotateOptions
    from annotators.run import annotate
    from ingest.base import Options
    from ingest.load import load

    ws = open_workspace(str(tmp_path_factory.mktemp("dashboard") / "ws"), Settings())
    load(ws, [str(demo_samples / "rlds"), str(demo_samples / "video")], Options(rate_hz=10.0))
    _hostile_instruction(ws)
    _say(ws)
    annotate(ws, ["motion"], AnnotateOptions(settings=ws.settings), quiet=True)
    yield ws
    ws.close()


def _hostile_instruction(ws: Workspace) -> None:
    """One more episode, like the first but told something that is markup."""
    from ares.episode import Record, episode_id

    first = next(ws.episodes("dataset = 'video'"))
    made = episode_id(format="video", dataset="hostile", version="", split="", key="h")
    told = replace(
        first, episode_id=made, dataset="hostile", key="h", instruction=HOSTILE, instructions=(HOSTILE,)
    )
    ws.tables.episodes.add([Record(episode=told, trajectory=ws.trajectory(first.episode_id))])


@pytest.fixture
def mapped(tmp_path: Path, demo_samples: Path) -> Iterator[Workspace]:
    """A few episodes with a place on a map."""
    import pyarrow as pa

    from ingest.load import load

    ws = open_workspace(str(tmp_path / "mapped"), Settings())
    load(ws, [str(demo_samples / "video")], limit=4, quiet=True)
    ids = sorted(ws.tables.episodes.ids())
    places = {"episode_id": ids, "map_x": [0.0, 0.1, 5.0, 5.1], "map_y": [0.0, 0.1, 5.0, 5.1]}
    ws.tables.episodes.set_values(pa.table(places))
    yield ws
    ws.close()


@pytest.fixture(scope="session")
def hostile() -> str:
    return HOSTILE
