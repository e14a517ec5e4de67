"""Each episode that the Metadata records of a recording declare has its own messages only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from mcap.reader import make_reader
from mcap.writer import Writer

from ares.errors import SourceError
from ares.media import frames_at
from ares_ingest.base import Item, SourceOptions
from ares_ingest.recordings import mcap
from ares_ingest.recordings.recorded_spans import RecordedSpan, read_episode_spans

START, STEP = 1_760_000_000 * 10**9, 100_000_000


def declare(path: Path, *records: dict[str, str]) -> Path:
    """The recording again, with Metadata records named "episode" behind its messages."""
    declared = path.with_name("declared.mcap")
    with path.open("rb") as source, declared.open("wb") as file:
        writer = Writer(file, chunk_size=512)
        writer.start()
        channel_ids: dict[str, int] = {}
        for schema, channel, message in make_reader(source).iter_messages():
            assert schema is not None
            if channel.topic not in channel_ids:
                number = writer.register_schema(schema.name, schema.encoding, schema.data)
                channel_ids[channel.topic] = writer.register_channel(
                    channel.topic, channel.message_encoding, number
                )
            writer.add_message(
                channel_ids[channel.topic], message.log_time, message.data, message.publish_time
            )
        for record in records:
            writer.add_metadata("episode", record)
        writer.add_metadata("else", {"start_ns": "1"})
        writer.finish()  # type: ignore[no-untyped-call]
    path.unlink()
    return declared


def span(first: int, stop: int, **more: str) -> dict[str, str]:
    return {"start_ns": str(START + first * STEP), "stop_ns": str(START + stop * STEP), **more}


def items(path: Path) -> list[Item]:
    (source,) = mcap.open(str(path), SourceOptions())
    source_items = list(source.items)
    assert source.total == len(source_items)
    return source_items


def test_each_declared_span_is_an_episode(kit: Any, tmp_path: Path) -> None:
    entries = [kit.task("lift"), *kit.images(20), *kit.states(20), kit.task("drop", at=START + 12 * STEP)]
    path = declare(
        kit.write(tmp_path / "a.mcap", entries),
        span(2, 8, key="first", instruction="pick it up", success="true", operator="one"),
        span(10, 19),
    )
    first, second = (item.load() for item in items(path))
    assert [record.episode.num_steps for record in (first, second)] == [6, 9]
    assert (first.episode.instructions, second.episode.instructions) == (("pick it up",), ("drop",))
    assert (first.episode.success, first.episode.success_source, second.episode.success) == (
        True,
        "success",
        None,
    )
    assert first.episode.metadata["operator"] == "one"
    assert first.episode.key == "declared.mcap#first" and second.episode.key == "declared.mcap#1"
    assert first.episode.content_hash != second.episode.content_hash
    assert first.warnings == second.warnings == ()
    assert second.trajectory.state is not None
    assert second.trajectory.state.values[:, 0].tolist() == list(range(10, 19))
    assert second.trajectory.timestamps.tolist() == [k / 10 for k in range(9)]
    media = second.episode.cameras[0].media
    assert (media.start_seconds, media.num_frames) == (1.0, 9)
    assert np.unique(frames_at(media, [0.0, 0.8])).size == 1


def test_declarations_that_are_wrong_cost_themselves_only(kit: Any, tmp_path: Path) -> None:
    path = declare(
        kit.write(tmp_path / "a.mcap", kit.states(20)),
        span(0, 5, key="good"),
        span(3, 3),
        {"start_ns": "now", "stop_ns": "later"},
        span(40, 50),
        span(5, 9, key="good"),
    )
    reasons = []
    for item in items(path):
        try:
            reasons.append(str(item.load().episode.num_steps))
        except SourceError as error:
            reasons.append(error.reason)
    assert reasons == [
        "5",
        "episode is declared with an empty span",
        "episode is declared without its span",
        "no message lies in the span of the episode",
        "episode is declared twice",
    ]
    assert len({item.episode_id for item in items(path)}) == 5


def test_a_damaged_declaration_leaves_the_recording_one_episode(kit: Any, tmp_path: Path) -> None:
    path = declare(kit.write(tmp_path / "a.mcap", kit.states(20)), span(0, 5))
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"start_ns")])
    (item,) = items(path)
    assert 10 < item.load().episode.num_steps <= 20
    path.write_bytes(b"nothing")
    (item,) = items(path)
    with pytest.raises(SourceError, match="not an MCAP"):
        item.load()


_NAMES = st.sampled_from(["start_ns", "stop_ns", "key", "instruction", "success", "robot", "note"])
_TEXTS = st.text(max_size=9) | st.integers(-5, START + 30 * STEP).map(str)


@settings(max_examples=60, deadline=None)
@given(documents=st.lists(st.dictionaries(_NAMES, _TEXTS), max_size=4))
def test_declarations_of_any_kind_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, documents: list[dict[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "a.mcap"
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start()
        for document in documents:
            writer.add_metadata("episode", document)
        writer.finish()  # type: ignore[no-untyped-call]
    results = read_episode_spans([str(path)])
    assert len(results) == len(documents)
    spans = [span for span in results if isinstance(span, RecordedSpan)]
    assert all(0 <= span.start < span.stop for span in spans)
    assert len({span.key for span in spans}) == len(spans)
    assert all(error.reason for error in results if isinstance(error, SourceError))
