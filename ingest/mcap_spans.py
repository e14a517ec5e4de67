"""Several episodes in one MCAP recording: Metadata records named "episode" that say when each begins and stops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ares.episode import Json
from ares.errors import SourceError
from ares.media.mcap_file import metadata_of

NAME = "episode"
_OUTCOMES = {"true": True, "1": True, "success": True, "false": False, "0": False, "failure": False}
_OWN = frozenset({"key", "start_ns", "stop_ns", "instruction", "success", "robot"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A part of a recording that is one episode.

    Attributes:
        key: Its name in the recording; its number where it has none.
        start: Nanoseconds of the first stamp that belongs to it.
        stop: Nanoseconds of the first stamp that does not.
        instruction: What was to be done, or "".
        success: Whether it was, or None.
        robot: Which robot, or "".
        metadata: What else the record says.
    """

    key: str
    start: int
    stop: int
    instruction: str = ""
    success: bool | None = None
    robot: str = ""
    metadata: Mapping[str, Json]


def spans_of(files: list[str]) -> list[Span | SourceError]:
    """The episodes that a recording declares, in its order; none where it declares none and is one itself.

    A record that says no span is an error in the list. Raises SourceError for a file that is missing or no MCAP.
    """
    told = [said for path in files for said in metadata_of(path, NAME)]
    made = [_span(number, said) for number, said in enumerate(told)]
    seen: set[str] = set()
    for number, span in enumerate(made):
        if isinstance(span, Span) and span.key in seen:
            made[number] = SourceError("episode is declared twice", f"{files[0]}: {span.key!r}")
        elif isinstance(span, Span):
            seen.add(span.key)
    return made


def _span(number: int, said: Mapping[str, str]) -> Span | SourceError:
    try:
        start, stop = int(said["start_ns"]), int(said["stop_ns"])
    except (KeyError, ValueError):
        return SourceError("episode is declared without its span", f"start_ns and stop_ns in {dict(said)}")
    if not 0 <= start < stop < 2**62:
        return SourceError("episode is declared with an empty span", f"start_ns {start}, stop_ns {stop}")
    return Span(
        key=said.get("key") or str(number),
        start=start,
        stop=stop,
        instruction=said.get("instruction", ""),
        success=_OUTCOMES.get(said.get("success", "").lower()),
        robot=said.get("robot", ""),
        metadata={name: text for name, text in said.items() if name not in _OWN},
    )
