"""The sides of a split stay when a set grows, is made again, is merged, locked, rebuilt or exported."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ares.episode import Record
from ares.errors import RequestError
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_app.cli.main import main
from tests.ares.curation.test_composition import draw_course, ids_of, make_record

SHARES = {"train": 0.8, "val": 0.2}


def add(ws: Workspace, records: Sequence[Record]) -> list[str]:
    ws.stores.tables.episodes.add(list(records))
    return [record.episode.episode_id for record in records]


def record_of(number: int, key: str = "", *, dataset: str = "a", scene: str = "") -> Record:
    return make_record(key or f"{number:03d}", draw_course(number, 30), dataset=dataset, scene=scene)


def split(ws: Workspace, name: str = "all", **options: object) -> dict[str, str]:
    """The side of each member after one more split of a set."""
    parts, _ = ws.sets.split(name, SHARES, **options)  # type: ignore[arg-type]
    return {id: side for side, part in parts.items() for id in part.ids()}


@pytest.mark.parametrize("seed", range(4))
def test_no_episode_changes_its_side_in_ten_growths_with_copies(ws: Workspace, seed: int) -> None:
    """Each set grows from 12 to 200 episodes; a third of what is new are copies, cut or byte for byte."""
    rng, known = np.random.default_rng(seed), dict[str, str]()
    sizes = np.linspace(12, 200, 11).astype(int)
    numbers = list[int]()
    for step, size in enumerate(sizes):
        records = []
        while len(numbers) < size:
            number = len(numbers)
            numbers.append(number)
            course, key = draw_course(1_000 * seed + number, 30), f"{number:03d}"
            if step and number % 3 == 0:
                original = int(rng.integers(number // 3 * 2 or 1))
                course = draw_course(1_000 * seed + original, 30)
                records.append(make_record(f"copy{key}", course[2:] if number % 2 else course))
            else:
                records.append(make_record(key, course))
        add(ws, records)
        ws.sets.create("all", where="true")
        parts, plan = ws.sets.split("all", SHARES, seed=step)
        sides = {id: side for side, part in parts.items() for id in part.ids()}
        assert [id for id, side in known.items() if sides.get(id, side) != side] == []
        assert plan.on_two_sides["copies"] == 0 and plan.kept == len(known.keys() & sides.keys())
        assert len(sides) + len(plan.joined) == size
        known |= sides
    assert len(plan.copies.pairs) > 30 and 20 <= list(known.values()).count("val") <= 60


def test_a_copy_of_a_val_episode_goes_to_val_also_when_the_set_is_made_again(ws: Workspace) -> None:
    add(ws, [record_of(number) for number in range(12)])
    ws.sets.create("all", where="true")
    before = split(ws)
    originals = [
        next(id for id in before if before[id] == "val"),
        *[id for id in before if before[id] == "train"][:5],
    ]
    rows = (ws.episodes & originals).to_arrow(["episode_id", "key"]).to_pylist()
    number_of = {row["episode_id"]: int(row["key"]) for row in rows}
    copies = add(ws, [record_of(number_of[id], f"copy of {id}") for id in originals])
    wanted = {copy: before[id] for copy, id in zip(copies, originals, strict=True)}
    ws.sets.delete("all")
    ws.sets.create("all", where=f"episode_id NOT IN ({','.join(map(repr, originals))})")
    assert wanted.items() <= split(ws).items(), "the originals are no members any more"
    ws.sets.rename("all", "every")
    ws.sets.create("every", where="true")
    assert split(ws, "every", seed=9) == before | wanted


def test_new_episodes_go_where_their_group_is(ws: Workspace) -> None:
    add(ws, [record_of(number, scene=str(number % 6)) for number in range(12)])
    ws.sets.create("all", where="true")
    before = split(ws, by=["scene"])
    sides = {str(number % 6): before[ids_of(ws, f"key = '{number:03d}'")[0]] for number in range(12)}
    new = {id: f"{number % 8}" for number, id in zip(range(20, 28), add(ws, [
        record_of(number, scene=f"{number % 8}") for number in range(20, 28)
    ]), strict=True)}  # fmt: skip
    ws.sets.create("all", where="true")
    after = split(ws, by=["scene"])
    assert before.items() <= after.items()
    assert all(after[id] == sides[scene] for id, scene in new.items() if scene in sides)
    with pytest.raises(RequestError, match="the split of all was drawn by scene, not by no name"):
        split(ws)
    with pytest.raises(RequestError, match="has a side 'train' without a share: give --train a share"):
        ws.sets.split("all", {"a": 0.5, "val": 0.5}, by=["scene"])


def joining_record(first: int, second: int) -> Record:
    """Half a copy of one episode and half of another."""
    return make_record("both", np.concatenate([draw_course(first, 30), draw_course(second, 30)]))


def test_what_joins_two_sides_is_named_and_left_out_until_it_is_moved(
    ws: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    add(ws, [record_of(number) for number in range(10)])
    ws.sets.create("all", where="true")
    before = split(ws)
    number_of = {ids_of(ws, f"key = '{number:03d}'")[0]: number for number in range(10)}
    by_side = {side: next(id for id in before if before[id] == side) for side in SHARES}
    (both,) = add(ws, [joining_record(*(number_of[id] for id in by_side.values()))])
    ws.sets.create("all", where="true")
    command = ["set", "split", "all", "--train", ".8", "--val", ".2", "-w", str(ws.path)]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert f"left out: {both} joins train (by {by_side['train']}) and val (by {by_side['val']})" in text
    assert "10 episodes kept the side from before" in text
    assert split(ws) == before
    assert main([*command, "--move"]) == 0
    assert f"moved: {by_side['val']} (was in val)" in capsys.readouterr().out
    after = split(ws)
    assert after == before | {both: "train", by_side["val"]: "train"}
    with pytest.raises(RequestError, match="give --fresh or --move"):
        split(ws, fresh=True, move=True)


def test_a_fresh_split_draws_all_sides_again(ws: Workspace) -> None:
    add(ws, [record_of(number) for number in range(20)])
    ws.sets.create("all", where="true")
    before = split(ws)
    assert split(ws, seed=5) == before
    fresh = split(ws, seed=5, fresh=True)
    assert fresh != before and split(ws) == fresh


def test_merged_sets_keep_the_sides_of_both(ws: Workspace) -> None:
    for dataset, first in (("a", 0), ("b", 20)):
        add(ws, [record_of(number, dataset=dataset) for number in range(first, first + 10)])
        ws.sets.create(dataset, where=f"dataset = '{dataset}'")
    sides = split(ws, "a") | split(ws, "b", seed=1)
    ws.sets.combine("both", "union", "a", "b")
    assert split(ws, "both", seed=7) == sides
    ws.sets.create("named", where="in_set('a') OR in_set('both')")
    assert split(ws, "named", seed=5) == sides
    split(ws, "a", seed=3, fresh=True)
    assert split(ws, "both", seed=8) == sides, "a table of its own, whatever becomes of the others"


def test_of_a_copy_on_two_sides_of_merged_sets_the_val_episode_stays(ws: Workspace) -> None:
    for dataset in "ab":
        add(ws, [record_of(number, f"{dataset}{number:02d}", dataset=dataset) for number in range(10)])
        ws.sets.create(dataset, where=f"dataset = '{dataset}'")
    sides = split(ws, "a") | split(ws, "b", seed=1)
    pairs = [[ids_of(ws, f"key = '{dataset}{number:02d}'")[0] for dataset in "ab"] for number in range(10)]
    crossing = [pair for pair in pairs if len({sides[id] for id in pair}) == 2]
    ws.sets.combine("both", "union", "a", "b")
    parts, plan = ws.sets.split("both", SHARES)
    assert crossing and set(plan.joined) == {id for pair in crossing for id in pair if sides[id] == "train"}
    assert plan.on_two_sides == {"copies": 0}
    assert all(sides[id] == side for side, part in parts.items() for id in part.ids())


def test_an_episode_keeps_its_side_when_its_content_is_read_again(ws: Workspace) -> None:
    add(ws, [record_of(number) for number in range(12)])
    ws.sets.create("all", where="true")
    before = split(ws)
    hashes = pa.table({"episode_id": list(before), "content_hash": [f"new {id}" for id in before]})
    ws.stores.tables.episodes.set_values(hashes)
    assert split(ws, seed=4) == before


def test_the_table_travels_with_the_lock_and_with_exports(
    ws: Workspace, tmp_path: Path, demo_samples: Path
) -> None:
    ws.ingest(demo_samples / "video", quiet=True)
    ws.sets.create("all", where="true")
    ws.export("all", tmp_path / "before", quiet=True)
    assert not (tmp_path / "before" / "manifest.split.jsonl").exists()
    before = split(ws)
    ws.sets["all"].write_lock(tmp_path / "before.json", tmp_path / "before")
    for name in ("all", "all-val"):
        ws.export(name, tmp_path / name, quiet=True)
        ws.sets[name].write_lock(tmp_path / f"{name}.json", tmp_path / name)
    rows = [json.loads(line) for line in (tmp_path / "all" / "manifest.split.jsonl").read_text().splitlines()]
    assert {row["episode_id"]: row["side"] for row in rows} == before
    assert set(rows[0]) == {"content_hash", "side", "rule", "seed", "episode_id"}
    val = (tmp_path / "all-val" / "manifest.split.jsonl").read_text()
    assert {json.loads(line)["side"] for line in val.splitlines()} == {"val"}
    with open_workspace(str(tmp_path / "elsewhere"), Settings(), create=True) as ws3:
        ws3.ingest(tmp_path / "all", quiet=True)
        ws3.ingest(demo_samples / "rlds", quiet=True)
        ws3.sets.create("mine", where="true")
        hashes = {row["episode_id"]: row["content_hash"] for row in rows}
        drawn = {
            episode.content_hash: side
            for id, side in split(ws3, "mine", seed=9).items()
            for episode in [ws3.episodes[id]]
        }
        assert {hashes[id]: side for id, side in before.items()}.items() <= drawn.items()
        assert len(drawn) > len(before)
    for name in ("all-val", "before"):
        with open_workspace(str(tmp_path / f"{name}-ws"), Settings(), create=True) as ws2:
            card, again = tmp_path / f"{name}.json", tmp_path / f"{name}-again"
            report = ws2.sets.rebuild(card, [demo_samples], again, quiet=True)
            assert not report.differences
            ws2.sets.create("all", where="true")
            assert split(ws2, seed=9) == before


def test_exports_and_what_reads_them_have_the_sides_of_the_split(
    ws: Workspace, tmp_path: Path, demo_samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A trainer that reads the splits of LeRobot or TFDS must not train on val, nor on what has no side yet."""
    ws.ingest(demo_samples / "video", quiet=True)
    ws.sets.create("all", [row.episode_id for row in ws.episodes][1:], {})
    sides = {ws.episodes[id].content_hash: side for id, side in split(ws).items()}
    ws.sets.create("all", where="true")
    counts = {side: [*sides.values()].count(side) for side in SHARES} | {"no_side": 1}
    splits = {}
    for format in ("lerobot", "lerobot-v2.1", "rlds"):
        folder = tmp_path / format
        assert main(["export", "all", str(folder), "--format", format, "-w", str(ws.path)]) == 0
        said = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in counts.items())
        assert f"splits: {said}" in capsys.readouterr().out
        (info,) = (*folder.glob("meta/info.json"), *folder.glob("*/*/dataset_info.json"))
        splits[format] = json.loads(info.read_text())["splits"]
        with open_workspace(str(tmp_path / f"{format}-ws"), Settings(), create=True) as again:
            again.ingest(folder, quiet=True)
            read = {row.content_hash: row.split for row in again.episodes}
        if format != "rlds":  # its frames are encoded, and have another hash
            assert read == dict.fromkeys(read, "no_side") | sides
        assert {side: [*read.values()].count(side) for side in counts} == counts
    stops = [f"{start}:{stop}" for start, stop in ((0, counts["train"]), (counts["train"], 11), (11, 12))]
    assert splits["lerobot"] == splits["lerobot-v2.1"] == dict(zip(counts, stops, strict=True))
    assert [row["name"] for row in splits["rlds"]] == list(counts)
