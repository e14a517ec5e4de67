"""The limits of what people write, what a refusal says, and what the log and a report say of an action, in full."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ares.curation import (
    FailureSelection,
    SelectedEpisodes,
    Sets,
    accept_failures,
    add_note,
    add_tag,
    complete_purges,
    count_removed_members,
    create_set,
    failures_of,
    list_failures,
    list_tags,
    preview_removal,
    purge_episodes,
    purgeable_ids,
    remove_episodes,
    remove_tag,
    selected_ids,
    tags_of,
    undo,
)
from ares.curation.failures import episodes_of_failures
from ares.curation.selection import hash_request
from ares.episode import Json
from ares.errors import RequestError
from ares.jobs import EpisodeSelection
from ares.settings import user_name
from ares.store import PURGES, StagedIds, read_history
from ares.workspace import Workspace
from tests.ares.curation.conftest import CAPTION

Stage = Callable[..., SelectedEpisodes]


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Selects episodes for an action, by their ids unless another selection is given."""
    with ExitStack() as stack:
        yield lambda ids, **fields: stack.enter_context(
            SelectedEpisodes(EpisodeSelection(**(fields or {"ids": ids})), ids)
        )


def _said(error: pytest.ExceptionInfo[Any]) -> tuple[str, str]:
    return error.value.reason, error.value.detail


def test_nothing_selected_changes_nothing_and_says_so(curated: Workspace, stage: Stage) -> None:
    stores = curated.stores
    attempts: dict[str, Callable[[], Any]] = {
        "the tag 'dark' was not changed": lambda: add_tag(stores, "dark", stage([])),
        "the note was not written": lambda: add_note(stores, "dark", stage([])),
        "nothing was removed": lambda: remove_episodes(stores, stage([])),
        "nothing was deleted": lambda: purge_episodes(stores, stage([])),
    }
    for detail, attempt in attempts.items():
        with pytest.raises(RequestError) as error:
            attempt()
        assert _said(error) == ("no episode is selected", detail)
    assert read_history(stores.annotations).actions == []


def test_the_longest_and_the_shortest_text_are_taken_and_one_letter_more_is_not(
    curated: Workspace, stage: Stage, ids: list[str]
) -> None:
    stores = curated.stores
    for text in ("x", "x" * 80):
        add_tag(stores, text, stage(ids[:1]))
    for text in ("x", "x" * 2_000):
        add_note(stores, text, stage(ids[:1]))
    with pytest.raises(RequestError, match="got 2,001; write it shorter"):
        add_note(stores, "x" * 2_001, stage(ids[:1]))


def _details(first: str) -> list[dict[str, Any]]:
    """What the log says of the actions of the next test, the first of whose episodes has this id."""
    listed = EpisodeSelection(ids=["a"]).describe()
    return [
        {"tag": "dark", "recipe": {**listed, "ids": 2}},
        {"tag": "dark", "recipe": listed},
        {"note": "dim", "recipe": EpisodeSelection(where="success").describe()},
        {"keys": {"good@000001": "good@000001"}, "labels": ["good@1"], "note": "fine"},
        {"keys": {"good@000001": "best@000001"}, "labels": ["good@1"], "name": "best"},
        {"keys": {"good@000001": "best@000001"}, "labels": ["best@1"]},
        {"recipe": {"work": "grade", "texts": [first]}},
        {"recipe": {"texts": ["NO"]}},
        {"recipe": {**listed, "ids": 2}, "note": "too dark"},
    ]


def test_actions_have_the_person_the_count_and_the_details(
    curated: Workspace, stage: Stage, ids: list[str]
) -> None:
    stores, sets = curated.stores, Sets(curated.stores.annotations)
    add_tag(stores, "dark", stage(ids[:2]), person=" Ann ")
    remove_tag(stores, "dark", stage(ids[:1]))
    add_note(stores, " dim ", stage(ids[:3], where="success"), person="Bob")
    sets.note("good", " fine ", person="Ann")
    sets.rename("good", "best")
    sets.delete("best", person="Bob")
    accept_failures(stores, FailureSelection(work="grade", texts=[ids[0]]), person="Ann")
    accept_failures(stores, FailureSelection(texts=["NO"]))
    remove_episodes(stores, stage(ids[:2]), person="Ann", note="too dark")
    actions = read_history(stores.annotations).actions
    user = user_name()
    assert [(item.number, item.kind, item.person, item.count) for item in actions] == [
        (1, "tag", "Ann", 2),
        (2, "untag", user, 1),
        (3, "note", "Bob", 3),
        (4, "set_note", "Ann", 1),
        (5, "set_rename", user, 1),
        (6, "set_delete", "Bob", 1),
        (7, "accept_failures", "Ann", 1),
        (8, "accept_failures", user, 12),
        (9, "remove", "Ann", 2),
    ]
    assert [dict(item.details) for item in actions] == _details(ids[0])


