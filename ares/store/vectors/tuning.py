"""Search settings of an approximate vector index, measured once and stored with the table."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import lance

_KEY = "ares.tuning"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSetting:
    """Index parameters for filters that keep at least a given share of the rows; stored as JSON by these names.

    Attributes:
        share: Smallest share of the rows, 0 to 1, for which the setting was measured.
        nprobes: Partitions to search for rows.
        candidates: Rows whose exact distance is computed.
        wide: Partitions to search for episodes: the 20 best episodes lie farther apart than the 20 best rows.
        deep: Rows whose exact distance is computed for episodes.
        recall: Share of the true 20 nearest rows in the result, over queries that did not select the setting.
        episodes: Share of the true 20 best episodes in the result, over the same queries.
        p50_ms: Median duration of one query for 20 rows, in milliseconds.
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
class IndexTuning:
    """Measured settings of one index, stored in the configuration of its table as JSON by these names.

    Attributes:
        index: Name of the index for which the settings hold.
        kind: "IVF_RQ" or "IVF_SQ"; "flat" when no index reached the target recall and search is exact.
        partitions: Partitions of the index.
        built_rows: Rows of the table when the index was trained.
        rows: Rows of the table when the index was measured.
        queries: Number of queries.
        measured: Time of the measurement, ISO 8601.
        settings: By falling share; the first is for searches without a filter.
    """

    index: str
    kind: str
    partitions: int
    built_rows: int
    rows: int
    queries: int
    measured: str
    settings: tuple[SearchSetting, ...]

    def setting(self, share: float) -> SearchSetting | None:
        """The setting for a filter that keeps this share of the rows, 0 to 1; None for less than any measured share.

        A setting that suffices for a share also suffices for a larger one, but not for a smaller one.
        """
        return next((setting for setting in self.settings if setting.share <= share), None)


def read_tuning(dataset: lance.LanceDataset) -> IndexTuning | None:
    """The tuning stored with a table, or None when it has none that can be read."""
    text = dataset.config().get(_KEY)
    with suppress(ValueError, TypeError, KeyError):
        document = json.loads(text or "")
        settings = tuple(SearchSetting(**setting) for setting in document["settings"])
        return IndexTuning(**{**document, "settings": settings})
    return None


def write_tuning(dataset: lance.LanceDataset, tuning: IndexTuning) -> None:
    """Store a tuning with its table, in place of an earlier one."""
    dataset.update_config({_KEY: json.dumps(asdict(tuning))})
