"""Episodes and trajectories in real Lance files."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from ares.episode import Record
from ares.errors import RequestError, StoreError
from ares.store import records_to_table_rows
from ares.store.lance import schema, trajectories
from ares.store.lance.trajectories import TrajectoryTable
from ares.store.lance_tables import Tables, open_tables

Make = Callable[..., Record]


def _ids(records: list[Record]) -> list[str]:
    return [record.episode.episode_id for record in records]


def test_no_episode_yet(tables: Tables) -> None:
    assert tables.episodes.count() == 0
    assert tables.episodes.ids() == set()
    assert list(tables.episodes.read()) == []
    assert tables.episodes.search_instruction("drawer", 5) == []
    assert tables.episodes.mark_duplicates() == 0
    assert tables.episodes.drop_orphans() == 0
    tables.episodes.add([])
    tables.optimize()


def test_episodes_come_back_unchanged(filled: Tables, records: list[Record]) -> None:
    assert filled.episodes.get(_ids(records)) == [record.episode for record in records]
    ids = ["nobody", *reversed(_ids(records)), "x' OR '1'='1"]
    assert [episode.episode_id for episode in filled.episodes.get(ids)] == ids[1:-1], "in the order asked"
    assert {episode.episode_id for episode in filled.episodes.read()} == set(_ids(records))
    assert len(list(filled.episodes.read(where="dataset = 'set1'", limit=4))) == 4


def test_an_episode_that_another_process_corrects_is_read_anew(filled: Tables, records: list[Record]) -> None:
    ids, other = _ids(records), open_tables(filled.uri)
    assert filled.episodes.get(ids) == filled.episodes.get(ids)
    corrected = replace(records[0], episode=replace(records[0].episode, instruction="turn the lever"))
    other.episodes.correct([records_to_table_rows([corrected])], other.episodes.next_time())
    assert filled.episodes.get(ids)[0].instruction == "turn the lever"
    assert filled.episodes.get(ids[1:]) == [record.episode for record in records[1:]]


def test_trajectories_come_back_unchanged(filled: Tables, records: list[Record]) -> None:
    shuffled = random.Random(0).sample(records, len(records))
    rows = list(filled.trajectories.read([*_ids(shuffled), "nobody"]))
    assert [episode_id for episode_id, _ in rows] == _ids(shuffled)
    for (_, trajectory), record in zip(rows, shuffled, strict=True):
        assert _parts(trajectory) == _parts(record.trajectory)
    assert filled.trajectories.count() == 30
    assert filled.trajectories.get(_ids(records)[0]).timestamps.flags.writeable
    with pytest.raises(RequestError, match="no trajectory of episode 'nobody'"):
        filled.trajectories.get("nobody")


@pytest.mark.parametrize("reads_before", [0, 100])
def test_reads_of_signals_follow_the_table(
    tables: Tables, make_record: Make, reads_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by the index that many reads of one version build."""
    monkeypatch.setattr(trajectories, "_READS_WITHOUT_INDEX", 3)
    records = [make_record(number, steps=2 + number) for number in range(40)]
    ids = _ids(records)
    tables.episodes.add(records[:30])
    for _ in range(reads_before):
        assert len(tables.trajectories.get(ids[0]).timestamps) == 2
    requested = [ids[7], "unknown", ids[3], ids[35], ids[29]]
    read = tables.trajectories.read(requested)
    assert [(id, len(own.timestamps)) for id, own in read] == [(ids[7], 9), (ids[3], 5), (ids[29], 31)]

    tables.trajectories.delete([ids[3], ids[5]])
    tables.episodes.add(records[30:])
    read = tables.trajectories.read(requested)
    assert [(id, len(own.timestamps)) for id, own in read] == [(ids[7], 9), (ids[35], 37), (ids[29], 31)]
    assert dict(tables.trajectories.read([])) == dict(tables.trajectories.read(["unknown"])) == {}


def test_ids_of_one_hash_are_told_apart(
    tables: Tables, records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trajectories, "_READS_WITHOUT_INDEX", 0)
    monkeypatch.setattr(trajectories, "_id_hashes", lambda ids: np.zeros(len(ids), np.int64))
    tables.episodes.add(records)
    ((episode_id, trajectory),) = tables.trajectories.read(_ids(records)[3:4])
    assert episode_id == _ids(records)[3] and _parts(trajectory) == _parts(records[3].trajectory)


