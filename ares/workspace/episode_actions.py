"""What a user does to episodes, and what people made of it: removals, tags, notes and saved views."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from ares.errors import RequestError
from ares.registry import explain_mistakes
from ares.workspace.arguments import SelectionOptions, make_selection, read_values
from ares.workspace.printed_tables import ResultTable

if TYPE_CHECKING:
    from ares.curation import SavedView, SelectedEpisodes, TagUse, UndoReport
    from ares.store import Action, Stores
    from ares.workspace.arguments import EpisodesLike
    from ares.workspace.names import NameHit


@explain_mistakes
class EpisodeActions:
    """Actions on episodes: facts in the log, which a later fact reverses.

    Args:
        stores: Stores of the workspace.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def find(self, text: str, limit: int = 20) -> list[NameHit]:
        """Episodes by id, record or file, and datasets, tags and sets by name; the surest first.

            >>> ws.find("episode_000012.parquet")[0].name

        Raises RequestError as `find_names`.
        """
        from ares.workspace.names import find_names

        return find_names(self._stores, text, limit)

    def remove(
        self, ids: EpisodesLike = (), *, note: str = "", **conditions: Unpack[SelectionOptions]
    ) -> Action:
        """Take episodes out of the workspace, as `ares remove` does; sources stay, and `undo` brings them back.

            >>> ws.remove(where="dataset = 'droid' AND num_steps < 20", note="too short")
            >>> ws.remove(ws.search("black picture", limit=5))

        Args:
            ids: Ids, episodes, or hits of a search; or the path of a text file of ids.
            note: Why, in your words.
            where: SQL filter.
            set: Name of a set, or "name@version".
            dataset: Name of a dataset.
            search: Text; selects the best `limit` episodes for it, 100 without a limit.
            like: Id of a similar episode.
            image: Image to search by, as for `Workspace.search`.
            by: Ways to compare, as for `Workspace.search`.
            limit: Maximum number of episodes.
            min_score: Least score of an episode of a search, 0 to 1 or "auto": all that reach it are selected.

        Raises:
            RequestError: Nothing says which episodes, none is selected, or the filter is wrong.
        """
        from ares.curation import remove_episodes

        return self._act(ids, conditions, lambda selected: remove_episodes(self._stores, selected, note=note))

    def tag(self, tag: str, ids: EpisodesLike = (), **conditions: Unpack[SelectionOptions]) -> Action:
        """Add a tag to episodes, as `ares tag add` does; the arguments are those of `remove`.

            >>> ws.tag("blurred", ws.episodes.where("num_steps < 20"))
            >>> ws.episodes.where("array_has(tags, 'blurred')")

        Raises:
            RequestError: As `remove`, or the text cannot be a tag.
        """
        from ares.curation import add_tag

        return self._act(ids, conditions, lambda selected: add_tag(self._stores, tag, selected))

    def untag(self, tag: str, ids: EpisodesLike = (), **conditions: Unpack[SelectionOptions]) -> Action:
        """Remove a tag from episodes, as `ares tag remove` does; the arguments are those of `remove`.

            >>> ws.untag("blurred", set="accepted")

        Raises:
            RequestError: As `remove`, or the text cannot be a tag.
        """
        from ares.curation import remove_tag

        return self._act(ids, conditions, lambda selected: remove_tag(self._stores, tag, selected))

    def note(self, text: str, ids: EpisodesLike = (), **conditions: Unpack[SelectionOptions]) -> Action:
        """Write a note to episodes, as `ares note` does; the arguments are those of `remove`.

            >>> ws.note("the gripper slips", ["0123456789abcdef"])
            >>> ws.episodes.where("notes IS NOT NULL")

        Raises:
            RequestError: As `remove`, or the text is empty or too long.
        """
        from ares.curation import add_note

        return self._act(ids, conditions, lambda selected: add_note(self._stores, text, selected))

    def set_values(self, column: str, values: Any) -> Action:
        """Set values of a column of your own, which filters, tables, Browse and exports have from then on.

            >>> ws.set_values("my_score", {"3f2a90c1d2e3f405": 0.5})
            >>> ws.set_values("my_score", frame.set_index("episode_id")["score"])
            >>> ws.episodes.where("my_score > 0.4")

        Args:
            column: Small letters, digits and "_"; a new name, or that of a column that was set before.
            values: By id: a mapping, or a Series or frame of pandas, Polars or Arrow with the ids as its index or in
                the column `episode_id`. A column keeps its type: true or false, whole numbers, numbers or texts. A
                missing value, NaN too, takes away what an episode has.

        Raises:
            RequestError: The name is in use, an id is no episode, or the values are of another type.
        """
        from ares.curation import set_values

        return set_values(self._stores, column, *read_values(values, column))

    def add_vectors(self, space: str, vectors: Any) -> int:
        """Store a vector of your own for episodes, and find similar ones by it; returns how many were stored.

            >>> ws.add_vectors("my_model", {"3f2a90c1d2e3f405": numpy.ones(8)})
            >>> ws.add_vectors("my_model", (ids, array))
            >>> ws.episodes.similar("3f2a90c1d2e3f405", space="my_model")

        Args:
            space: Name of your model: letters, digits, "_" and "-".
            vectors: By id; or N ids and an array (N, D). An episode has one, which a later one replaces.

        Raises:
            RequestError: An id is no episode, or a vector has another length, is zero or not finite.
        """
        from ares.search import add_own_vectors
        from ares.workspace.arguments import read_vectors

        return add_own_vectors(self._stores, space, *read_vectors(vectors))

    def remove_vectors(
        self, space: str, ids: EpisodesLike = (), **conditions: Unpack[SelectionOptions]
    ) -> int:
        """Delete vectors of your own, of all episodes or of some; returns how many. It cannot be undone.

            >>> ws.remove_vectors("my_model")

        Args:
            space: Name of your model.
            ids: Ids, episodes or hits, as for `remove`; without them and without a condition all that have a vector.
            **conditions: Those of `remove`.

        Raises:
            RequestError: There are no such vectors, or they are those of a model.
        """
        from ares.curation import select_episodes
        from ares.search import remove_own_vectors

        selection = make_selection(ids, conditions)
        if selection.is_empty:
            return remove_own_vectors(self._stores, space)
        with select_episodes(self._stores, selection) as selected:
            return remove_own_vectors(self._stores, space, set(selected))

    def undo(self, number: int | None = None) -> UndoReport:
        """Take back a removal, a tag, values or a change of a set, as `ares undo` does.

            >>> ws.undo()

        Args:
            number: Number of the action; by default your last.

        Raises:
            RequestError: There is nothing to take back.
        """
        from ares.curation import undo

        return undo(self._stores, number)

    def _act(
        self, ids: EpisodesLike, conditions: SelectionOptions, act: Callable[[SelectedEpisodes], Action]
    ) -> Action:
        from ares.curation import select_episodes

        selection = make_selection(ids, conditions)
        if selection.is_empty:
            raise RequestError("nothing says which episodes", "give ids, where, set, dataset or search")
        with select_episodes(self._stores, selection) as selected:
            return act(selected)


