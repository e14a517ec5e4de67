"""Finds anything by its name: an episode by id, record or file, and a dataset, a tag or a set."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal
from weakref import WeakKeyDictionary

from ares.console import count_of
from ares.curation import Sets
from ares.errors import RequestError
from ares.store import TAGS, TrustedFilter, in_condition, quote_literal
from ares.workspace.status import count_values

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores

NameKind = Literal["episode", "dataset", "tag", "set"]
# A longer text is no name.
MOST_CHARACTERS, MOST_NAMES = 400, 100
# A file is looked for by so many characters and more: one or two begin half of all names.
_LEAST_FILE = 3
_ID = re.compile("[0-9a-f]{1,16}")
# "episode_000012.parquet", "episode 12" and "#12" are record 12 of LeRobot.
_NUMBER = re.compile(r"(?:episode|ep|#)?[ _-]?0*(\d{1,18})(?:\.\w+)?", re.IGNORECASE)
_COLUMNS = ("episode_id", "dataset", "split", "key", "instruction")
# Past every character that a name may have, so that a range has all names that begin with a text.
_LAST = chr(0x10FFFF)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameHit:
    """Something that a text names.

    Attributes:
        kind: What it is.
        name: Its name: the id of an episode, the label of a set.
        why: Which name of it the text is: "id", "record", "file" or "name".
        about: What else distinguishes it, for people.
    """

    kind: NameKind
    name: str
    why: str
    about: str

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return asdict(self)


def find_names(stores: Stores, text: str, limit: int = 20) -> list[NameHit]:
    """What a text names, the surest first: exact names, then names that begin so, then names that have it.

    No meaning is searched and no text of an episode. At a million episodes it reads ranges of sorted columns; only the
    name of a file, where nothing else has the text, is looked for in one column of all episodes.

    Args:
        stores: Stores of the workspace.
        text: An id or its beginning, a record ("12", "train/12", "episode_000012.parquet"), the name of a file, a
            dataset, a tag or a set.
        limit: Most hits, 1 to 100.

    Raises:
        RequestError: A longer text than a name may be, or another limit.
    """
    text = text.strip()
    if len(text) > MOST_CHARACTERS:
        raise RequestError(
            "the text is too long for a name",
            f"{count_of(len(text), 'character', comma=True)}; at most {MOST_CHARACTERS}",
        )
    if not 1 <= limit <= MOST_NAMES:
        raise RequestError("a limit is a number from 1 to 100", f"got {limit}")
    if not text or "\0" in text:
        return []
    labels = list(_find_labels(stores, text))
    exact = [hit for hit in labels if hit.name.partition("@")[0].casefold() == text.casefold()]
    others = [hit for hit in labels if hit not in exact]
    episodes: dict[str, NameHit] = {}
    for hit in _find_episodes(stores, text, limit, bool(labels)):
        episodes.setdefault(hit.name, hit)
    # Names that have the text get half of the list at most, so that a short text shows episodes too.
    room = max(limit - len(exact) - len(others), limit // 2)
    return [*exact, *islice(episodes.values(), room), *others][:limit]


def _find_episodes(stores: Stores, text: str, limit: int, is_named: bool) -> Iterator[NameHit]:
    """Episodes by id, by record, and where nothing is named so by file."""
    start, is_known = text.lower(), is_named
    queries = [("record", _record_condition(text)), ("record", _prefix_condition("key", text))]
    if _ID.fullmatch(start):
        by_id = ("id", _prefix_condition("episode_id", start))
        # A short number is sooner a record than the beginning of an id.
        queries.insert(0 if len(start) > 6 or not start.isdigit() else 1, by_id)
    for why, condition in queries:
        for hit in _read_hits(stores, condition, why, limit):
            is_known = True
            yield hit
    if not is_known and len(text) >= _LEAST_FILE:
        yield from _read_hits(stores, _file_condition(text), "file", limit)


def _read_hits(stores: Stores, condition: str, why: str, limit: int) -> Iterator[NameHit]:
    batches = stores.tables.episodes.scan(_COLUMNS, TrustedFilter(condition), limit=limit)
    rows = [row for batch in batches for row in batch.to_pylist()]
    for row in sorted(rows, key=lambda row: (row["key"], row["episode_id"])):
        record = "/".join(part for part in (row["dataset"], row["split"], row["key"]) if part)
        about = f"{record}: {row['instruction']}" if row["instruction"] else record
        yield NameHit(kind="episode", name=row["episode_id"], why=why, about=about)


def _prefix_condition(column: str, start: str) -> str:
    """The condition that a column begins with a text, as a range that an index answers."""
    return f"{column} >= {quote_literal(start)} AND {column} < {quote_literal(start + _LAST)}"


def _record_condition(text: str) -> str:
    """The condition that a text is the record of an episode, with or without its dataset and its split before it."""
    parts, conditions, all_keys = text.split("/"), list[str](), dict[str, None]()
    scopes: tuple[tuple[str, ...], ...] = ((), ("split",), ("dataset",), ("dataset", "split"))
    for columns in scopes:
        if len(columns) < len(parts):
            keys = _record_keys("/".join(parts[len(columns) :]))
            same = [f"{column} = {quote_literal(part)}" for column, part in zip(columns, parts, strict=False)]
            conditions.append(" AND ".join([in_condition("key", keys), *same]))
            all_keys |= keys
    # The index of keys answers the first part, whatever is in the others.
    return f"{in_condition('key', all_keys)} AND ({' OR '.join(f'({part})' for part in conditions)})"


def _record_keys(text: str) -> dict[str, None]:
    """What a record may be called that a text names: the text, without the ending of a file, or its number alone."""
    number = _NUMBER.fullmatch(text)
    keys = [text, str(PurePosixPath(text).with_suffix("")) if PurePosixPath(text).suffix else text]
    return dict.fromkeys([*keys, *([number[1]] if number else [])])


def _file_condition(text: str) -> str:
    """The condition that the file of an episode has a name, or a part of its path, that begins like the text."""
    return f"contains(source, {quote_literal('/' + text.strip('/'))})"


# By workspace: the version of its episodes, and how many of them each dataset and each tag has.
_counted: WeakKeyDictionary[Stores, tuple[int, Mapping[NameKind, Counter[str]]]] = WeakKeyDictionary()


def _find_labels(stores: Stores, text: str) -> Iterator[NameHit]:
    """Datasets, sets and tags that have a text in their name: the same first, then those that begin with it."""
    needle, counts = text.casefold(), _count_labels(stores)
    sets = Sets(stores.annotations)
    named: chain[tuple[NameKind, str]] = chain(
        (("dataset", name) for name in counts["dataset"]),
        (("set", name) for name in sets),
        (("tag", name) for name in counts["tag"]),
    )
    matching = [(kind, name) for kind, name in named if needle in name.casefold()]
    matching.sort(
        key=lambda item: (
            item[1].casefold() != needle,
            not item[1].casefold().startswith(needle),
            item[1].casefold(),
        )
    )
    for kind, name in matching[:MOST_NAMES]:
        stored = sets[name] if kind == "set" else None
        episodes = stored.episodes if stored else counts[kind][name]
        about = f"{episodes:,} episode{'' if episodes == 1 else 's'}"
        yield NameHit(kind=kind, name=stored.label if stored else name, why="name", about=about)


def _count_labels(stores: Stores) -> Mapping[NameKind, Counter[str]]:
    """Episodes by dataset and by tag, kept for a version of the table: few names of very many episodes."""
    rows = stores.tables.episodes.snapshot()
    known = _counted.get(stores)
    if known and known[0] == rows.version:
        return known[1]
    counts: dict[NameKind, Counter[str]] = {"dataset": count_values(rows, "dataset"), "tag": Counter()}
    if TAGS in rows.columns():
        counts["tag"] = count_values(rows, TAGS)
    _counted[stores] = (rows.version, counts)
    return counts
