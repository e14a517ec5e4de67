"""Anything is found by its name, whatever characters it has, and a text is a text and no pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ares.episode import Record
from ares.errors import RequestError
from ares.settings import Settings
from ares.workspace import NameHit, Workspace, find_names, open_workspace

ODD = ["100%_done", "o'brien", "ünï/çødé", 'quote"d', "semi;colon--", "[a]*", "~missing", "Zoë", "12", "{x}"]


@pytest.fixture(scope="module")
def workspace(
    tmp_path_factory: pytest.TempPathFactory, make_record: Callable[..., Record]
) -> Iterator[Workspace]:
    with open_workspace(tmp_path_factory.mktemp("names") / "w", Settings()) as opened:
        records = [make_record(number, source=f"/data/day_1/run_{number:03}.hdf5") for number in range(30)]
        records += [make_record(100 + index, dataset=name, key=name) for index, name in enumerate(ODD)]
        records.append(make_record(12, split="test", dataset="set0"))
        opened.stores.tables.episodes.add(records)
        opened.tag("keep", where="dataset = 'set1'")
        opened.tag("keep/later", where="dataset = 'set2'")
        opened.sets.create("Drawers-v1", where="dataset = 'set0'")
        yield opened


def _episodes(hits: list[NameHit]) -> list[str]:
    return [hit.name for hit in hits if hit.kind == "episode"]


def test_an_id_and_every_beginning_of_it_find_its_episode(workspace: Workspace) -> None:
    for episode_id in workspace.episodes.ids():
        assert _episodes(workspace.find(episode_id))[0] == episode_id
        assert _episodes(workspace.find(f" {episode_id[:9].upper()} ")) == [episode_id]


@pytest.mark.parametrize(
    "text", ["12", "train/12", "set0/12", "set0/train/12", "episode_000012", "episode 12", "#12"]
)
def test_a_record_is_found_with_and_without_its_split_and_dataset(workspace: Workspace, text: str) -> None:
    first = _episodes(workspace.find(text))[0]
    assert workspace.episodes[first].key == "12"


def test_the_split_and_the_dataset_tell_records_apart(workspace: Workspace) -> None:
    (hit,) = [hit for hit in workspace.find("set0/test/12") if hit.kind == "episode"]
    assert workspace.episodes[hit.name].split == "test"
    assert hit.about.startswith("set0/test/12: ")
    assert not workspace.find("set1/test/12")


def test_a_file_is_found_by_its_name_and_a_part_of_its_path(workspace: Workspace) -> None:
    for text in ("run_007.hdf5", "run_007", "day_1/run_007"):
        (hit,) = workspace.find(text)
        assert (hit.why, workspace.episodes[hit.name].key) == ("file", "7")


def test_datasets_tags_and_sets_are_found_by_a_part_of_their_name(workspace: Workspace) -> None:
    kinds = {(hit.kind, hit.name) for hit in workspace.find("KEEP")}
    assert kinds == {("tag", "keep"), ("tag", "keep/later")}
    assert workspace.find("keep")[0].name == "keep", "the same name comes first"
    assert [(hit.kind, hit.name, hit.about) for hit in workspace.find("drawers")] == [
        ("set", "Drawers-v1@1", "11 episodes")
    ]
    assert {hit.name for hit in workspace.find("set") if hit.kind == "dataset"} == {"set0", "set1", "set2"}


@pytest.mark.parametrize("name", ODD)
def test_a_name_of_odd_characters_is_found(workspace: Workspace, name: str) -> None:
    hits = workspace.find(name)
    assert hits[0].kind == "dataset" and hits[0].name == name
    keys = [workspace.episodes[episode_id].key for episode_id in _episodes(hits)]
    assert name in keys


@pytest.mark.parametrize("pattern", ["%", "_", "100_", "1%", "se_0", ".*", "' OR 1=1 --", "set0' OR '1'='1"])
def test_a_pattern_of_sql_is_no_pattern(workspace: Workspace, pattern: str) -> None:
    for hit in workspace.find(pattern, limit=100):
        record = workspace.episodes[hit.name] if hit.kind == "episode" else None
        names = [hit.name, record.key, record.source] if record else [hit.name]
        assert any(pattern.casefold() in name.casefold() for name in names)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=60))
def test_any_text_has_an_answer_of_things_that_exist(workspace: Workspace, text: str) -> None:
    hits = workspace.find(text, limit=7)
    assert len(hits) <= 7
    assert len({(hit.kind, hit.name) for hit in hits}) == len(hits), "nothing comes twice"
    ids = set(workspace.episodes.ids())
    assert set(_episodes(hits)) <= ids
    assert hits or not any(text.strip() and name.startswith(text.strip()) for name in ids)


def test_what_has_been_removed_is_not_found_and_new_tags_are(workspace: Workspace) -> None:
    (hit,) = workspace.find("run_009")
    workspace.remove([hit.name])
    workspace.tag("fresh", where="dataset = 'set0'")
    assert not workspace.find("run_009")
    assert [one.name for one in workspace.find("fresh")] == ["fresh"]
    workspace.undo()
    workspace.undo()
    assert workspace.find("run_009") and not workspace.find("fresh")


def test_a_text_too_long_and_a_wrong_limit_are_said(workspace: Workspace) -> None:
    with pytest.raises(RequestError, match="too long"):
        workspace.find("x" * 401)
    for limit in (0, 101):
        with pytest.raises(RequestError, match="1 to 100"):
            find_names(workspace.stores, "x", limit)
    assert find_names(workspace.stores, "  ") == []