class TagList(ResultTable["TagUse"]):
    """The tags that episodes have: how many have each, and who changed it last."""

    shown: ClassVar[Mapping[str, Callable[[TagUse], object]]] = {
        "tag": lambda use: use.tag,
        "episodes": lambda use: use.episodes,
        "person": lambda use: use.person,
        "changed": lambda use: use.changed,
    }
    empty: ClassVar[str] = "no tags"


class ViewList(ResultTable["SavedView"]):
    """The saved views of a workspace, as `ares view` and the dashboard have them.

        >>> ws.views.save("drawers", {"q": ["open the drawer"], "cut": ["0.6"]})

    Args:
        stores: Stores of the workspace.
    """

    shown: ClassVar[Mapping[str, Callable[[SavedView], object]]] = {
        "view": lambda view: view.name,
        "query": lambda view: dict(view.query),
        "person": lambda view: view.person,
        "saved": lambda view: view.created,
    }
    empty: ClassVar[str] = "no views"

    def __init__(self, stores: Stores) -> None:
        from ares.curation import list_views

        super().__init__(list_views(stores))
        self._stores = stores

    def save(self, name: str, query: Mapping[str, Sequence[str]]) -> Action:
        """Save a view under a name, in place of one that has it.

        Args:
            name: 1 to 80 characters without "/".
            query: Parameters of its address, such as {"q": ["drawer"], "where": ["success"]}.

        Raises:
            RequestError: The name has another form, or the view is empty or too long.
        """
        from ares.curation import save_view

        return save_view(self._stores, name, query)

    def delete(self, name: str) -> Action:
        """Delete a view; its episodes stay. Raises RequestError when there is none of that name."""
        from ares.curation import delete_view

        return delete_view(self._stores, name)
