"""Selections are composed, combined, split and controlled by rules, with a reason for each episode."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from ares.curation.composition import combine_members, round_shares
from ares.curation.copies import LinkedItems, choose_kept, find_copies
from ares.curation.splits import assign_groups
from ares.episode import Record, Signal, Span, make_episode_id
from ares.errors import RequestError
from ares.media import VideoEncoding, encode_mp4
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_app.cli.main import main
from tests.ares.export.made_episodes import make_record as make_export_record
from tests.recordings import compare_words

_NAMES = ("x", "y", "z", "gripper")


def make_record(
    key: str,
    course: NDArray[np.float64],
    *,
    dataset: str = "a",
    task: str = "push",
    success: bool | None = True,
    **extra: str,
) -> Record:
    """An episode of ten steps a second with a course (T, 4)."""
    record = make_export_record(
        0,
        len(course),
        reward=False,
        names=_NAMES,
        episode_id=make_episode_id(format="f", dataset=dataset, version="", split="", key=key),
        format="f",
        dataset=dataset,
        key=key,
        content_hash=f"{dataset}/{key}",
        instruction=task,
        instructions=(task,) if task else (),
        rate_hz=10.0,
        cameras=(),
        action_names=(),
        success=success,
        metadata=extra,
    )
    state = Signal(course.astype(np.float32), names=_NAMES)
    return replace(record, trajectory=replace(record.trajectory, state=state, action=None))


def draw_course(seed: int, steps: int = 60) -> NDArray[np.float64]:
    """A smooth motion (T, 4), another one for each seed."""
    rng = np.random.default_rng(seed)
    phases, speeds = rng.uniform(0, 7, (3, 4)), rng.uniform(0.5, 4, (3, 4))
    seconds = np.arange(steps)[:, None, None] / 10
    course: NDArray[np.float64] = np.sin(seconds * speeds + phases).sum(axis=1)
    return course


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """Two datasets of four tasks, and copies of four episodes: cut, mirrored, moved and of half the rate."""
    with open_workspace(str(tmp_path_factory.mktemp("composed") / "w"), Settings()) as workspace:
        records = [
            make_record(
                f"{number:02d}",
                draw_course(number, 40 + number),
                dataset="a" if number % 3 else "b",
                task=f"task {number % 4}",
                success=number % 2 == 0,
                scene=str(number % 6),
                recorded_at=f"2026-11-{1 + number % 5:02d}T10:00:00",
            )
            for number in range(24)
        ]
        courses = [draw_course(number, 40 + number) for number in range(4)]
        copies = {
            "cut": courses[0][4:-6],
            "mirrored": courses[1] * [1, -1, 1, 1],
            "moved": courses[2] + [3, 0, 0, 0],
            "late": np.concatenate([np.repeat(courses[3][:1], 9, axis=0), courses[3]]),
        }
        records += [make_record(key, course, dataset="c", task="") for key, course in copies.items()]
        workspace.stores.tables.episodes.add(records)
        workspace.sets.create("all", where="true")
        workspace.sets.create("first", where="dataset != 'c'")
        yield workspace


def ids_of(workspace: Workspace, where: str) -> list[str]:
    return sorted(workspace.stores.tables.episodes.ids(where))


def test_copies_are_found_whatever_was_changed(stored: Workspace) -> None:
    linked = find_copies(stored.stores, ids_of(stored, "true")).linked
    found = {id for pair in linked for id in (pair.first, pair.second)}
    assert found == {*ids_of(stored, "dataset = 'c' OR key IN ('00', '01', '02', '03')")}
    assert {pair.way for pair in linked} == {"signals"}


def test_of_copies_the_whole_one_that_was_ingested_first_is_kept(stored: Workspace) -> None:
    kept, decided = stored.sets.compose("kept", dedupe=True)
    assert kept.episodes == 24 and decided.counts() == {"kept": 24, "near duplicate": 4}
    copies = ids_of(stored, "dataset = 'c'")
    assert not set(copies) & set(kept.ids())
    original = ids_of(stored, "key = '00'")[0]
    cut = ids_of(stored, "key = 'cut'")[0]
    assert decided.reasons[cut].startswith(f"near duplicate (of {original}, by signals")
    assert kept.recipe["reasons"] == {"kept": 24, "near duplicate": 4}


def test_kinds_are_between_floor_and_cap(stored: Workspace) -> None:
    _, decided = stored.sets.compose("even", balance=["task", "dataset"], floor=3, cap=4)
    assert decided.counts() == {"kept": 20, "below the floor": 8}
    again, _ = stored.sets.compose("even", balance=["task"], cap=2)
    other, _ = stored.sets.compose("even", balance=["task"], cap=2, seed=1)
    assert again.episodes == other.episodes == 4 * 2 + 2
    assert set(again.ids()) != set(other.ids())
    assert list(stored.sets.compose("even", balance=["task"], cap=2)[0].ids()) == list(again.ids())


def test_shares_are_as_large_as_the_scarcest_dataset_allows(stored: Workspace) -> None:
    mixed, decided = stored.sets.compose("mixed", shares={"a": 0.5, "b": 0.5})
    datasets = mixed.members.to_arrow(["dataset"])["dataset"].to_pylist()
    assert (datasets.count("a"), datasets.count("b"), len(datasets)) == (8, 8, 16)
    assert decided.counts() == {"kept": 16, "above the share": 8, "no share": 4}


def test_parts_share_no_group_and_no_copy(stored: Workspace) -> None:
    parts, plan = stored.sets.split("all", {"train": 0.75, "val": 0.25}, by=["scene"], fresh=True)
    assert plan.on_two_sides == {"scene": 0, "copies": 0} and plan.unknown == {"scene": 4}
    assert "other signals or speeds" in str(plan.to_json()["known"])
    assert sorted([*parts["train"].ids(), *parts["val"].ids()]) == list(stored.sets["all"].ids())
    side = {episode_id: part for part, frozen in parts.items() for episode_id in frozen.ids()}
    assert all(side[pair.first] == side[pair.second] for pair in plan.copies.linked)
    assert len(plan.copies.pairs) == 4
    scenes = [
        {
            record["metadata"]
            for record in frozen.members.where("dataset != 'c'").to_arrow(["metadata"]).to_pylist()
        }
        for frozen in parts.values()
    ]
    assert not {json.loads(text)["scene"] for text in scenes[0]} & {
        json.loads(text)["scene"] for text in scenes[1]
    }
    assert parts["val"].recipe["split_of"] == stored.sets["all"].label and parts["val"].name == "all-val"
    assert abs(len(plan.parts["val"]) - 7) <= 2


def test_a_day_is_that_of_a_time(stored: Workspace) -> None:
    _, plan = stored.sets.split("first", {"train": 0.8, "val": 0.2}, by=["day"], fresh=True)
    assert plan.num_groups == 5 and plan.largest_group == 5


def test_what_hangs_together_cannot_be_split(stored: Workspace) -> None:
    with pytest.raises(RequestError, match="24 episodes are 1 group, the largest of 24"):
        stored.sets.split("first", {"train": 0.8, "val": 0.2}, by=["task", "scene", "day"], fresh=True)


def test_controls_are_as_many_and_the_matched_ones_are_alike(stored: Workspace) -> None:
    stored.sets.create("short", where="dataset != 'c' AND num_steps < 52 AND success")
    frozen, drawn = stored.sets.controls("short", where="dataset != 'c'", seed=3)
    members = set(stored.sets["short"].ids())
    assert [control.episodes for control in frozen.values()] == [6, 6]
    assert not members & set(frozen["matched"].ids())
    assert all(stored.episodes[id].success for id in frozen["matched"].ids())
    assert drawn.unmatched == 0 and drawn.pool == 24
    assert list(stored.sets.controls("short", where="dataset != 'c'", seed=3)[0]["random"].ids()) == list(
        frozen["random"].ids()
    )
    with pytest.raises(RequestError, match="less than half of all@1 has a match: 0 of 28 members"):
        stored.sets.controls("all")


def _span_line(number: int, owner: int) -> str:
    span = Span(
        episode_id=f"{number:016x}",
        start_seconds=0.0,
        stop_seconds=1.0 + number,
        annotation_id=f"{owner}",
        text=f"text {owner}",
    )
    return span.line


@given(
    st.lists(st.sets(st.integers(0, 9), min_size=1), min_size=2, max_size=4),
    st.sampled_from(["union", "intersection", "difference"]),
    st.booleans(),
)
def test_members_are_combined_as_sets_are(members: list[set[int]], operation: str, are_spans: bool) -> None:
    """Of spans that several sets have, the text of the first stays."""
    lines = [
        [_span_line(number, owner) if are_spans else f"{number:016x}" for number in sorted(numbers)]
        for owner, numbers in enumerate(members)
    ]
    sets = SimpleNamespace(members=iter)
    combined = list(combine_members(sets, lines, operation))  # type: ignore[arg-type]
    first, *others = members
    wanted = sorted(getattr(first, operation)(*others))
    owners = [next(owner for owner, numbers in enumerate(members) if number in numbers) for number in wanted]
    assert combined == [
        _span_line(number, owner) if are_spans else f"{number:016x}"
        for number, owner in zip(wanted, owners, strict=True)
    ]


def test_a_combined_set_says_what_it_is_of(stored: Workspace) -> None:
    rest = stored.sets.combine("rest", "difference", "all", "first")
    assert list(rest.ids()) == ids_of(stored, "dataset = 'c'")
    hashes = [stored.sets[name].ids_hash for name in ("all", "first")]
    assert rest.recipe == {"operation": "difference", "sets": ["all@1", "first@1"], "ids_hashes": hashes}
    stored.sets._sets.create_spans("spans", [Span.parse(_span_line(1, 0)), Span.parse(_span_line(2, 0))], {})
    assert stored.sets.combine("both", "union", "spans", "spans").size == "2 spans of 2 episodes"
    with pytest.raises(RequestError, match="spans and of episodes cannot be combined: all@1 has 28 episodes"):
        stored.sets.combine("none", "union", "all", "spans")
    with pytest.raises(RequestError, match="the set would be empty"):
        stored.sets.combine("none", "difference", "first", "all")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 30), min_size=2, max_size=40),
    st.sampled_from([(0.9, 0.1), (0.5, 0.5), (0.8, 0.1, 0.1)]),
    st.integers(0, 3),
)
def test_groups_stay_whole_and_parts_come_near_their_shares(
    sizes: list[int], wanted: tuple[float, ...], seed: int
) -> None:
    groups = [[f"{group:02d} {number}" for number in range(size)] for group, size in enumerate(sizes)]
    shares = dict(zip("abc", wanted, strict=False))
    parts = assign_groups(groups, shares, seed)
    assert parts == assign_groups(groups[::-1], shares, seed)
    assert sorted(item for part in parts.values() for item in part) == sorted(
        item for group in groups for item in group
    )
    owners = [{name for name, part in parts.items() if set(part) & set(group)} for group in groups]
    assert all(len(owner) == 1 for owner in owners)
    assert all(parts.values()) or len(groups) < len(shares)
    off = max(abs(len(parts[name]) - share * sum(sizes)) for name, share in shares.items())
    assert off < 2 * max(sizes)


@given(st.dictionaries(st.sampled_from("abcde"), st.integers(1, 50), min_size=1), st.integers(0, 1000))
def test_rounded_shares_sum_to_the_total(weights: dict[str, int], total: int) -> None:
    shares = {name: weight / sum(weights.values()) for name, weight in weights.items()}
    counts = round_shares(shares, total)
    assert sum(counts.values()) == total
    assert all(abs(counts[name] - share * total) <= 1 for name, share in shares.items())


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=12))
def test_linked_items_are_the_components(edges: list[tuple[int, int]]) -> None:
    links = LinkedItems([str(item) for item in range(9)])
    reach = {str(item): {str(item)} for item in range(9)}
    for first, second in edges:
        links.link(str(first), str(second))
        joined = reach[str(first)] | reach[str(second)]
        reach.update(dict.fromkeys(joined, joined))
    assert links.groups() == sorted(
        {tuple(sorted(group)): sorted(group) for group in reach.values()}.values()
    )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("create x --where true --balance task", "a balance needs a floor or a cap"),
        ("create x --where true --floor 2", "a floor and a cap are for kinds of episodes"),
        ("create x --where true --balance task --floor 9 --cap 3", "the floor is above the cap: got 9 and 3"),
        ("create x --where true --balance tesk --cap 3", "no episode has a 'tesk': did you mean 'task'?"),
        ("create x --where true --share a=.5,b=.4", "the shares sum to 0.9, not to 1"),
        ("create x --where true --share a=.5,d=.5", "no selected episode is of dataset 'd'"),
        ("create x --where true --reasons f.csv", "without rules every selected episode is kept"),
        ("create x --segments --where true --dedupe", "leave out --segments"),
        ("split all --train 1", "a split has at least two parts"),
        ("split all --train .9 --val .2", "the shares sum to 1.1, not to 1"),
        ("union x all", "a union is of at least two sets: got all"),
    ],
)
def test_what_cannot_be_obeyed_is_one_clear_line(
    stored: Workspace, capsys: pytest.CaptureFixture[str], arguments: str, line: str
) -> None:
    assert main(["set", *arguments.split(), "-w", str(stored.path)]) == 2
    told = capsys.readouterr().err.strip()
    assert line in told and "\n" not in told


def test_the_command_prints_the_proof_and_writes_the_reasons(
    stored: Workspace, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = ["-w", str(stored.path)]
    assert (
        main(["set", "split", "first", "--train", ".75", "--val", ".25", "--by", "task", "--fresh", *place])
        == 0
    )
    told = capsys.readouterr().out
    assert "first-train@" in told and "on two sides: task 0, copies 0 (found by frames and signals" in told
    file = tmp_path / "reasons.csv"
    create = ["set", "create", "few", "--where", "true", "--balance", "task", "--cap", "1"]
    assert main([*create, "--reasons", str(file), *place]) == 0
    assert "set few@1: 5 episodes; left out: 23 above the cap" in capsys.readouterr().out
    lines = file.read_text().splitlines()
    assert lines[0] == "episode_id,reason" and sum(line.endswith(",kept") for line in lines) == 5
    assert main(["set", "controls", "few", *place]) == 0
    assert "few-random@1 of 5 episodes, few-matched@1 of" in capsys.readouterr().out


def test_recipes_keep_their_words(stored: Workspace) -> None:
    stored.sets.create("begin", where="dataset = 'a' AND num_steps < 52")
    rules = {"balance": ["task"], "cap": 3, "shares": {"a": 0.5, "b": 0.5}}
    sets = {
        "composed": stored.sets.compose("words", dedupe=True, **rules)[0],  # type: ignore[arg-type]
        "combined": stored.sets.combine("words", "difference", "all", "first"),
        "part": stored.sets.split("all", {"train": 0.5, "val": 0.5}, fresh=True)[0]["val"],
        "control": stored.sets.controls("begin")[0]["random"],
    }
    compare_words("words-recipes.json", {kind: sorted(frozen.recipe) for kind, frozen in sets.items()})


def draw_film(seed: int, *, scene: int = 0, steps: int = 50) -> NDArray[np.uint8]:
    """(T, 64, 64, 3) of a disc that moves before a picture, ten frames a second; another motion for each seed."""
    import cv2

    picture = cv2.resize(
        np.random.default_rng(scene).integers(20, 120, (4, 4, 3), np.uint8),
        (64, 64),
        interpolation=cv2.INTER_CUBIC,
    )
    places = 32 + 7 * draw_course(seed, steps)[:, :2]
    films = [
        cv2.circle(picture.copy(), place, 6, (250, 230, 220), -1) for place in places.astype(int).tolist()
    ]
    return np.array(films, np.uint8)


def _stamp_film(film: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The film with a black box and a running number over a corner."""
    import cv2

    stamped = film.copy()
    for number, frame in enumerate(stamped):
        cv2.rectangle(frame, (40, 54), (63, 63), (0, 0, 0), -1)
        cv2.putText(frame, f"{number:04d}", (41, 62), cv2.FONT_HERSHEY_PLAIN, 0.6, (255, 255, 255))
    return stamped


