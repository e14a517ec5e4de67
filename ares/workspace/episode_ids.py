"""Ids of episodes as people give them: as texts, episodes or hits, in any list, array or Series."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from ares.episode import Episode
from ares.errors import RequestError
from ares.search import Hit


def check_ids(items: Iterable[object]) -> list[str]:
    """The ids of some episodes.

    Raises:
        RequestError: It is a table, a single text, or a list of something else.
    """
    kind = type(items).__name__
    if isinstance(items, str) or getattr(items, "ndim", 1) != 1 or not isinstance(items, Iterable):
        raise RequestError(
            "ids are a list of episode ids", f"got a {kind}; give for example df['episode_id']"
        )
    return [_episode_id(item, kind) for item in items]


def _episode_id(item: object, kind: str) -> str:
    if isinstance(item, Episode | Hit):
        return item.episode_id
    if isinstance(item, str):
        return item
    raise RequestError(
        "ids are a list of episode ids", f"got a {kind} with {type(item).__name__} {item!r} in it"
    )


class IdFile(Collection[str]):
    """The ids in a text file, separated by white space; read again for each iteration.

    Args:
        path: The file.

    Raises:
        RequestError: The file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = sum(1 for _ in self)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, episode_id: object) -> bool:
        return any(listed_id == episode_id for listed_id in self)

    def __iter__(self) -> Iterator[str]:
        try:
            with self._path.open() as lines:
                yield from (episode_id for line in lines for episode_id in line.split())
        except (OSError, UnicodeDecodeError) as error:
            raise RequestError("the list of ids cannot be read", f"{str(self._path)!r}: {error}") from None
