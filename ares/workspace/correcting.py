"""Stores what a person says in place of an instruction, a caption or an outcome: of an episode, or a table of them."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from ares.errors import AresError, RequestError, StoreError
from ares.review import Answer, PreparedAnswer, prepare_answer, read_described, store_prepared
from ares.store import TrustedFilter, batched, ids_filter, in_condition, quote_literal

if TYPE_CHECKING:
    from ares.annotation import Annotation
    from ares.episode import Json
    from ares.review import DescribedEpisodes
    from ares.store import Stores


COLUMNS = ("episode", "instruction", "caption", "outcome")
_NAMED_ROWS, _BLOCK_ROWS = 10, 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionReport:
    """What became of the rows of a table of corrections.

    Attributes:
        stored: Number of answers that were stored; `ares undo` takes each back by its id.
        ids: Their ids, as far as they are few.
        bad_rows: Number of rows that could not be used.
        bad: Row number and reason of the first of these.
    """

    stored: int
    ids: tuple[str, ...]
    bad_rows: int = 0
    bad: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return {"stored": self.stored, "ids": [*self.ids], "bad_rows": self.bad_rows, "bad": [*self.bad]}


def correct_episode(stores: Stores, episode: str, fields: Mapping[str, str], person: str) -> CorrectionReport:
    """Store what a person says of one episode; the tables show it at once.

    Args:
        stores: Stores of the workspace.
        episode: Its id, the beginning of that, or its key.
        fields: By name ("instruction", "caption", "outcome") what the person says; "" says nothing.
        person: Who says it.

    Raises:
        RequestError: There is no such episode, nothing is said, or nobody can say it.
        StoreError: It cannot be stored.
    """
    with stores.applying("ares correct"):
        episode_id = _resolve_episode(stores, episode)
        stored = store_prepared(stores, *_prepare_corrections(stores, episode_id, fields, person))
    return CorrectionReport(stored=len(stored), ids=tuple(answer.annotation_id for answer in stored))


def correct_file(stores: Stores, path: Path, person: str) -> CorrectionReport:
    """Store what a table says, a row an episode; a bad row is named in the report, and the others are stored.

    Args:
        stores: Stores of the workspace.
        path: A CSV file with the column `episode` and some of `instruction`, `caption` and `outcome`.
        person: Who says it.

    Raises:
        RequestError: The file cannot be read, or lacks a column.
        StoreError: It cannot be stored.
    """
    rows = _read_table(path)
    ids, bad = list[str](), dict[int, str]()
    with stores.applying("ares correct"):
        for block in batched(enumerate(rows, 2), _BLOCK_ROWS):
            ids += _store_block(stores, block, person, bad)
    reasons = [f"row {number}: {reason}" for number, reason in sorted(bad.items())]
    return CorrectionReport(
        stored=len(ids),
        ids=tuple(ids[:_NAMED_ROWS]),
        bad_rows=len(bad),
        bad=tuple(reasons[:_NAMED_ROWS]),
    )


def _store_block(
    stores: Stores, rows: Sequence[tuple[int, Mapping[str, str]]], person: str, bad: dict[int, str]
) -> list[str]:
    """Store what some numbered rows say, all at once; returns the ids of the answers, and notes the bad rows."""
    episodes = _find_episodes(stores, {row["episode"] for _, row in rows if row["episode"]})
    described = read_described(stores, list(set(episodes.values())))
    prepared: dict[str, list[PreparedAnswer]] = {}
    stored: list[Annotation] = []
    for number, row in rows:
        name = row["episode"] or ""
        try:
            id = episodes.get(name) or _resolve_episode(stores, name)
            known = described if id in described.durations else None
            answers = _prepare_corrections(stores, id, row, person, known)
        except StoreError:
            raise
        except AresError as error:
            bad[number] = str(error)
            continue
        # A second row of an episode follows from the first.
        if id in prepared:
            stored += store_prepared(stores, *chain.from_iterable(prepared.values()))
            prepared = {}
            answers = _prepare_corrections(stores, id, row, person, known)
        prepared[id] = answers
    stored += store_prepared(stores, *chain.from_iterable(prepared.values()))
    return [annotation.annotation_id for annotation in stored]


def _read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a table of corrections; the byte order mark of a spreadsheet is no part of a name."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            rows, names = list(reader), set(reader.fieldnames or ())
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RequestError("the table of corrections cannot be read", f"{str(path)!r}: {error}") from None
    if "episode" not in names or not names.intersection(COLUMNS[1:]):
        listed = ", ".join(sorted(names)) or "no columns"
        raise RequestError("it is no table of corrections", f"it has {listed}; give {', '.join(COLUMNS)}")
    return rows


def _prepare_corrections(
    stores: Stores,
    episode_id: str,
    fields: Mapping[str, str],
    person: str,
    described: DescribedEpisodes | None = None,
) -> list[PreparedAnswer]:
    """The answers of one row: all of them can be stored."""
    stated = {name: (fields.get(name) or "").strip() for name in COLUMNS[1:]}
    if not any(stated.values()):
        raise RequestError("nothing is said of the episode", f"{episode_id}; give {', '.join(COLUMNS[1:])}")
    outcome, _, share = stated["outcome"].partition(" ")
    answers = {
        "outcome": ("success", outcome, share.strip()),
        "instruction": ("instruction", "unmet", stated["instruction"]),
        "caption": ("text", "", stated["caption"]),
    }
    return [
        prepare_answer(
            stores,
            Answer(
                question=question,
                subject_id=episode_id,
                subject_kind="episode",
                verdict=verdict,
                text=text,
                person=person,
            ),
            described,
        )
        for name, (question, verdict, text) in answers.items()
        if stated[name]
    ]


def _find_episodes(stores: Stores, names: Collection[str]) -> dict[str, str]:
    """The ids of the episodes that names are the key or the id of; others need `_resolve_episode`."""
    by_key = defaultdict[str, list[str]](list)
    condition = f"{in_condition('key', names)} OR {ids_filter(names)}" if names else "false"
    for batch in stores.tables.episodes.scan(["episode_id", "key"], TrustedFilter(condition)):
        for row in batch.to_pylist():
            by_key[row["key"]].append(row["episode_id"])
            by_key.setdefault(row["episode_id"], [row["episode_id"]])
    return {name: by_key[name][0] for name in names if len(by_key[name]) == 1}


def _resolve_episode(stores: Stores, name: str) -> str:
    """The id of an episode by its key, its id or the beginning of that."""
    if not name.strip():
        raise RequestError("no episode is named", "give its id, the beginning of that, or its key")
    rows = stores.tables.episodes.scan(["episode_id"], f"key = {quote_literal(name)}", limit=2)
    ids = [key for batch in islice(rows, 2) for key in batch["episode_id"].to_pylist()]
    if len(ids) > 1:
        raise RequestError("several episodes have this key", f"{name!r}; give the id")
    return ids[0] if ids else stores.tables.episodes.resolve_id(name)
