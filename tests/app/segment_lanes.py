"""Segments as sources, segmenters and captioners write them: overlaps, instants, unknown styles, markup, thousands."""

from __future__ import annotations

from dataclasses import replace

from ares.annotation import Annotation, Producer
from ares.episode import Episode, Json
from ares.workspace import Workspace
from tests.app.contested_producers import MARKUP, make_annotation

SEGMENTER = Producer(annotator="segment", version="1", settings={"by": "signals"}, fills_segments=True)
NUM_MANY, NUM_STYLES = 5000, 40


def make_source_producer(style: str) -> Producer:
    """The producer of what a source says in one style."""
    return Producer(annotator=f"source_{style}", version="1", fills_segments=True)


def make_segments(
    episode: Episode, producer: Producer, style: str, *spans: tuple[float, float, str], author: str = ""
) -> list[Annotation]:
    """Segments of one producer, each of (start, stop, text)."""
    made = []
    for number, (start, stop, text) in enumerate(spans):
        value: dict[str, Json] = {"text": text, "style": style, "author": author}
        segment = replace(make_annotation(episode, producer, span=(start, stop)), value=value)
        # As several rows with one span are written.
        made.append(replace(segment, part=str(number)) if start == stop else segment)
    return made


def add_segments(opened: Workspace) -> tuple[str, str]:
    """Give an episode a handful of segments of every kind, and another one thousands in many lanes; their ids."""
    few, many, *_ = sorted(opened.stores.tables.episodes.read(), key=lambda episode: episode.key)
    own = [
        *_source(
            few, "subtask", (0.0, 1.0, "reach the ball"), (1.0, 2.5, f"lift it {MARKUP}"), author="person"
        ),
        *_source(few, "plan", (0.0, 3.0, "1. reach 2. lift"), (0.5, 3.5, "1. lift 2. throw"), author="qwen"),
        *_source(few, "vqa", (1.25, 1.25, "where is the ball?"), (2.0, 2.0, "in the hand")),
        *_source(few, "haptics_of_robot", (2.0, 3.0, "contact")),
        *make_segments(few, SEGMENTER, "subtask", (0.0, 1.1, ""), (1.1, 2.4, "")),
    ]
    length = many.duration_seconds / NUM_MANY
    spans = [(n * length, (n + 1) * length, f"step {n % 50} of the work") for n in range(NUM_MANY)]
    own += make_segments(many, SEGMENTER, "subtask", *spans)
    for number in range(NUM_STYLES):
        own += _source(many, f"style{number:02}", (0.5, 1.0, f"a text of style {number}"))
    log = opened.stores.annotations
    for name in sorted({annotation.name for annotation in own}):
        log.add_producer(
            SEGMENTER if name == "segment" else make_source_producer(name.removeprefix("source_"))
        )
    log.append(own)
    opened.sync()
    return few.episode_id, many.episode_id


def _source(
    episode: Episode, style: str, *spans: tuple[float, float, str], author: str = ""
) -> list[Annotation]:
    return make_segments(episode, make_source_producer(style), style, *spans, author=author)
