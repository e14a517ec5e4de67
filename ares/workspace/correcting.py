"""Stores what a person says in place of an instruction, a caption or an outcome: of an episode, or a table of them."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ares.errors import AresError, RequestError, StoreError
from ares.review import Answer, PreparedAnswer, prepare_answer, store_prepared
from ares.store import quote_literal

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores


COLUMNS = ("episode", "instruction", "caption", "outcome")
_NAMED_ROWS = 10


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
        ids = tuple(_store_corrections(stores, episode, fields, person))
    return CorrectionReport(stored=len(ids), ids=ids)


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
    ids, bad = list[str](), list[str]()
    with stores.applying("ares correct"):
        for number, row in enumerate(rows, 2):
            try:
                ids += _store_corrections(stores, row["episode"] or "", row, person)
            except StoreError:
                raise
            except AresError as error:
                bad.append(f"row {number}: {error}")
    return CorrectionReport(
        stored=len(ids), ids=tuple(ids[:_NAMED_ROWS]), bad_rows=len(bad), bad=tuple(bad[:_NAMED_ROWS])
    )


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


def _store_corrections(stores: Stores, episode: str, fields: Mapping[str, str], person: str) -> Iterator[str]:
    episode_id = _resolve_episode(stores, episode)
    stated = {name: (fields.get(name) or "").strip() for name in COLUMNS[1:]}
    if not any(stated.values()):
        raise RequestError("nothing is said of the episode", f"{episode!r}; give {', '.join(COLUMNS[1:])}")

    def prepare(question: str, verdict: str, text: str = "") -> PreparedAnswer:
        answer = Answer(
            question=question,
            subject_id=episode_id,
            subject_kind="episode",
            verdict=verdict,
            text=text,
            person=person,
        )
        return prepare_answer(stores, answer)

    answers = list[PreparedAnswer]()
    if stated["outcome"]:
        answers.append(prepare("success", stated["outcome"]))
    if stated["instruction"]:
        answers.append(prepare("instruction", "unmet", stated["instruction"]))
    if stated["caption"]:
        answers.append(prepare("text", "", stated["caption"]))
    # All of a row are stored, or none.
    for answer in answers:
        yield store_prepared(stores, answer).annotation_id


def _resolve_episode(stores: Stores, name: str) -> str:
    """The id of an episode by its key, its id or the beginning of that."""
    if not name.strip():
        raise RequestError("no episode is named", "give its id, the beginning of that, or its key")
    rows = stores.tables.episodes.scan(["episode_id"], f"key = {quote_literal(name)}", limit=2)
    ids = [key for batch in islice(rows, 2) for key in batch["episode_id"].to_pylist()]
    if len(ids) > 1:
        raise RequestError("several episodes have this key", f"{name!r}; give the id")
    return ids[0] if ids else stores.tables.episodes.resolve_id(name)