@pytest.mark.slow
def test_a_tag_has_the_person_who_changed_it_last(curated: Workspace, stage: Stage, ids: list[str]) -> None:
    stores, user = curated.stores, user_name()
    add_tag(stores, "dark", stage(ids[:2]), person=" Ann ")
    remove_tag(stores, "dark", stage(ids[:1]))
    assert [use["person"] for use in tags_of(stores, ids[1])] == ["Ann"] and tags_of(stores, ids[0]) == []
    removal = remove_episodes(stores, stage(ids[:2]))
    assert list_tags(stores) == []
    undo(stores, removal.number)
    (use,) = list_tags(stores)
    changed = read_history(stores.annotations).actions[1].created
    assert use.to_json() == {"tag": "dark", "episodes": 1, "person": user, "changed": changed}


def test_an_undo_says_what_it_took_back_and_whose_the_last_action_is(
    curated: Workspace, stage: Stage, ids: list[str]
) -> None:
    stores = curated.stores
    with pytest.raises(RequestError) as nothing:
        undo(stores, person="Ann")
    assert _said(nothing) == ("there is nothing to take back", "`ares undo --list` shows what was done")
    with pytest.raises(RequestError) as unknown:
        undo(stores, 1)
    assert _said(unknown) == ("no action 1", "none yet")
    remove_episodes(stores, stage(ids[:2]), person="Ann")
    add_tag(stores, "dark", stage(ids[3:6]), person="Bob")
    with pytest.raises(RequestError) as others:
        undo(stores, person="Cy")
    assert _said(others) == (
        "there is nothing of Cy to take back",
        "the last action is of Bob: `ares undo 2` takes it back",
    )
    with pytest.raises(RequestError) as unknown:
        undo(stores, 3)
    assert _said(unknown) == ("no action 3", "there are: 1 to 2")
    report = undo(stores, person="Ann")
    assert (report.undone.number, report.absent, report.pending) == (1, 0, False)
    assert report.action.count == 2 and report.to_json()["undone"] == report.undone.to_json()
    again = undo(stores, 1)
    assert (again.already, again.action.number, again.undone.number) == (True, 3, 1)
    assert read_history(stores.annotations).last == 3, "nothing was recorded"
    assert undo(stores, 3, person="Cy").undone.number == 3
    assert stores.tables.episodes.count() == 10
    with StagedIds(ids[2:4]) as staged:
        number = purge_episodes(stores, staged, person=" Di ", note="asked for").action
    with pytest.raises(RequestError) as purged:
        undo(stores, number)
    assert purged.value.detail == f"action {number} deleted 2 episodes for good"
    action = read_history(stores.annotations).actions[-1]
    assert (action.person, action.count, action.details["note"]) == ("Di", 2, "asked for")


def test_a_preview_and_a_set_count_what_goes(curated: Workspace, stage: Stage, ids: list[str]) -> None:
    stores = curated.stores
    curated.sets.create("good", ids[:1], {})
    curated.sets.create("rest", ids[6:], {})
    with StagedIds([*ids[:4], ids[0]]) as staged:
        preview = preview_removal(stores, staged)
    assert preview.to_json() == {
        "episodes": 4,
        "datasets": {"video": 4},
        "annotations": {"caption": 4, "embed": 4, "quality": 4},
        "sets": {"good@1": 4, "good@2": 1},
        "exports": {},
    }
    selections = [curated.sets["good@1"], curated.sets["rest"]]
    assert count_removed_members(stores, selections) == {"good@1": 0, "rest@1": 0}
    remove_episodes(stores, stage(ids[4:7]))
    assert count_removed_members(stores, selections) == {"good@1": 1, "rest@1": 1}


