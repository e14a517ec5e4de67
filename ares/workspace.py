"""What a user calls on one workspace: read episodes, search, freeze sets; storage lies below, in `ares.store`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ares.episode import Episode, Trajectory
from ares.settings import Settings
from ares.store import Stores, open_stores

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.curation import Sets
    from ares.search import Hit


class Workspace:
    """A collection of episodes with their annotations, indexes and sets.

    Attributes:
        stores: Its tables, annotation log, media cache and write lock, for what this class does not offer.
    """

    def __init__(self, stores: Stores) -> None:
        self.stores = stores

    def __repr__(self) -> str:
        return f"Workspace({self.path!r})"

    @property
    def path(self) -> str:
        """Folder or URI, as the user wrote it."""
        return self.stores.path

    @property
    def location(self) -> str:
        """The absolute folder, or the URI on an object store."""
        return self.stores.location

    @property
    def settings(self) -> Settings:
        """Settings from the environment at the time it was opened."""
        return self.stores.settings

    @property
    def sets(self) -> Sets:
        """The frozen selections, by name."""
        from ares.curation import Sets

        return Sets(self.stores.annotations)

    def episodes(self, where: str = "", limit: int | None = None) -> Iterator[Episode]:
        """Stream the episodes that match an SQL filter over the columns of the episodes table.

        Raises:
            RequestError: The filter cannot be parsed.
        """
        return self.stores.tables.episodes.read(where=where, limit=limit)

    def episode(self, episode_id: str) -> Episode:
        """Return one episode. Raises RequestError for an unknown id."""
        return self.stores.tables.episodes.get_episode(episode_id)

    def trajectory(self, episode_id: str) -> Trajectory:
        """Return the signals of an episode. Raises RequestError for an unknown id."""
        return self.stores.tables.trajectories.get(episode_id)

    def frame(self, columns: list[str], where: str = "", limit: int | None = None) -> pa.Table:
        """Return columns of the episodes table as one Arrow table. Raises RequestError for an unknown column."""
        return self.stores.tables.episodes.read_columns(columns, where=where, limit=limit)

    def search(self, text: str = "", **options: object) -> list[Hit]:
        """Return the moments that match a text, an image or an episode, best first.

        Args:
            text: The text to search for, or "".
            options: Other fields of `ares.search.query.Query`: `where`, `like`, `image`, `by`, `limit`, ...

        Raises:
            RequestError: The filter cannot be parsed, or the search cannot be done with what is embedded.
            ModelError: The model of the embedding space cannot be loaded.
        """
        from ares.search import Query, search

        query: Query = Query(text=text, **options)  # type: ignore[arg-type]
        return search(self.stores, query)

    def use(self, **makers: str) -> dict[str, str]:
        """Choose the makers whose values fill the columns, such as `use(caption="42b1", grade="newest")`.

        Args:
            makers: By annotator a maker_id, the unique start of one, or "newest" for the newest of each episode.

        Returns:
            The maker_id, or "newest", by annotator.

        Raises:
            RequestError: An annotator or a maker does not exist, or several begin so; then nothing is changed.
        """
        from ares.curation import use_makers

        return use_makers(self.stores, makers)

    def sync(self) -> int:
        """Apply the annotations that the tables lack. Returns the number of annotations applied."""
        return self.stores.sync()

    def close(self) -> None:
        """Close the annotation store, if it was opened."""
        self.stores.close()


def open_workspace(path: str, settings: Settings) -> Workspace:
    """Open a workspace, creating it when the folder is empty or does not exist.

    Raises:
        RequestError: The folder holds something else, or an object store is to be used without MongoDB.
        StoreError: A newer version wrote the workspace, or its location cannot be reached.
    """
    return Workspace(open_stores(path, settings))
