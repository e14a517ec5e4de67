"""The frozen sets of a workspace: made from filters, searches or lists of episodes, and read as episodes."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from ares.console import count_of
from ares.curation import CurationSet, SetDiff, Sets, create_set, create_set_of_spans, span_of_segment
from ares.errors import RequestError
from ares.io import absolute_path, expanded_path, output_file, output_path, parse_path
from ares.workspace.arguments import SelectionOptions, make_selection
from ares.workspace.episodes import Episodes
from ares.workspace.foreign_names import explain_mistakes
from ares.workspace.printed_tables import format_table, html_table

if TYPE_CHECKING:
    from ares.contract import Clash
    from ares.curation import (
        ComposedSelection,
        Controls,
        SetOperation,
        SplitPlan,
    )
    from ares.episode import Json, Span
    from ares.jobs import EpisodeSelection
    from ares.store import Action, StoredSegment, Stores
    from ares.workspace.arguments import EpisodesLike
    from ares.workspace.episode import StoredEpisode
    from ares.workspace.rebuild import RebuildReport


_HEADER = ("set", "version", "episodes", "created")


@explain_mistakes
@dataclass(frozen=True, kw_only=True, repr=False)
class StoredSet(CurationSet):
    """A frozen set with access to its episodes; two are equal when all fields of the set are.

    >>> accepted = ws.sets["accepted"]
    >>> accepted.episodes, accepted.label
    (120, 'accepted@2')
    >>> accepted.members.to_pandas(["episode_id", "caption"])
    """

    _stores: Stores = field(compare=False)
    _called: ClassVar = "the_set"
    _part: ClassVar = ("the_set.members", Episodes)

    @property
    def spans(self) -> Iterator[Span]:
        """The members of a set of spans by episode and time, streamed; none of a set of whole episodes."""
        return Sets(self._stores.annotations).spans(self)

    @property
    def members(self) -> Episodes:
        """Its episodes, or those of its spans, as far as the workspace still has them."""
        return Episodes(self._stores) & self.ids()

    def ids(self) -> Iterator[str]:
        """Ids of all its episodes, sorted, streamed."""
        return Sets(self._stores.annotations).ids(self)

    @property
    def measured(self) -> dict[str, Json]:
        """What people's answers say of the captions of each of its datasets now, by question."""
        from ares.export import describe_measured

        return describe_measured(self._stores, self.ids())

    def write_lock(self, path: str | Path, export: str | Path = "", *, quiet: bool = True) -> list[str]:
        """Write the set to a card, by which `ares set rebuild` makes it again elsewhere, and its labels beside it.

            >>> ws.sets["accepted"].write_lock("accepted.card.json", "exports/accepted")

        Args:
            path: The card, a JSON file; the labels are NAME.labels.jsonl.
            export: Folder of the export that is to be made again; by default the newest one that is still there.
            quiet: Show no progress.

        Returns:
            Names of the datasets that are not where they were read: with these the card proves the set, and no more.

        Raises:
            RequestError: The folder is no export of this set.
        """
        from ares.jobs import Progress
        from ares.workspace.recipe_cards import write_recipe_card

        stream = None if quiet else sys.stderr
        with closing(Progress("read sources", None, stream)) as progress, output_file(path) as target:
            card = write_recipe_card(self._stores, self, target, str(export), progress=progress)
        return [source.dataset for source in card.sources if not source.files]

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, key: Any) -> Any:
        """An episode, a view, or columns of its members, as `Episodes` has them."""
        return self.members[key]

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[StoredEpisode]:
        return iter(self.members)

    def __contains__(self, episode: object) -> bool:
        return episode in self.members

    def __repr__(self) -> str:
        return f"StoredSet({self.label!r}: {self.size}, created {self.created})"


def create_measured_set(
    stores: Stores,
    name: str,
    selection: EpisodeSelection,
    min_precision: float | None = None,
    accepts_refuted: bool = False,
) -> CurationSet:
    """Freeze a selection, or what people have measured of it; for the arguments see `SetCollection.create`."""
    if min_precision is None:
        if accepts_refuted:
            raise RequestError("refuted captions are taken by what people say of them", "give min_precision")
        return create_set(stores, name, selection)
    from ares.export import keep_measured_episodes

    keep = partial(keep_measured_episodes, stores, at_least=min_precision, accepts_refuted=accepts_refuted)
    gate: dict[str, Json] = {
        "min_precision": min_precision,
        **({"refuted": True} if accepts_refuted else {}),
    }
    return create_set(stores, name, selection, keep, gate)


