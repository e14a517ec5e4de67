"""One rule says what a tag, a view, a set or a queue may be called, in any script; what is typed is not changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ares.curation import (
    Sets,
    list_tags,
    undo,
)
from ares.curation.lock_files import SetLock, read_lock
from ares.errors import RequestError
from ares.review import QueueRequest
from ares.settings import Settings
from ares.store import quote_literal
from ares.workspace import Workspace, open_workspace
from ares_app.dashboard.user_limits import choose_export_destination
from tests.workspaces import copy_workspace

# Letters of several scripts, signs of SQL, shells, globs, addresses and Markdown, and what needs a joiner.
GOOD = [
    "Pick & Place",
    "кухня 2",
    "厨房 收纳",
    "می\u200cخواهم",
    "🤖 it's",
    'say "hi" (twice)',
    "100%_done [a]* ?x=1&y#z",
    "'); DROP TABLE episodes --",
    "back\\slash $HOME `id`",
    "a/b, c=d; e:f",
    "**Bold** <b>",
    "x" * 80,
]
WRONG = {
    "": "it is empty",
    "  ": "it is empty",
    " a": "leave out the space before or behind it",
    "a\u3000": "leave out the space before or behind it",
    "a\nb": "invisible character U+000A",
    "a\x00b": "invisible character U+0000",
    "a\u202eb": "invisible character U+202E",
    "a\ud800b": "invisible character U+D800",
    "a@2": "leave out '@'",
    "../x": "leave out '.', '..' and empty parts",
    "a/./b": "leave out '.', '..' and empty parts",
    "a//b": "leave out '.', '..' and empty parts",
    "/etc": "leave out '.', '..' and empty parts",
    "..": "leave out '.', '..' and empty parts",
    "-rf": "another sign than '-'",
    "x" * 81: "at most 80 characters",
    "🤖" * 51: "200 bytes",
}


@pytest.fixture(scope="module")
def kept(curated_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """One workspace for all names, each of which is taken back."""
    folder = copy_workspace(curated_folder, tmp_path_factory.mktemp("names") / "workspace")
    with open_workspace(str(folder), Settings()) as opened:
        yield opened


@pytest.mark.parametrize(("name", "fault"), WRONG.items())
def test_a_wrong_name_is_refused_in_the_same_words_everywhere(
    name: str, fault: str, kept: Workspace, tmp_path: Path
) -> None:
    stores, sets = kept.stores, kept.sets
    ids = sorted(stores.tables.episodes.ids())
    attempts: list[Callable[[], object]] = [
        lambda: kept.tag(name, ids=ids[:1]),
        lambda: kept.untag(name, ids=ids[:1]),
        lambda: sets.create(name, ids=ids[:1]),
        lambda: sets.rename("good", name),
        lambda: QueueRequest(name=name, question="success", person="Ann"),
        lambda: choose_export_destination(tmp_path, name),
    ]
    own = list[str]()
    for attempt in attempts:
        with pytest.raises(RequestError) as error:
            attempt()
        own.append(str(error.value))
    assert all(text.startswith("that cannot be the name of a ") for text in own)
    # Of a name with "/" a queue and a folder say that it has no parts.
    assert len({text.partition(": ")[2] for text in own[:4]}) == 1 and fault in own[0]
    assert list(sets) == ["good"] and not list_tags(stores)


def _round_trip(workspace: Workspace, name: str, folder: Path) -> None:
    """Set, filter, lock; tag, filter, facet; view; then all is taken back."""
    ids = sorted(workspace.stores.tables.episodes.ids())
    stores, sets, where = workspace.stores, workspace.sets, f"in_set({quote_literal(name)})"
    frozen = sets.create(name, ids=ids[:2])
    assert (frozen.name, sets[f"{name}@1"].label) == (name, f"{name}@1") and name in sets
    assert stores.tables.episodes.ids(where) == set(ids[:2])
    assert list(sets.ids(sets[name])) == ids[:2]
    lock = folder / "lock.json"
    Sets(stores.annotations).write_lock(Sets(stores.annotations)[name], lock)
    locked, _ = read_lock(lock, SetLock)
    assert (locked.name, locked.ids) == (name, ids[:2])
    workspace.tag(name, ids=ids[1:3])
    assert [use.tag for use in list_tags(stores)] == [name]
    assert stores.tables.episodes.ids(f"tagged({quote_literal(name)}) AND {where}") == {ids[1]}
    workspace.untag(name, ids=ids[1:3])
    assert not list_tags(stores)
    sets.delete(name)
    assert list(sets) == ["good"]
    undo(stores)
    assert name in sets
    sets.delete(name)


@pytest.mark.parametrize(
    "name", [*GOOD[:2], *(pytest.param(name, marks=pytest.mark.slow) for name in GOOD[2:])]
)
def test_names_in_any_script_and_with_any_sign_go_round(name: str, kept: Workspace, tmp_path: Path) -> None:
    _round_trip(kept, name, tmp_path)


def test_names_of_older_rules_stay_valid(curated: Workspace, ids: list[str]) -> None:
    """A tag with an empty part and a set of a hundred letters were allowed once."""
    stores, long = curated.stores, "x" * 100
    curated.sets.create("short", ids=ids[:1])
    log, headers = stores.annotations, dict(stores.annotations.find_documents("sets", "short@"))
    for key, document in headers.items():
        assert isinstance(document, dict)
        log.put_documents("sets", {key.replace("short", long): {**document, "name": long}})
    assert curated.sets[long].version == 1
    assert curated.sets.create(long, ids=ids[:2]).name == long
