"""`ares set`: make, list, show and compare frozen sets."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.common import add_common, add_question, answer, number_of_episodes, open_workspace, table

if TYPE_CHECKING:
    from ares.workspace import Workspace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="freeze the episodes of a filter, a search or a list")
    create.add_argument("name", metavar="NAME")
    create.add_argument("--where", default="", metavar="SQL", help="episodes that fulfil this filter")
    create.add_argument(
        "--search", default="", metavar="TEXT", help="the best --limit episodes for this text"
    )
    add_question(create)
    create.add_argument("--ids", default="", metavar="FILE", help="episode ids, one a line")
    create.add_argument(
        "--limit", type=number_of_episodes, metavar="N", help="at most N episodes (of a search: 100)"
    )
    shown = actions.add_parser("show", help="one set with its episodes")
    shown.add_argument("name", metavar="NAME")
    lock = actions.add_parser("lock", help="write a set to a lock file that proves its content")
    lock.add_argument("name", metavar="NAME")
    lock.add_argument("file", metavar="FILE")
    compared = actions.add_parser("diff", help="what two sets have and have not in common")
    compared.add_argument("a", metavar="A")
    compared.add_argument("b", metavar="B")
    for one in (create, actions.add_parser("list", help="all sets"), shown, lock, compared):
        add_common(one)


def run(args: argparse.Namespace) -> int:
    """Do the action that was asked for."""
    ws = open_workspace(args)
    {"create": _create, "list": _list, "show": _show, "diff": _diff, "lock": _lock}[args.action](ws, args)
    return 0


def _create(ws: Workspace, args: argparse.Namespace) -> None:
    from ares.curate.choose import choose

    ids, recipe = choose(
        ws,
        where=args.where,
        search=args.search,
        like=args.like,
        image=args.image,
        by=args.by,
        ids=_Listed(Path(args.ids)) if args.ids else (),
        limit=args.limit,
    )
    made = ws.sets.create(args.name, ids, recipe)
    answer(args, made.to_json(), lambda: f"set {made.label}: {made.episodes} episodes")


class _Listed(Collection[str]):
    """The words of a text file, read anew each time. Raises RequestError when it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = sum(1 for _ in self)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, word: object) -> bool:
        return any(one == word for one in self)

    def __iter__(self) -> Iterator[str]:
        from ares.errors import RequestError

        try:
            with self._path.open() as lines:
                yield from (word for line in lines for word in line.split())
        except (OSError, UnicodeDecodeError) as error:
            raise RequestError("the list of ids cannot be read", f"{str(self._path)!r}: {error}") from None


def _list(ws: Workspace, args: argparse.Namespace) -> None:
    sets = [ws.sets[name] for name in ws.sets]
    rows = [(one.name, one.version, one.episodes, one.created) for one in sets]
    answer(
        args, [one.to_json() for one in sets], lambda: table(rows, ("set", "version", "episodes", "created"))
    )


def _show(ws: Workspace, args: argparse.Namespace) -> None:
    chosen = ws.sets[args.name]
    answer(args, {**chosen.to_json(), "episode_ids": ws.sets.ids(chosen)}, lambda: ws.sets.ids(chosen))


def _diff(ws: Workspace, args: argparse.Namespace) -> None:
    found = ws.sets.diff(ws.sets[args.a], ws.sets[args.b])
    document = {"added": found.added_ids(), "removed": found.removed_ids(), "common": found.common}
    text = f"{found.added} only in {args.b}, {found.removed} only in {args.a}, {found.common} in both"
    answer(args, document, lambda: text)


def _lock(ws: Workspace, args: argparse.Namespace) -> None:
    chosen = ws.sets[args.name]
    ws.sets.lock(chosen, Path(args.file))
    answer(
        args,
        {**chosen.to_json(), "file": args.file},
        lambda: f"{chosen.label} locked in {args.file}",
    )
