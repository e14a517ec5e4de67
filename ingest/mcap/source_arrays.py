"""The topics that the signals of a recording were made of, for the mapping that --show-spec prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ares.episode import ArrayUse, SourceArray
from ingest.mcap.topics import RecordingContents
from ingest.mcap.tracks import SignalTrack


def source_arrays(
    contents: RecordingContents, tracks: Mapping[str, Mapping[str, SignalTrack]], steps_topic: str = ""
) -> Iterator[SourceArray]:
    """The topics of each signal in the order of its dimensions, then that of the steps, then those that are not used.

    The key of a topic's main field is the topic; that of another field ends with its name: "/joint_states.velocity".
    """
    states = [topic for topic in tracks if contents.uses[topic] == "joints"]
    for field_name in ("position", "velocity", "effort"):
        for topic in states:
            if field_name in tracks[topic]:
                is_main = field_name == "position"
                use: ArrayUse = "state" if is_main else "extra"
                name = "" if is_main else field_name
                key = topic if is_main else f"{topic}.{field_name}"
                yield _array(contents, topic, key, use, name, tracks[topic][field_name])
    for topic in tracks:
        if contents.uses[topic] == "spec":
            yield _array(contents, topic, topic, "extra", topic, next(iter(tracks[topic].values())))
        elif topic not in states:
            yield _array(contents, topic, topic, "action", "", next(iter(tracks[topic].values())))
    if steps_topic:
        yield SourceArray(key=steps_topic, use="time", dtype=str(contents.summaries[steps_topic]))
    for topic in sorted(contents.unused):
        yield SourceArray(key=topic, use="unused", dtype=str(contents.summaries[topic]))


def _array(
    contents: RecordingContents, topic: str, key: str, use: ArrayUse, name: str, track: SignalTrack
) -> SourceArray:
    note = str(contents.summaries[topic])
    return SourceArray(
        key=key, use=use, name=name, shape=track.signal.values.shape, dtype="float64", note=note
    )