def test_videos_are_copies_whatever_was_changed_but_not_of_another_motion_or_scene(
    ws: Workspace, tmp_path: Path
) -> None:
    first, second = draw_film(1), draw_film(2)
    films = {
        "first": first,
        "mirrored": np.clip(first[:, :, ::-1] * 0.8 + 30.0, 0, 255).astype(np.uint8),
        "cropped": first[12:40],
        "stamped": _stamp_film(first),
        "second": second,
        "late": np.concatenate([np.repeat(second[:1], 7, axis=0), np.roll(second, 1, axis=2)]),
        "motion": draw_film(3),
        "scene": draw_film(1, scene=1),
        "still": np.repeat(first[:1], 50, axis=0),
    }
    (tmp_path / "films").mkdir()
    for name, film in films.items():
        options = {"crf": "35" if name == "cropped" else "21", "preset": "veryfast"}
        encode_mp4(film, tmp_path / "films" / f"{name}.mp4", 10.0, VideoEncoding("libx264", options))
    ws.ingest(tmp_path / "films", quiet=True)
    name_of = {ids_of(ws, f"key = '{name}.mp4'")[0]: name for name in films}
    copies = find_copies(ws.stores, list(name_of))
    groups = {frozenset(name_of[episode_id] for episode_id in group) for group in copies.groups()}
    assert groups == {
        frozenset({"first", "mirrored", "cropped", "stamped"}),
        frozenset({"second", "late"}),
    }
    assert len(copies.linked) == len(copies.pairs) and copies.compared["pixels"] == len(films) - 1
    kept = {name_of[kept] for kept, _ in choose_kept(ws.stores, copies).values()}
    assert kept <= {"first", "stamped", "second", "late"}, "neither mirrored nor a part"
