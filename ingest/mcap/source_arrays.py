"""The topics that the signals of a recording were made of, for the mapping that --show-spec prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ares.episode import ArrayUse, SourceArray
from ingest.mcap.topics import RecordingContents
from ingest.mcap.tracks import SignalTrack


def source_arrays(
    contents: RecordingContents, tracks: Mapping[str, Mapping[str, SignalTrack]]
) -> Iterator[SourceArray]:
    """The topics of each signal in the order of its dimensions, then the topics that are not used.

    The key of a topic's main field is the topic; that of another field ends with its name: "/joint_states.velocity".
    """
    states = [topic for topic in tracks if contents.uses[topic] == "joints"]
    for field_name in ("position", "velocity", "effort"):
        for topic in states:
            if field_name in tracks[topic]:
                is_main = field_name == "position"
                use: ArrayUse = "state" if is_main else "extra"
                name = "" if is_main else field_name
                yield _array(
                    topic if is_main else f"{topic}.{field_name}", use, name, tracks[topic][field_name]
                )
    for topic in tracks:
        if topic not in states:
            yield _array(topic, "action", "", next(iter(tracks[topic].values())))
    for topic, schema in sorted(contents.unused.items()):
        yield SourceArray(key=topic, use="unused", dtype=schema)


def _array(key: str, use: ArrayUse, name: str, track: SignalTrack) -> SourceArray:
    return SourceArray(key=key, use=use, name=name, shape=track.signal.values.shape, dtype="float64")