def test_documents_lose_what_names_a_purged_episode_and_keep_the_rest(
    curated: Workspace, ids: list[str]
) -> None:
    log, gone, kept = curated.stores.annotations, ids[0], ids[1]
    source = curated.stores.tables.episodes.get_episode(gone).source
    log.put_documents(
        "reports",
        {
            "a": {
                "text": f"{gone} and {kept} of {source}.",
                "list": [gone, kept, f"see {gone}", 3, None, [gone, "why"], [kept, "why"], [gone, 1, 2]],
                gone: 1,
                kept: {"deep": [{gone: 1, "n": 2.5}]},
                "none": [],
            },
            "b": [kept, {"number": 7}],
            f"c {gone}": "by its key",
        },
    )
    with StagedIds([gone]) as staged:
        report = purge_episodes(curated.stores, staged, person="Ann")
    assert dict(log.find_documents("reports")) == {
        "a": {
            "text": f"(purged) and {kept} of (purged).",
            "list": [kept, 3, None, [kept, "why"], [1, 2]],
            kept: {"deep": [{"n": 2.5}]},
            "none": [],
        },
        "b": [kept, {"number": 7}],
    }
    assert report.to_json() == {"action": 1, "episodes": 1, "annotations": 3, "rows": 5, "files": 1}
    complete_purges(curated.stores)
    assert list(log.find_documents(PURGES)) == []


@pytest.mark.slow
def test_a_set_without_members_forgets_how_they_were_selected(
    curated: Workspace, stage: Stage, ids: list[str]
) -> None:
    curated.sets.create("one", ids[:1], {"where": "instruction = 'x'"})
    curated.sets.create("two", ids[:2], {"where": "success"})
    add_note(curated.stores, "dim", stage(ids[:1]))
    add_note(curated.stores, "dull", stage(ids[:2]))
    with StagedIds(ids[:1]) as staged:
        purge_episodes(curated.stores, staged)
    one, two, good = (curated.sets[name] for name in ("one", "two", "good"))
    assert (one.episodes, one.purged, one.recipe) == (0, 1, {})
    assert (two.episodes, two.purged, two.recipe) == (1, 1, {"where": "success"})
    assert (good.episodes, good.purged, good.recipe) == (4, 1, {"where": ""})
    assert two.ids_hash == curated.sets.create("other", ids[1:2], {}).ids_hash
    dim, dull = read_history(curated.stores.annotations).actions[:2]
    assert (dim.purged, dim.details["note"], dim.details["recipe"]) == (1, "(purged)", {})
    assert (dull.purged, dull.details["note"]) == (1, "dull")


def test_what_can_be_purged_is_selected_with_what_was_removed(
    curated: Workspace, stage: Stage, ids: list[str]
) -> None:
    stores = curated.stores

    def select(**fields: Any) -> list[str]:
        return sorted(purgeable_ids(stores, EpisodeSelection(**fields)))

    assert select(set="good") == ids[:5] and select(ids=ids[:2]) == ids[:2] and len(select()) == 12
    remove_episodes(stores, stage(ids[:2]))
    assert select() == ids and select(where="num_steps < 0") == []
    assert select(ids=[ids[0][:15]]) == ids[:1]
    with pytest.raises(RequestError, match="no dataset 'other'"):
        select(dataset="other")
    assert select(set="good", where=f"episode_id >= '{ids[1]}'") == ids[1:5]
    assert select(ids=ids[:3], where="num_steps > 0") == ids[:3]
    with pytest.raises(RequestError) as error:
        select(ids=[ids[5], ids[0]], where=f"episode_id = '{ids[5]}'")
    assert _said(error) == ("an id is no episode that matches", f"{ids[0]!r}; nothing was deleted")
    with pytest.raises(RequestError):
        select(set="good", where="nope = 1")


def test_failures_are_selected_by_work_and_text(curated: Workspace, ids: list[str]) -> None:
    stores = curated.stores
    key = f"caption/{CAPTION.maker_id}/{ids[0]}"
    stores.annotations.put_documents(
        "failures",
        {
            key: {"reason": "No answer", "detail": "clip.mp4: byte 7", "at": "2026-01-01"},
            "ingest/5f0c": {"reason": "cut", "detail": "clip.mp4"},
        },
    )

    def select(**fields: Any) -> list[str]:
        return [failure.key for failure in list_failures(stores, FailureSelection(**fields))]

    assert select() == [key, *(f"grade/0123/{id}" for id in ids), "ingest/5f0c"]
    assert select(work="ingest") == ["ingest/5f0c"] == select(texts=["CUT"]) and select(work="grad") == []
    assert select(texts=["clip.mp4"]) == [key, "ingest/5f0c"]
    assert select(texts=["byte 7", "cut"], work="caption") == [key]
    assert select(texts=[ids[0]]) == [key, f"grade/0123/{ids[0]}"]


