"""Spans that a file states become segments of stored episodes: `ares annotate segment --spans FILE`."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ares.annotation import Annotation, Producer
from ares.errors import RequestError
from ares.input import (
    OUTSIDE,
    REPEATED,
    EpisodeNames,
    LocatedSpan,
    NamedSpan,
    locate_spans,
    match_spans_to_episodes,
    open_input,
    read_span_file,
)
from ares.jobs import ReasonCount
from ares_annotators.base import Preflight, Result, Work, new_annotation
from ares_annotators.models import find_family

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json
    from ares.store import Stores

# Its annotations stand beside those of `segment`, and no segmenter takes their place.
STATED_SPANS = "spans"
_VERSION = "1"


class SpanFileAnnotator:
    """The segments that a file names; their authors are those of the file, and people where it says so.

    Args:
        path: The file, see `ares.input.read_span_file`.
        stores: Stores of the workspace.

    Attributes:
        producer: Their producer; another content of the file makes another.
        warnings: What of the file is there twice.
        lost: What of the file is not read, by reason.

    Raises:
        SourceError: The file cannot be read.
        RequestError: The file names no span of a stored episode.
    """

    def __init__(self, path: str, stores: Stores) -> None:
        episodes = _StoredEpisodes(stores)
        file = read_span_file(path)
        models = {producer.model for producer in stores.annotations.producers().values()}
        unknown = Counter(span.author for span in file.spans if not _is_known_author(span.author, models))
        file = replace(file, spans=tuple(span for span in file.spans if span.author not in unknown))
        self._by_episode = match_spans_to_episodes(file, episodes.find)
        counts, examples = file.tally.counts, file.tally.examples
        self.warnings: tuple[str, ...] = (file.tally.line(REPEATED),) if REPEATED in counts else ()
        self.lost: tuple[ReasonCount, ...] = tuple(
            ReasonCount(
                reason=f"spans {reason}", count=count, example=f"{file.tally.name}: {examples[reason][0]}"
            )
            for reason, count in counts.items()
            if reason != REPEATED
        )
        self.lost += tuple(
            ReasonCount(
                reason=f"spans of author {author!r}, who is neither `person` nor a known model",
                count=count,
                example="write person, and the name in `annotator`; or the model as ORGANISATION/MODEL",
            )
            for author, count in unknown.items()
        )
        if not self._by_episode:
            unclear = (f"{item.reason}: {item.example}" for item in self.lost if unknown)
            reason = next(unclear, "") or next(file.tally.lines(), "it has no rows")
            raise RequestError("the file names no span of a stored episode", f"{path}: {reason}")
        # There was once a second file, and a setting of the unit.
        settings: dict[str, Json] = {"files": [_hash_content(path)], "unit": ""}
        self.producer = Producer(
            annotator=STATED_SPANS, version=_VERSION, settings=settings, fills_segments=True
        )

    def preflight(self, producers: Sequence[Producer]) -> Preflight:
        """What of the file is lost, whatever the episodes hold."""
        return Preflight(lost=self.lost)

    def make_result(self, work: Work) -> Result:
        """The segments of one episode, none for one that the file does not name."""
        spans = self._by_episode.get(work.episode.episode_id, [])
        if not spans:
            return Result(annotations=[])
        located, counts = locate_spans(spans, _step_seconds(work), work.episode.duration_seconds)
        warnings = [f"spans of the file {reason}" for reason in counts if reason != OUTSIDE]
        lost = [f"spans {OUTSIDE}"] * counts[OUTSIDE]
        return Result(annotations=self._make_segments(work, located), warnings=warnings, lost=lost)

    def _make_segments(self, work: Work, located: Sequence[LocatedSpan]) -> list[Annotation]:
        """An annotation for each span; those with one span and camera are distinguished by their part."""
        counts: Counter[tuple[float, float, str]] = Counter()
        annotations: list[Annotation] = []
        for part in located:
            ends = (part.start_seconds, part.stop_seconds)
            number = counts[(*ends, part.span.camera)]
            counts[(*ends, part.span.camera)] += 1
            annotation = new_annotation(
                work, self.producer, self._make_value(part.span), span=ends, camera=part.span.camera
            )
            annotations.append(replace(annotation, part=str(number)) if number else annotation)
        return annotations

    def _make_value(self, span: NamedSpan) -> dict[str, Json]:
        return {
            **span.fields,
            "text": span.text,
            "style": span.style,
            "author": span.author,
            "role": span.role,
        }


def _is_known_author(author: str, models: Collection[str]) -> bool:
    """Whether an author is a person or nobody, or a model by its name: a first name is neither."""
    if author in ("", "person") or author in models:
        return True
    return not author.replace(" ", "").replace(".", "").isalpha() or bool(find_family(author).language_model)


class _StoredEpisodes:
    """The episodes of a workspace by what a file may call them: their id, and their key as `EpisodeNames` reads it.

    Of several datasets with one key, "DATASET/KEY" tells.

    Args:
        stores: Stores of the workspace.
    """

    def __init__(self, stores: Stores) -> None:
        rows = stores.tables.episodes.read_columns(["episode_id", "dataset", "key"]).to_pylist()
        self._by_key: dict[str, str] = {f"{row['dataset']}/{row['key']}": row["episode_id"] for row in rows}
        self._ids = frozenset(self._by_key.values())
        self._names = EpisodeNames(self._by_key)

    def find(self, name: object) -> str:
        """The id of the episode that a name means, "" for none or for several."""
        if isinstance(name, str) and name in self._ids:
            return name
        return self._by_key.get(self._names.find(name), "")


def _step_seconds(work: Work) -> Sequence[float] | NDArray[np.float64]:
    """(T,) seconds of the steps of an episode, evenly spaced where it has no signals."""
    if work.trajectory is not None:
        return work.trajectory.timestamps
    return [step / work.episode.rate_hz for step in range(work.episode.num_steps)]


def _hash_content(path: str) -> str:
    """Hash of a file, 16 hex digits. Raises SourceError as opening does."""
    digest = hashlib.blake2b(digest_size=8)
    with open_input(str(Path(path).expanduser())) as file:
        for block in iter(partial(file.read, 2**20), b""):
            digest.update(block)
    return digest.hexdigest()
