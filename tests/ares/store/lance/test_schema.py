"""Swapped colours are stored, and tables that were created before they could be recorded still work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ares.episode import Record
from ares.errors import StoreError
from ares.store.lance import schema as arrow
from ares.store.lance_tables import Tables, open_tables

MakeRecord = Callable[..., Record]


def swapped(record: Record) -> Record:
    first, *others = record.episode.cameras
    cameras = (replace(first, media=replace(first.media, channels="bgr")), *others)
    return replace(record, episode=replace(record.episode, cameras=cameras))


def test_swapped_colours_are_kept(tables: Tables, make_record: MakeRecord) -> None:
    record = swapped(make_record(1))
    tables.episodes.add([record])
    (episode,) = tables.episodes.get([record.episode.episode_id])
    assert [camera.media.channels for camera in episode.cameras] == ["bgr", "rgb"]
    assert episode == record.episode


def test_turns_are_kept_and_read_from_the_text_of_earlier_versions(
    tables: Tables, make_record: MakeRecord
) -> None:
    record = make_record(1)
    first, *others = record.episode.cameras
    turned = replace(first, media=replace(first.media, channels="bgr", turn="90"))
    record = replace(record, episode=replace(record.episode, cameras=(turned, *others)))
    tables.episodes.add([record])
    assert tables.episodes.get([record.episode.episode_id]) == [record.episode]
    (row,) = arrow.episodes_to_arrow([record.episode])["cameras"].to_pylist()
    assert row[0]["channels"] == "bgr 90"
    earlier = replace(first.media, channels="rgb vertical flip")
    assert (earlier.channels, earlier.turn) == ("rgb", "vertical flip")


def old_tables(folder: Path, record: Record) -> Tables:
    """An older workspace: one episode in a table without the field."""
    import lancedb
    import pyarrow as pa

    rows = arrow.episodes_to_arrow([record.episode])
    fields = list(rows.schema)
    index = rows.schema.get_field_index("cameras")
    old_type = pa.struct([field for field in fields[index].type.value_type if field.name != "channels"])
    fields[index] = pa.field("cameras", pa.list_(old_type))
    schema = pa.schema(fields)
    table = lancedb.connect(str(folder)).create_table("episodes", schema=schema)
    table.add(arrow.drop_unsupported_camera_fields(rows, schema))
    return open_tables(str(folder))


def test_old_tables_are_read_and_go_on(tmp_path: Path, make_record: MakeRecord) -> None:
    first, second = make_record(1), make_record(2)
    tables = old_tables(tmp_path / "old", first)
    tables.episodes.add([second])
    ids = [first.episode.episode_id, second.episode.episode_id]
    assert tables.episodes.get(ids) == [first.episode, second.episode]
    with pytest.raises(StoreError, match="created before swapped colours"):
        tables.episodes.add([swapped(make_record(3))])
    assert tables.episodes.count() == 2
