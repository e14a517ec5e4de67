"""Scores by episode from a CSV file that a training run wrote."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from ares.annotation import short_hash
from ares.errors import RequestError
from ares.io import existing_path, open_file

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = ("episode_id", "score")
# A row of an id and a number has 20 to 40 bytes.
_LARGEST_BYTES = 2**30


class _ScoreRow(BaseModel):
    """A row of the file."""

    model_config = ConfigDict(frozen=True)

    episode_id: Annotated[str, Field(min_length=1, max_length=64)]
    score: FiniteFloat


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreFile:
    """The scores of a file.

    Attributes:
        scores: Score by episode id.
        faults: By episode id, why its row cannot be used.
        num_unusable: Rows that cannot be used and name no episode.
        fingerprint: Hash of the scores.
    """

    scores: Mapping[str, float]
    faults: Mapping[str, str]
    num_unusable: int
    fingerprint: str


def read_score_file(path: str) -> ScoreFile:
    """Read a CSV file with the columns `episode_id` and `score`; others are ignored.

    A wrong row costs its episode alone.

    Raises:
        RequestError: The file is missing, too large, no UTF-8 text, or lacks a column.
    """
    scores: dict[str, float] = {}
    faults: dict[str, str] = {}
    num_unusable = 0
    for row in _rows(path):
        episode_id = str(row.get("episode_id") or "").strip()
        try:
            parsed = _ScoreRow(episode_id=episode_id, score=row.get("score"))  # type: ignore[arg-type]
        except ValidationError as error:
            is_score = error.errors()[0]["loc"] == ("score",)
            num_unusable += not is_score
            if is_score:
                faults[episode_id] = "its score in the file is no finite number"
            continue
        if scores.setdefault(episode_id, parsed.score) != parsed.score:
            faults[episode_id] = "the file has several scores of it"
    usable = {episode_id: score for episode_id, score in scores.items() if episode_id not in faults}
    fingerprint = short_hash([[id, score] for id, score in sorted(usable.items())])
    return ScoreFile(scores=usable, faults=faults, num_unusable=num_unusable, fingerprint=fingerprint)


def _rows(path: str) -> Iterator[dict[str, str | None]]:
    existing_path(path)
    with open_file(path) as file:
        if file.seek(0, io.SEEK_END) > _LARGEST_BYTES:
            raise RequestError("the file of scores is too large", f"{path}: more than {_LARGEST_BYTES} bytes")
        file.seek(0)
        reader = csv.DictReader(io.TextIOWrapper(file, encoding="utf-8-sig", newline=""))
        try:
            missing = [name for name in HEADER if name not in (reader.fieldnames or ())]
            if missing:
                raise RequestError(
                    f"the file of scores has no column {missing[0]!r}", f"{path}; needed: {', '.join(HEADER)}"
                )
            yield from reader
        except UnicodeDecodeError:
            raise RequestError("the file of scores is no UTF-8 text", path) from None
        except csv.Error as error:
            raise RequestError("the file of scores is no CSV", f"{path}: {error}") from None
