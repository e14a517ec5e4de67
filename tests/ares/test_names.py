"""Names: an id, a record, a file, a dataset, a set or a tag leads to what has it, whatever characters are in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ares import open as open_workspace
from ares.errors import RequestError
from ares.workspace import Workspace, find_names


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[Workspace]:
    """Some videos, a tag on one of them, and sets of which one name begins another."""
    ws = open_workspace(tmp_path_factory.mktemp("names") / "ws", create=True)
    ws.ingest(demo_samples / "video", limit=6, quiet=True)
    ws.ingest(demo_samples / "rlds", limit=3, quiet=True)
    ids = sorted(ws.stores.tables.episodes.ids())
    ws.tag("to_check", ids[:1])
    for name in ("good", "good.old"):
        ws.sets.create(name, ids[:2])
    ws.sets.create("good", ids[:3])
    yield ws
    ws.close()


def named(workspace: Workspace, text: str) -> list[tuple[str, str]]:
    """Kind and name of what a text names."""
    return [(thing.kind, thing.name) for thing in find_names(workspace.stores, text)]


def test_every_episode_is_what_its_id_its_record_and_its_file_name(workspace: Workspace) -> None:
    for episode in workspace.episodes:
        own = ("episode", episode.episode_id)
        records = [f"{episode.dataset} {episode.split} {episode.key}", f"{episode.dataset}/{episode.key}"]
        for text in (episode.episode_id, episode.episode_id.upper(), episode.key, *records):
            (first, *_) = find_names(workspace.stores, text)
            assert first.is_exact and own in named(workspace, text), text
        assert own in named(workspace, episode.episode_id[:7])
        assert own in named(workspace, Path(episode.source).name)


def test_sets_datasets_and_tags_are_reached_by_a_part_of_their_name(workspace: Workspace) -> None:
    assert named(workspace, "GOOD")[:2] == [("set", "good@2"), ("set", "good.old@1")]
    assert named(workspace, "good@1")[0] == ("set", "good@1")
    assert ("dataset", "video") in named(workspace, "vid")
    assert named(workspace, "check") == [("tag", "to_check")]


def test_what_nothing_is_called_names_nothing(workspace: Workspace) -> None:
    for text in ("%", "good%", "' OR true --", "video train 999999", "\\", "ähnlich", "a" * 200):
        assert named(workspace, text) == [], text


@given(text=st.text(min_size=1, max_size=40))
def test_any_text_names_only_what_has_it_in_its_name(workspace: Workspace, text: str) -> None:
    words = " ".join(text.split())
    if not words:
        with pytest.raises(RequestError, match="1 to 200 characters"):
            find_names(workspace.stores, text)
        return
    for thing in find_names(workspace.stores, text):
        if thing.kind != "episode":
            assert words.casefold() in thing.name.casefold()


def test_a_name_that_is_too_long_is_refused_with_its_length(workspace: Workspace) -> None:
    with pytest.raises(RequestError, match="201 characters"):
        find_names(workspace.stores, "a" * 201)
