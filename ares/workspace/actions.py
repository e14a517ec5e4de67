"""What a user takes out of a workspace, tags and takes back: facts in the log, which a later fact reverses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ares.episode import Episode
from ares.errors import RequestError
from ares.registry import refuse_unknown_keywords
from ares.search import Hit, MinScore
from ares.workspace.arguments import check_ids
from ares.workspace.reader import WorkspaceReader

if TYPE_CHECKING:
    from ares.curation import EpisodeSelection, UndoReport
    from ares.store import Action, StagedIds


class WorkspaceActions(WorkspaceReader):
    """The part of `Workspace` that changes which episodes, tags and sets are shown."""

    @refuse_unknown_keywords
    def remove(
        self,
        ids: Iterable[str | Episode | Hit] = (),
        *,
        where: str = "",
        set: str = "",
        dataset: str = "",
        search: str = "",
        limit: int | None = None,
        min_score: MinScore | None = None,
        note: str = "",
    ) -> Action:
        """Take episodes out of the workspace, as `ares remove` does; sources stay, and `undo` brings them back.

            >>> ws.remove(where="dataset = 'droid' AND num_steps < 20", note="too short")
            >>> ws.remove(ws.search("black picture", limit=5))

        Args:
            ids: Ids, episodes, or hits of a search.
            where: SQL filter.
            set: Name of a set, or "name@version".
            dataset: Name of a dataset.
            search: Text; selects the best `limit` episodes for it, 100 without a limit.
            limit: Maximum number of episodes.
            min_score: Least score of an episode for the text, 0 to 1 or "auto": all that reach it are selected.
            note: Why, in your words.

        Raises:
            RequestError: Nothing says which episodes, none is selected, or the filter is wrong.
        """
        from ares.curation import EpisodeSelection, remove_episodes

        selection = EpisodeSelection(
            ids=check_ids(ids),
            where=where,
            set=set,
            dataset=dataset,
            search=search,
            limit=limit,
            min_score=min_score,
        )
        return self._act(
            selection,
            lambda staged: remove_episodes(self.stores, staged, selection.to_json(), note=note),
        )

    @refuse_unknown_keywords
    def tag(
        self,
        tag: str,
        ids: Iterable[str | Episode | Hit] = (),
        *,
        where: str = "",
        set: str = "",
        dataset: str = "",
        search: str = "",
        limit: int | None = None,
        min_score: MinScore | None = None,
    ) -> Action:
        """Add a tag to episodes, as `ares tag add` does; the arguments are those of `remove`.

            >>> ws.tag("blurred", ws.episodes.where("num_steps < 20"))
            >>> ws.episodes.where("array_has(tags, 'blurred')")

        Raises:
            RequestError: As `remove`, or the text cannot be a tag.
        """
        from ares.curation import EpisodeSelection, add_tag

        selection = EpisodeSelection(
            ids=check_ids(ids),
            where=where,
            set=set,
            dataset=dataset,
            search=search,
            limit=limit,
            min_score=min_score,
        )
        return self._act(selection, lambda staged: add_tag(self.stores, tag, staged, selection.to_json()))

    @refuse_unknown_keywords
    def untag(
        self,
        tag: str,
        ids: Iterable[str | Episode | Hit] = (),
        *,
        where: str = "",
        set: str = "",
        dataset: str = "",
        search: str = "",
        limit: int | None = None,
        min_score: MinScore | None = None,
    ) -> Action:
        """Remove a tag from episodes, as `ares tag remove` does; the arguments are those of `remove`.

            >>> ws.untag("blurred", set="accepted")

        Raises:
            RequestError: As `remove`, or the text cannot be a tag.
        """
        from ares.curation import EpisodeSelection, remove_tag

        selection = EpisodeSelection(
            ids=check_ids(ids),
            where=where,
            set=set,
            dataset=dataset,
            search=search,
            limit=limit,
            min_score=min_score,
        )
        return self._act(selection, lambda staged: remove_tag(self.stores, tag, staged, selection.to_json()))

    @refuse_unknown_keywords
    def note(
        self,
        text: str,
        ids: Iterable[str | Episode | Hit] = (),
        *,
        where: str = "",
        set: str = "",
        dataset: str = "",
    ) -> Action:
        """Write a note to episodes, as `ares note` does; the arguments are those of `remove`.

            >>> ws.note("the gripper slips", ["0123456789abcdef"])
            >>> ws.episodes.where("notes IS NOT NULL")

        Raises:
            RequestError: As `remove`, or the text is empty or too long.
        """
        from ares.curation import EpisodeSelection, add_note

        selection = EpisodeSelection(ids=check_ids(ids), where=where, set=set, dataset=dataset)
        return self._act(selection, lambda staged: add_note(self.stores, text, staged, selection.to_json()))

    def undo(self, number: int | None = None) -> UndoReport:
        """Take back a removal, a tag or a change of a set, as `ares undo` does.

            >>> ws.undo()

        Args:
            number: Number of the action; by default your last.

        Raises:
            RequestError: There is nothing to take back.
        """
        from ares.curation import undo

        return undo(self.stores, number)

    def _act(self, selection: EpisodeSelection, act: Callable[[StagedIds], Action]) -> Action:
        from ares.curation import selected_ids
        from ares.store import StagedIds

        if selection.is_empty:
            raise RequestError("nothing says which episodes", "give ids, where, set, dataset or search")
        with StagedIds(selected_ids(self.stores, selection)) as staged:
            return act(staged)
