"""A hit of a search, with its episode."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING

from ares.search import Hit
from ares.workspace.stored_episode import StoredEpisode

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores

_HIT_FIELDS = tuple(item.name for item in fields(Hit))


@dataclass(frozen=True, kw_only=True)
class StoredHit(Hit):
    """The best moment of one episode, with access to the episode.

    >>> for hit in ws.search("open the drawer"):
    ...     hit.episode.frames(hit.camera, hit.seconds)
    """

    _stores: Stores = field(compare=False, repr=False)

    @classmethod
    def from_hit(cls, hit: Hit, stores: Stores) -> StoredHit:
        """The hit with access to these stores."""
        return cls(**{name: getattr(hit, name) for name in _HIT_FIELDS}, _stores=stores)

    @cached_property
    def episode(self) -> StoredEpisode:
        """The episode, read when it is first used."""
        return StoredEpisode.from_episode(
            self._stores.tables.episodes.get_episode(self.episode_id), self._stores
        )

    def to_json(self) -> dict[str, Json]:
        """One element of `ares search --json`."""
        return Hit(**{name: getattr(self, name) for name in _HIT_FIELDS}).to_json()
