"""Tuning: how an approximate vector index has to be asked to find what exact search finds, as it was measured."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import lance

_KEY = "ares.tuning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How to ask when a filter keeps a share of the rows.

    Attributes:
        share: Smallest share of the rows, 0 to 1, that the setting was measured for.
        nprobes: Partitions to look into for rows.
        candidates: Rows whose exact distance is looked at.
        wide: Partitions to look into for episodes: the 20 best are further apart than the 20 best rows.
        deep: Candidates for episodes.
        recall: Part of the true 20 nearest rows that was found, over queries that did not choose the setting.
        episodes: The same of the true 20 best episodes.
        p50_ms: Median milliseconds of one query for 20 rows.
    """

    share: float
    nprobes: int
    candidates: int
    wide: int
    deep: int
    recall: float
    episodes: float
    p50_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What was measured of one index, kept in the configuration of its table.

    Attributes:
        index: Name of the index; another one is not trusted.
        kind: "IVF_RQ", "IVF_SQ" ...; "flat" when no index kept the promise and search is exact.
        partitions: Partitions of the index.
        built_rows: Rows of the table when the index was trained.
        rows: Rows of the table when it was measured.
        queries: Queries it was measured by.
        measured: ISO 8601.
        settings: By falling share; the first is that of no filter.
    """

    index: str
    kind: str
    partitions: int
    built_rows: int
    rows: int
    queries: int
    measured: str
    settings: tuple[Setting, ...]

    def setting(self, share: float) -> Setting | None:
        """How to ask when a filter keeps this share of the rows; None when nothing was measured for so few.

        What finds enough among few rows also finds enough among more, not the other way round.
        """
        return next((one for one in self.settings if one.share <= share), None)


def read_tuning(dataset: lance.LanceDataset) -> Tuning | None:
    """What is kept with a table, or None when there is nothing or something unreadable."""
    text = dataset.config().get(_KEY)
    with suppress(ValueError, TypeError, KeyError):
        document = json.loads(text or "")
        return Tuning(**{**document, "settings": tuple(Setting(**one) for one in document["settings"])})
    return None


def keep_tuning(dataset: lance.LanceDataset, tuning: Tuning) -> None:
    """Keep it with the table; a later one takes its place."""
    dataset.update_config({_KEY: json.dumps(asdict(tuning))})