@explain_mistakes
class SetCollection(Mapping[str, StoredSet]):
    """The sets of a workspace by name.

        >>> ws.sets.create("sinks", where="acceptable AND success")
        >>> ws.sets["sinks"], ws.sets["sinks@1"]
        >>> for name in ws.sets:
        ...     print(ws.sets[name].label, ws.sets[name].episodes)

    Args:
        stores: Stores of the workspace.
    """

    _called: ClassVar = "ws.sets"

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    @property
    def _sets(self) -> Sets:
        return Sets(self._stores.annotations)

    def create(
        self,
        name: str,
        ids: EpisodesLike | None = None,
        recipe: Mapping[str, Json] | None = None,
        *,
        min_precision: float | None = None,
        refuted: bool = False,
        **conditions: Unpack[SelectionOptions],
    ) -> StoredSet:
        """Freeze a selection as the next version of a name; the same selection again gives the same version.

            >>> ws.sets.create("sinks", where="acceptable AND num_steps > 20")
            >>> ws.sets.create("drawers", ws.search("open the drawer", limit=50))
            >>> ws.sets.create("mugs", search="mug", min_score="auto")
            >>> ws.sets.create("long", ws.episodes.sort("num_steps", descending=True).take(100))

        Args:
            name: Its name, see `ares.names.check_name`.
            ids: Ids, episodes, hits of a search, or segments, for their episodes; or the path of a text file of ids.
            recipe: How a list of ids was selected, stored with the set; by default these arguments.
            min_precision: Only episodes with accepted captions that people have measured, in datasets of which at least
                this share is true with 95 % confidence, see `ws.review.measure`.
            refuted: With it, also captions of a judge that was refuted.
            where: SQL filter; also applies to a search and to a list.
            set: Name of another set, or "name@version".
            dataset: Name of a dataset.
            search: Text; selects the best `limit` episodes for it, 100 without a limit.
            like: Id of a similar episode.
            image: Image to search by, as for `Workspace.search`.
            by: Ways to compare, as for `Workspace.search`.
            limit: Maximum number of episodes.
            min_score: Least score of an episode of a search, as for `Workspace.search`: all that reach it are selected.

        Raises:
            RequestError: The text cannot be a name, the filter is wrong, an id is unknown, no episode was selected, or
                `min_precision` is not shown: says how many answers are missing.
        """
        selection = make_selection(ids, conditions, "the set would be empty")
        if recipe is not None:
            others = [*conditions, *(["min_precision"] if min_precision is not None else [])]
            others += ["refuted"] if refuted else []
            if others or not selection.ids:
                raise RequestError(
                    "a recipe goes with a list of ids alone",
                    f"leave out {', '.join(others)}" if others else "give ids",
                )
            return self._stored(self._sets.create(name, selection.ids, recipe))
        return self._stored(create_measured_set(self._stores, name, selection, min_precision, refuted))

    def create_spans(
        self,
        name: str,
        segments: Iterable[StoredSegment] | None = None,
        *,
        where: str = "",
        search: str = "",
        limit: int | None = None,
    ) -> StoredSet:
        """Freeze spans of episodes as the next version of a name: each is an episode of an export.

            >>> ws.sets.create_spans("picks", where="verb = 'pick'")
            >>> ws.sets.create_spans("mugs", ws.search_segments("pick the mug", limit=500))

        A set keeps spans and texts, also where segments are made again. Segments of equal spans are one member.

        Args:
            name: Its name, see `ares.names.check_name`.
            segments: Segments, such as those of a search; without any those of the conditions.
            where: SQL filter over the columns of segments.
            search: Words; the best `limit` segments for them, 100 without a limit.
            limit: Maximum number of segments.

        Raises:
            RequestError: The text cannot be a name, the filter is wrong, both are given, or no segment was selected.
        """
        listed = [] if segments is None else list(segments)
        if not listed and segments is not None:
            raise RequestError("the set would be empty", "the list of segments is empty")
        if listed and (where or search or limit is not None):
            raise RequestError(
                "segments are listed or found by conditions, not both",
                f"got {count_of(len(listed), 'segment')}",
            )
        if listed:
            recipe: dict[str, Json] = {"segments": True, "listed": len(listed)}
            return self._stored(self._sets.create_spans(name, map(span_of_segment, listed), recipe))
        return self._stored(create_set_of_spans(self._stores, name, where=where, search=search, limit=limit))

    def __getitem__(self, name: str) -> StoredSet:
        """The newest version of "name", or exactly "name@2". Raises RequestError naming those that exist."""
        return self._stored(self._sets[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._sets)

    def __len__(self) -> int:
        return len(self._sets)

    def __contains__(self, name: object) -> bool:
        return name in self._sets

    def versions(self, name: str) -> list[StoredSet]:
        """All versions of a name, oldest first; empty for an unknown name."""
        return [self._stored(version) for version in self._sets.versions(name)]

    def clashes(self, selection: str | CurationSet) -> list[Clash]:
        """Signals of the members that mean different things, or seem to.

        An export wants a conversion named for each but the questions.

            >>> ws.sets.clashes("sinks")

        Raises:
            RequestError: There is no such set.
        """
        from ares.contract import find_clashes, find_contracts_of_episodes

        return find_clashes(find_contracts_of_episodes(self._stores, self.ids(selection), with_samples=True))

    def select(self, name: str) -> list[StoredSet]:
        """All versions of "name", or exactly "name@2". Raises RequestError for an unknown name."""
        return [self._stored(version) for version in self._sets.select(name)]

    def compose(
        self,
        name: str,
        ids: EpisodesLike | None = None,
        *,
        dedupe: bool = False,
        balance: Sequence[str] = (),
        floor: int | None = None,
        cap: int | None = None,
        shares: Mapping[str, float] | None = None,
        seed: int = 0,
        **conditions: Unpack[SelectionOptions],
    ) -> tuple[StoredSet, ComposedSelection]:
        """Freeze what rules leave of a selection: without copies, kinds of a size, datasets in shares.

            >>> even, decided = ws.sets.compose("even", where="success", balance=["task", "robot"], floor=20, cap=500)
            >>> decided.counts(), decided.reasons["3f2a90c1d2e3f405"]
            >>> ws.sets.compose("mix", dedupe=True, shares={"bridge": 0.6, "droid": 0.4})

        The rules apply in the order of the arguments.

        Args:
            name: Its name, see `ares.names.check_name`.
            ids: As for `create`, like all conditions.
            dedupe: Leave out copies but the best of each group: not mirrored, whole, with more pixels, with more bytes
                a pixel, ingested first.
            balance: Names whose values together are the kinds of episodes, as `by` of `split`.
            floor: Kinds with fewer episodes are left out.
            cap: Most episodes of a kind; which ones is drawn.
            shares: Share of each dataset, which sum to 1; other datasets are left out.
            seed: Of what is drawn.

        Returns:
            The set, and why each selected episode was kept or left out.

        Raises:
            RequestError: As `create`; a rule cannot be obeyed, or the rules leave no episode.
        """
        from ares.curation import CompositionRules, create_composed_set

        rules = CompositionRules(
            dedupe=dedupe,
            balance=balance,
            floor=floor,
            cap=cap,
            shares=shares or {},
            seed=seed,
        )
        selection = make_selection(ids, conditions, "the set would be empty")
        frozen, composed = create_composed_set(self._stores, name, selection, rules)
        return self._stored(frozen), composed

    def combine(self, name: str, operation: SetOperation, *sets: str) -> StoredSet:
        """Freeze the union, intersection or difference of sets; the recipe has their names and hashes.

            >>> ws.sets.combine("both", "intersection", "accepted", "drawers@2")

        Raises:
            RequestError: A set does not exist, some have spans and some episodes, or no member remains.
        """
        from ares.curation import combine_sets

        return self._stored(combine_sets(self._stores.annotations, name, operation, sets))

    def split(
        self,
        name: str,
        shares: Mapping[str, float],
        *,
        by: Sequence[str] = (),
        seed: int = 0,
        fresh: bool = False,
        move: bool = False,
    ) -> tuple[dict[str, StoredSet], SplitPlan]:
        """Freeze the parts of a set, NAME-PART each, of which no two share a group or a copy that was found.

            >>> parts, plan = ws.sets.split("all", {"train": 0.9, "val": 0.1}, by=["task", "scene"])
            >>> parts["val"].label, plan.on_two_sides, plan.joined

        An episode that has a side from an earlier split of the set, or of a set that it was made of, keeps it.

        Args:
            name: The set.
            shares: Share of each part by its name; they sum to 1.
            by: "task", "scene", "operator", "day", columns of episodes or keys of their metadata: no value is in two
                parts.
            seed: Decides between equally good splits.
            fresh: Draw all sides again.
            move: Put a group that joins two sides on the one with the largest share; else what joins them is left out.

        Raises:
            RequestError: The set has spans, a name has no values, there are fewer groups than parts, or the earlier
                split was by other names.
        """
        from ares.curation import SplitRequest, create_split_sets, plan_split

        request = SplitRequest(shares=shares, by=by, seed=seed, fresh=fresh, move=move)
        plan = plan_split(self._stores, self._sets[name], request)
        parts = create_split_sets(self._stores, self._sets[name], plan)
        return {part: self._stored(frozen) for part, frozen in parts.items()}, plan

    def controls(self, name: str, *, where: str = "", seed: int = 0) -> tuple[dict[str, StoredSet], Controls]:
        """Freeze two controls of a set: as many episodes at random, and for each member one that is alike.

            >>> controls, drawn = ws.sets.controls("accepted", where="caption IS NOT NULL")
            >>> controls["matched"].label, drawn.unmatched

        No control is a copy of a member or of another control, or moves as one does.

        Args:
            name: The set.
            where: SQL filter of the episodes to draw from, such as those that the set was selected from; by default
                the datasets of the members.
            seed: Of what is drawn.

        Raises:
            RequestError: The set has spans, the filter is wrong, there are too few episodes, or less than half of the
                members have another episode of the same task, outcome and length.
        """
        from ares.curation import create_control_sets, draw_controls

        selection = self._sets[name]
        drawn = draw_controls(self._stores, selection, where, seed)
        frozen = create_control_sets(self._stores, selection, drawn, seed)
        return {kind: self._stored(control) for kind, control in frozen.items()}, drawn

    def rebuild(
        self,
        card: str | Path,
        sources: Sequence[str | Path],
        export: str | Path = "",
        *,
        trust_answers_of: Collection[str] = (),
        accept_texts: bool = False,
        quiet: bool = False,
    ) -> RebuildReport:
        """Make the set of a card in this workspace, which has no other datasets, as `ares set rebuild` does.

            >>> report = ares.open("new", create=True).sets.rebuild("accepted.card.json", ["/data"], "exports/again")
            >>> report.differences

        Args:
            card: What `write_lock` wrote; its labels lie beside it.
            sources: Folders or URLs at or below which the sources are looked for.
            export: Folder to write the export of the card to; "" writes none.
            trust_answers_of: Names of the people whose answers in the card count; those of others are kept.
            accept_texts: Make the set although members have other texts than when the card was written.
            quiet: Show no progress.

        Raises:
            RequestError: The card or its labels cannot be read, the workspace has other datasets, or the card has no
                export or no answers of one of the people.
        """
        from ares.workspace.rebuild import rebuild_set

        folders = [absolute_path(expanded_path(source)) for source in sources]
        return rebuild_set(
            self._stores,
            parse_path(expanded_path(card)),
            folders,
            str(output_path(export)) if export else "",
            trust_answers_of=trust_answers_of,
            accept_texts=accept_texts,
            quiet=quiet,
        )

    def delete(self, name: str) -> Action:
        """Delete all versions of "name", or exactly "name@2"; its episodes stay, and `ws.undo()` brings it back.

            >>> ws.sets.delete("sinks@1")

        Raises:
            RequestError: There is no such set.
        """
        with self._stores.applying("ares set delete"):
            return self._sets.delete(name)

    def rename(self, name: str, new_name: str) -> Action:
        """Give all versions of a set another name, under which no set exists.

            >>> ws.sets.rename("sinks", "kitchen-sinks")

        Raises:
            RequestError: There is no such set, or the new name cannot be one or is in use.
        """
        return self._sets.rename(name, new_name)

    def note(self, name: str, text: str) -> Action:
        """Write a note to a set, in place of an earlier note; "" takes it away.

            >>> ws.sets.note("sinks", "for the first paper")

        Raises:
            RequestError: There is no such set.
        """
        return self._sets.note(name, text)

    def diff(self, a: str | CurationSet, b: str | CurationSet) -> SetDiff:
        """What changes from set `a` to set `b`.

            >>> ws.sets.diff("sinks@1", "sinks@2").added

        Raises:
            RequestError: There is no such set.
        """
        return self._sets.diff(self._resolve(a), self._resolve(b))

    def ids(self, selection: str | CurationSet) -> Iterator[str]:
        """Ids of the members of a set, sorted, streamed. Raises RequestError when there is no such set."""
        return self._sets.ids(self._resolve(selection))

    def __repr__(self) -> str:
        return format_table(self._rows(), _HEADER) or "no sets"

    def _repr_html_(self) -> str:
        return html_table(self._rows(), _HEADER)

    def _rows(self) -> list[tuple[object, ...]]:
        return [(item.name, item.version, item.episodes, item.created) for item in self.values()]

    def _resolve(self, selection: str | CurationSet) -> CurationSet:
        return self._sets[selection] if isinstance(selection, str) else selection

    def _stored(self, selection: CurationSet) -> StoredSet:
        names = [item.name for item in fields(CurationSet)]
        return StoredSet(**{name: getattr(selection, name) for name in names}, _stores=self._stores)