def test_a_failure_says_what_failed_and_is_accepted_for_its_reason_alone(
    curated: Workspace, ids: list[str]
) -> None:
    stores, key = curated.stores, f"caption/{CAPTION.maker_id}/{ids[0]}"
    document: dict[str, Json] = {"reason": "No answer", "detail": "clip.mp4: byte 7", "at": "2026-01-01"}
    stores.annotations.put_documents("failures", {key: document, "ingest/5f0c": {"reason": "cut"}})
    (failure,) = failures_of(stores, ids)
    assert (failure.key, failure.maker_id) == (key, CAPTION.maker_id)
    assert failure.to_json() == {
        "work": "caption",
        "subject": ids[0],
        "reason": "No answer",
        "detail": "clip.mp4: byte 7",
        "created": "2026-01-01",
        "accepted": False,
    }
    (cut,) = list_failures(stores, FailureSelection(work="ingest"))
    assert (cut.maker_id, cut.created, cut.subject) == ("", "", "5f0c")
    assert episodes_of_failures(stores, [failure, cut]) == {ids[0]: ids[0], "5f0c": "5f0c"}
    accept_failures(stores, FailureSelection(work="caption"))
    stores.annotations.put_documents("failures", {key: {"reason": "another", "detail": "", "at": ""}})
    assert [failure.is_accepted for failure in failures_of(stores, ids)] == [False]
    assert FailureSelection(work="a", texts=["b"]).describe() == {"work": "a", "texts": ["b"]}


def test_episodes_are_selected_in_the_order_that_was_asked_for(curated: Workspace, ids: list[str]) -> None:
    stores = curated.stores

    def select(**fields: Any) -> list[str]:
        return list(selected_ids(stores, EpisodeSelection(**fields)))

    keys = stores.tables.episodes.read_columns(["key", "episode_id"]).sort_by("key")["episode_id"].to_pylist()
    assert select(limit=3) == keys[:3] and select(limit=100) == keys and sorted(select()) == ids
    assert select(ids=[ids[4], ids[1], ids[4]]) == [ids[4], ids[1]]
    assert select(ids=[ids[4], ids[1], ids[2]], limit=2) == [ids[4], ids[1]]
    assert select(ids=[ids[4][:8]]) == [ids[4]]
    with pytest.raises(RequestError) as error:
        select(ids=["f" * 16, ids[0], "e" * 16])
    assert _said(error) == ("2 ids are not among the episodes", f"first: {'f' * 16!r}")
    assert sorted(select(set="good")) == ids[:5] and select(dataset="video", ids=ids[:2]) == ids[:2]
    assert select(set="good", where=f"episode_id = '{ids[3]}'") == [ids[3]]
    with pytest.raises(RequestError, match="as a whole"):
        select(set="good", ids=ids[:1])
    with pytest.raises(RequestError, match="no set 'bad'"):
        select(set="bad")
    with pytest.raises(RequestError) as error:
        select(dataset="x")
    assert _said(error) == ("no dataset 'x'", "there are: video")
    frozen = create_set(stores, "few", EpisodeSelection(where="num_steps > 0", limit=2))
    assert (frozen.episodes, frozen.recipe["where"], frozen.recipe["limit"]) == (2, "num_steps > 0", 2)
    assert list(curated.sets.ids(frozen)) == sorted(keys[:2])
    hashes = {
        hash_request(EpisodeSelection(**fields))
        for fields in ({}, {"ids": ids[:1]}, {"ids": ids[1:2]}, {"where": "success"}, {"limit": 1})
    }
    assert len(hashes) == 5 and {len(text) for text in hashes} == {32}
    assert hash_request(EpisodeSelection(ids=ids[:2])) == hash_request(EpisodeSelection(ids=ids[1::-1]))


def test_a_set_says_what_it_is(curated: Workspace, tmp_path: Path) -> None:
    sets = Sets(curated.stores.annotations)
    document = sets["good"].to_json()
    assert document == {
        "name": "good",
        "version": 1,
        "created": sets["good"].created,
        "recipe": {"where": ""},
        "episodes": 5,
        "ids_hash": sets["good"].ids_hash,
        "person": user_name(),
    }
    sets.write_lock(sets["good"], tmp_path / "lock")
    assert (tmp_path / "lock").read_text().endswith("}\n") and not list(tmp_path.glob("*.tmp"))
    sets.rename("good", "best")
    assert sets.stored_keys() == {"good@000001"} and sets["best"].frozen_as == "good@000001"
    assert replace(sets["best"], name="good", frozen_as="").to_json() == document
    for name, said in (("best@2", "there are: best@1"), ("bets", "did you mean 'best'? there are: best")):
        with pytest.raises(RequestError) as error:
            sets[name]
        assert error.value.detail.endswith(said.partition("? ")[2] or said), error.value.detail
