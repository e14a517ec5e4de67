"""Labels of episodes from a CSV file, by which success is evaluated and combinations are fitted."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ares.errors import RequestError

if TYPE_CHECKING:
    from ares.store import Stores

_EPISODE, _SUCCESS = "episode", "success"
# What a label counts as; "partial" is no success, because the task was not completed.
LABEL_VALUES = {
    **dict.fromkeys(("1", "true", "yes", "success"), True),
    **dict.fromkeys(("0", "false", "no", "failure", "partial"), False),
}
PARTIAL = "partial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Labels of a workspace.

    Attributes:
        labels: Label in lower case by episode_id.
        unmatched: Names of episodes that the workspace does not have.
    """

    labels: Mapping[str, str]
    unmatched: tuple[str, ...]


def read_labels(path: str, stores: Stores) -> Labels:
    """Read a CSV file with the columns episode (an id, or the key in its dataset) and success.

    A row whose label is empty is no label.

    Args:
        path: The file.
        stores: Stores of the workspace.

    Raises:
        RequestError: The file cannot be read, has other columns, an unknown label, a label twice, no label of an
            episode of the workspace, or a key that several episodes have.
    """
    labels = dict(_read_rows(path))
    ids = _find_ids(stores, labels)
    unmatched = tuple(sorted(labels.keys() - ids.keys()))
    if not ids:
        raise RequestError(
            "no label is of an episode of the workspace",
            f"{path}: {len(labels)} labels, the first for {next(iter(labels), '')!r}; give ids or keys of episodes",
        )
    by_id = {ids[name]: label for name, label in labels.items() if name in ids}
    return Labels(labels=by_id, unmatched=unmatched)


def _read_rows(path: str) -> Iterator[tuple[str, str]]:
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RequestError("labels cannot be read", f"{path}: {error}") from None
    if not rows or not {_EPISODE, _SUCCESS} <= rows[0].keys():
        columns = ", ".join(map(str, rows[0])) if rows else "no rows"
        raise RequestError("labels need the columns episode and success", f"{path}: {columns}")
    seen = set()
    for number, row in enumerate(rows, 2):
        name, label = (str(row[key] or "").strip() for key in (_EPISODE, _SUCCESS))
        if not label:
            continue
        if label.lower() not in LABEL_VALUES:
            raise RequestError(
                "no such label",
                f"{path}:{number}: {label!r}; there are: {', '.join(LABEL_VALUES)}, or nothing",
            )
        if name in seen:
            raise RequestError("an episode has two labels", f"{path}:{number}: {name!r}")
        seen.add(name)
        yield name, label.lower()


def _find_ids(stores: Stores, names: Mapping[str, str]) -> dict[str, str]:
    """Id of each labelled episode by the name in the file; one pass over ids and keys."""
    ids: dict[str, str] = {}
    for batch in stores.tables.episodes.scan(["episode_id", "key"]):
        columns = batch.to_pydict()
        for episode_id, key in zip(columns["episode_id"], columns["key"], strict=True):
            for name in {episode_id, key} & names.keys():
                if ids.setdefault(name, episode_id) != episode_id:
                    raise RequestError(
                        "several episodes have the key of a label", f"{name!r}; give the id of the episode"
                    )
    return ids