def test_a_large_batch_is_written_in_parts(
    tables: Tables, records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ares.store.lance.schema._MAX_BATCH_VALUES", 50)
    tables.episodes.add(records)
    rows = dict(tables.trajectories.read(_ids(records)))
    assert [_parts(rows[record.episode.episode_id]) for record in records] == [
        _parts(record.trajectory) for record in records
    ]


def test_adding_again_changes_nothing(filled: Tables, records: list[Record], make_record: Make) -> None:
    new = make_record(99)
    filled.episodes.add([*records, new, make_record(99, instruction="another instruction")])
    assert filled.episodes.count() == filled.trajectories.count() == 31
    assert filled.episodes.get([new.episode.episode_id]) == [new.episode]


def test_a_crash_between_signals_and_rows(
    filled: Tables, make_record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    orphans = [make_record(number) for number in (100, 101)]
    with monkeypatch.context() as patch:
        patch.setattr("ares.store.lance.episodes.drop_unsupported_camera_fields", _crash)
        with pytest.raises(KeyboardInterrupt):
            filled.episodes.add(orphans)
    assert (filled.episodes.count(), filled.trajectories.count()) == (30, 32)

    # Ingesting the same episode again replaces what was left of it.
    filled.episodes.add(orphans[:1])
    assert (filled.episodes.count(), filled.trajectories.count()) == (31, 32)
    assert filled.episodes.drop_orphans() == 1
    assert filled.episodes.drop_orphans() == 0
    assert (filled.episodes.count(), filled.trajectories.count()) == (31, 31)
    assert _parts(filled.trajectories.get(orphans[0].episode.episode_id)) == _parts(orphans[0].trajectory)


def test_columns_are_those_that_can_be_filtered(filled: Tables) -> None:
    columns = filled.episodes.columns()
    assert columns["dataset"] == "string"
    assert (columns["num_steps"], columns["rate_hz"], columns["success"]) == ("int64", "float64", "bool")
    assert (columns["instructions"], columns["ingested"]) == ("list<string>", "timestamp")
    assert "cameras" not in columns


def test_a_schema_of_chosen_columns(filled: Tables) -> None:
    assert filled.episodes.schema(["key", "rate_hz"]) == pa.schema(
        [("key", pa.string()), ("rate_hz", pa.float64())]
    )
    with pytest.raises(RequestError, match=r"no column 'nope' in episodes: the columns are .*dataset.*"):
        filled.episodes.schema(["nope"])


def test_scan_in_order_and_in_pages(filled: Tables, records: list[Record]) -> None:
    episodes = [record.episode for record in records]
    expected = [
        episode.key
        for episode in sorted(
            episodes, key=lambda episode: (-episode.num_steps, episode.dataset, episode.episode_id)
        )
    ]
    order = "num_steps DESC, dataset"
    assert _column(filled, "key", order_by=order) == expected
    pages = [_column(filled, "key", order_by=order, limit=7, offset=offset) for offset in range(0, 35, 7)]
    assert [key for page in pages for key in page] == expected
    assert _column(filled, "key", order_by="key", limit=0) == []
    assert len(_column(filled, "key", offset=25)) == 5


@pytest.mark.parametrize("order", ["nope", "key; drop", "key SIDEWAYS", "key,", "key DESC NULLS FIRST"])
def test_an_order_that_cannot_be_read(filled: Tables, order: str) -> None:
    with pytest.raises(RequestError, match=r"order cannot be read|no column"):
        filled.episodes.scan(["key"], order_by=order)


@pytest.mark.parametrize(("limit", "offset"), [(-1, 0), (5, -3), (2**63, 0), (5, 2**63), (None, 2**63)])
def test_a_limit_or_offset_that_is_refused(filled: Tables, limit: int, offset: int) -> None:
    with pytest.raises(RequestError, match="numbers from 0 on"):
        filled.episodes.scan(["key"], limit=limit, offset=offset)


def test_half_an_emoji_in_an_instruction(tables: Tables, make_record: Make) -> None:
    """JSON beside a video can carry a lone surrogate; Arrow cannot."""
    tables.episodes.add([make_record(1, instruction="lift \ud83e", instructions=("lift \ud83e", "pull"))])
    (episode,) = tables.episodes.read()
    assert (episode.instruction, episode.instructions) == ("lift ?", ("lift ?", "pull"))


def test_values_of_annotators_become_columns(filled: Tables, records: list[Record]) -> None:
    ids = _ids(records)
    filled.episodes.set_values(
        pa.table(
            {
                "episode_id": [*ids[:3], "nobody"],
                "caption": ["a", None, "c", "d"],
                "smooth": [0.5, 1.0, 1.5, 2.0],
            }
        )
    )
    filled.episodes.set_values(
        pa.table({"episode_id": ids[2:4], "caption": ["C", "D"], "good": [True, None]})
    )
    names = ["caption", "smooth", "good"]
    rows = {row["episode_id"]: [row[name] for name in names] for row in _rows(filled, ["episode_id", *names])}
    assert [rows[episode_id] for episode_id in ids[:5]] == [
        ["a", 0.5, None],
        [None, 1.0, None],
        ["C", 1.5, True],
        ["D", None, None],
        [None, None, None],
    ]
    assert len(rows) == 30
    assert filled.episodes.columns()["smooth"] == "float64"
    assert filled.episodes.count("good AND caption = 'C'") == 1
    assert filled.episodes.get(ids) == [record.episode for record in records]


def test_new_episodes_after_new_columns(filled: Tables, records: list[Record], make_record: Make) -> None:
    filled.episodes.set_values(pa.table({"episode_id": _ids(records), "caption": ["x"] * 30}))
    filled.episodes.add([make_record(50)])
    assert filled.episodes.count("caption IS NULL") == 1


def test_values_of_another_type_are_refused(filled: Tables, records: list[Record]) -> None:
    filled.episodes.set_values(pa.table({"episode_id": _ids(records)[:1], "smooth": [0.5]}))
    with pytest.raises(
        StoreError, match=r"column 'smooth' has another type: it is double, but the new values are string"
    ):
        filled.episodes.set_values(pa.table({"episode_id": _ids(records)[:1], "smooth": ["much"]}))
    with pytest.raises(StoreError, match=r"'Bad name' is not a column name"):
        filled.episodes.set_values(pa.table({"episode_id": _ids(records)[:1], "Bad name": ["x"]}))


class Clock(datetime):
    """A clock that a test sets."""

    present = datetime(2026, 11, 1, tzinfo=UTC)

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        """The time that the test has set."""
        return cls.present


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_what_was_stored_first_is_the_original(
    tmp_path: Path, make_record: Make, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Whatever the names; within one ingestion the first name, however it was written. The clock may go back."""
    rng = random.Random(seed)
    monkeypatch.setattr("ares.store.lance.episodes.datetime", Clock)
    tables, stored = open_tables(str(tmp_path)), dict[str, tuple[str, tuple[object, ...]]]()
    for run in range(4):
        Clock.present += timedelta(hours=rng.choice([-30, 0, 30]))
        records = []
        for number in range(10 * run, 10 * run + rng.randint(1, 5)):
            names = {name: rng.choice("abz") for name in ("dataset", "version", "split")}
            names["content_hash"] = rng.choice(["", "one", "two", "three"])
            records.append(make_record(number, key=f"{rng.randrange(99)}/{number}", **names))
            episode = records[-1].episode
            order = (run, episode.dataset, episode.version, episode.split, episode.key)
            stored[episode.episode_id] = (episode.content_hash, order)
        time = tables.episodes.next_time()
        for record in rng.sample(records, len(records)):
            tables.episodes.write([records_to_table_rows([record])], time)
        tables.episodes.mark_duplicates()
        expected = {id: _original(stored, id) for id in stored}
        rows = _rows(tables, ["episode_id", "duplicate_of"])
        assert {row["episode_id"]: row["duplicate_of"] for row in rows} == expected
        assert tables.episodes.find_wrong_duplicates() == (0, "")
        assert tables.episodes.mark_duplicates() == sum(value is not None for value in expected.values())


def _original(stored: dict[str, tuple[str, tuple[object, ...]]], episode_id: str) -> str | None:
    content, _ = stored[episode_id]
    same = [(order, id) for id, (other, order) in stored.items() if content and other == content]
    return min(same)[1] if same and min(same)[1] != episode_id else None


def test_instructions_are_found_by_their_words(
    filled: Tables, records: list[Record], make_record: Make
) -> None:
    (best, _), *_ = filled.episodes.search_instruction("opening the drawers 17", 5)
    assert best == records[17].episode.episode_id
    ids = _ids(records)
    tied = filled.episodes.search_instruction("drawer", 4)
    assert [episode_id for episode_id, _ in tied] == sorted(ids)[:4]
    matches = filled.episodes.search_instruction("drawer", 50, ids[3:5])
    assert {episode_id for episode_id, _ in matches} == set(ids[3:5])
    assert filled.episodes.search_instruction("drawer", 5, []) == []
    new = make_record(300, instruction="polish the spoon")
    filled.episodes.add([new])
    assert [episode_id for episode_id, _ in filled.episodes.search_instruction("spoon", 5)] == [
        new.episode.episode_id
    ]
    filled.optimize()
    assert [episode_id for episode_id, _ in filled.episodes.search_instruction("spoon", 5)] == [
        new.episode.episode_id
    ]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError):
        open_tables(str(tmp_path / "file" / "lance")).episodes.count()


def test_only_whole_rows_of_signals_are_kept(tables: Tables, records: list[Record]) -> None:
    assert isinstance(tables.trajectories, TrajectoryTable)
    tables.trajectories.write([records_to_table_rows(records[:3]).trajectories])
    assert tables.episodes.drop_orphans() == 3
    assert tables.trajectories.count() == 0


@pytest.mark.parametrize("damage", [b"damaged", b""])
def test_a_damaged_table_is_one_line(filled: Tables, damage: bytes) -> None:
    for data in Path(filled.uri, "episodes.lance", "data").iterdir():
        data.write_bytes(damage)
    episodes = open_tables(filled.uri).episodes
    for use in (episodes.mark_duplicates, lambda: list(episodes.read("dataset = 'set1'"))):
        with pytest.raises(StoreError, match="the table episodes cannot be used"):
            use()


def _crash(*_: object) -> None:
    raise KeyboardInterrupt


def _rows(tables: Tables, columns: list[str]) -> list[dict[str, object]]:
    return [row for batch in tables.episodes.scan(columns) for row in batch.to_pylist()]


def _column(tables: Tables, name: str, **options: object) -> list[object]:
    batches = tables.episodes.scan([name], **options)  # type: ignore[arg-type]
    return [value for batch in batches for value in batch[name].to_pylist()]


def _parts(trajectory: object) -> list[object]:
    """All of a trajectory in comparable form."""
    from ares.episode import Signal, Trajectory

    assert isinstance(trajectory, Trajectory)

    def plain(signal: Signal | None) -> object:
        return None if signal is None else (signal.names, signal.values.dtype.name, signal.values.tolist())

    reward = None if trajectory.reward is None else np.asarray(trajectory.reward).tolist()
    extra = {name: plain(signal) for name, signal in trajectory.extra.items()}
    return [trajectory.timestamps.tolist(), plain(trajectory.state), plain(trajectory.action), reward, extra]


def _swapped(record: Record, **changes: Any) -> Record:
    first, *others = record.episode.cameras
    cameras = (replace(first, media=replace(first.media, channels="bgr", **changes)), *others)
    return replace(record, episode=replace(record.episode, cameras=cameras))


def test_swapped_colours_and_turns_are_kept_and_read_from_the_text_of_earlier_versions(
    tables: Tables, make_record: Make
) -> None:
    swapped, turned = _swapped(make_record(1)), _swapped(make_record(2), turn="90")
    tables.episodes.add([swapped, turned])
    assert tables.episodes.get(_ids([swapped, turned])) == [swapped.episode, turned.episode]
    (row,) = schema.episodes_to_arrow([turned.episode])["cameras"].to_pylist()
    assert [camera["channels"] for camera in row] == ["bgr 90", "rgb"]
    earlier = replace(turned.episode.cameras[1].media, channels="rgb vertical flip")
    assert (earlier.channels, earlier.turn) == ("rgb", "vertical flip")


def test_tables_from_before_swapped_colours_are_read_and_go_on(tmp_path: Path, make_record: Make) -> None:
    first, second = make_record(1), make_record(2)
    rows = schema.episodes_to_arrow([first.episode])
    index = rows.schema.get_field_index("cameras")
    camera = [field for field in rows.schema.field(index).type.value_type if field.name != "channels"]
    older = rows.schema.set(index, pa.field("cameras", pa.list_(pa.struct(camera))))
    lance.write_dataset(
        pa.Table.from_batches([schema.drop_unsupported_camera_fields(rows, older)]),
        tmp_path / "episodes.lance",
    )
    tables = open_tables(str(tmp_path))
    tables.episodes.add([second])
    assert tables.episodes.get(_ids([first, second])) == [first.episode, second.episode]
    with pytest.raises(StoreError, match="created before swapped colours"):
        tables.episodes.add([_swapped(make_record(3))])
    assert tables.episodes.count() == 2
