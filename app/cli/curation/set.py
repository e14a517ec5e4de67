"""`ares set`: make, list, show and compare frozen sets."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.common import add_query_arguments, add_workspace_arguments, episode_count, open_workspace
from app.cli.output import OutputTable, answer

if TYPE_CHECKING:
    from ares.workspace import Workspace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="freeze the episodes of a filter, a search or a list")
    _add_create_arguments(create)
    listing = actions.add_parser("list", help="all sets")
    show = actions.add_parser("show", help="one set with its episodes")
    show.add_argument("name", metavar="NAME")
    lock = actions.add_parser("lock", help="write a set to a lock file that proves its content")
    lock.add_argument("name", metavar="NAME")
    lock.add_argument("file", metavar="FILE")
    diff = actions.add_parser("diff", help="what two sets have and have not in common")
    diff.add_argument("a", metavar="A")
    diff.add_argument("b", metavar="B")
    for action in (create, listing, show, lock, diff):
        add_workspace_arguments(action)


def _add_create_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--where", default="", metavar="SQL", help="episodes that fulfil this filter")
    parser.add_argument(
        "--search", default="", metavar="TEXT", help="the best --limit episodes for this text"
    )
    add_query_arguments(parser)
    parser.add_argument("--ids", default="", metavar="FILE", help="episode ids, one a line")
    parser.add_argument(
        "--limit", type=episode_count, metavar="N", help="at most N episodes (of a search: 100)"
    )


def run(args: argparse.Namespace) -> int:
    """Do the action that the arguments name."""
    actions = {"create": _create, "list": _list, "show": _show, "diff": _diff, "lock": _lock}
    actions[args.action](open_workspace(args), args)
    return 0


def _create(workspace: Workspace, args: argparse.Namespace) -> None:
    from ares.curation import select_episodes

    ids, recipe = select_episodes(
        workspace.stores,
        where=args.where,
        search=args.search,
        like=args.like,
        image=args.image,
        by=args.by,
        ids=_FileOfIds(Path(args.ids)) if args.ids else (),
        limit=args.limit,
    )
    episode_set = workspace.sets.create(args.name, ids, recipe)
    answer(args, episode_set.to_json(), lambda: f"set {episode_set.label}: {episode_set.episodes} episodes")


class _FileOfIds(Collection[str]):
    """The ids in a text file, separated by white space; read again for each iteration.

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
        from ares.errors import RequestError

        try:
            with self._path.open() as lines:
                yield from (episode_id for line in lines for episode_id in line.split())
        except (OSError, UnicodeDecodeError) as error:
            raise RequestError("the list of ids cannot be read", f"{str(self._path)!r}: {error}") from None


def _list(workspace: Workspace, args: argparse.Namespace) -> None:
    sets = [workspace.sets[name] for name in workspace.sets]
    rows = [
        (episode_set.name, episode_set.version, episode_set.episodes, episode_set.created)
        for episode_set in sets
    ]
    answer(
        args,
        [episode_set.to_json() for episode_set in sets],
        lambda: OutputTable(rows, ("set", "version", "episodes", "created")),
    )


def _show(workspace: Workspace, args: argparse.Namespace) -> None:
    episode_set = workspace.sets[args.name]
    document = {**episode_set.to_json(), "episode_ids": workspace.sets.ids(episode_set)}
    answer(args, document, lambda: workspace.sets.ids(episode_set))


def _diff(workspace: Workspace, args: argparse.Namespace) -> None:
    diff = workspace.sets.diff(workspace.sets[args.a], workspace.sets[args.b])
    document = {"added": diff.added_ids(), "removed": diff.removed_ids(), "common": diff.common}
    text = f"{diff.added} only in {args.b}, {diff.removed} only in {args.a}, {diff.common} in both"
    answer(args, document, lambda: text)


def _lock(workspace: Workspace, args: argparse.Namespace) -> None:
    episode_set = workspace.sets[args.name]
    workspace.sets.write_lock(episode_set, Path(args.file))
    document = {**episode_set.to_json(), "file": args.file}
    answer(args, document, lambda: f"{episode_set.label} locked in {args.file}")
