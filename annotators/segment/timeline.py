"""How the spans that a model saw in windows that overlap become one timeline, without an event lost or doubled."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from ares_annotators.prompting import AnyReply, read_json_reply
from ares_annotators.segment.spans import (
    SHORTEST_SECONDS,
    ArmBoundaries,
    Boundary,
    SegmentSpan,
    join_boundaries,
    make_spans,
)

if TYPE_CHECKING:
    from ares.episode import Json

# More spans of one window, or more characters, are no answer.
MOST_SPANS, _MOST_CHARACTERS = 200, 100_000
# Two windows mean one event where their times differ by less than so many steps, or so many if they name it alike.
_SEAM_STEPS, _SAME_TEXT_STEPS = 2.0, 4.0
# Of a boundary, and what becomes of it where two windows show its place and one of them has none.
_CONFIDENCE, _UNCONFIRMED = 0.6, 0.7

Arm = Literal["", "left", "right", "both"]


class _SpanForm(BaseModel):
    """One span of a reply."""

    model_config = ConfigDict(extra="forbid", strict=True)

    start: Annotated[float, Field(allow_inf_nan=False)]
    end: Annotated[float, Field(allow_inf_nan=False)]
    arm: Arm = ""
    what: Annotated[str, StringConstraints(max_length=200)]


class SpansForm(BaseModel):
    """The form of the reply about one window."""

    model_config = ConfigDict(extra="forbid", strict=True)

    spans: Annotated[list[_SpanForm], Field(max_length=MOST_SPANS)]


def spans_schema() -> dict[str, Json]:
    """The JSON schema of the reply about one window; a reply may leave the arm out, a schema asks for it."""
    schema: dict[str, Any] = SpansForm.model_json_schema()
    span = schema["$defs"]["_SpanForm"]
    span["required"] = list(span["properties"])
    span["properties"]["arm"].pop("default")
    return schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A part of an episode that a model gets in one call.

    Attributes:
        start: Second from which it tells.
        stop: Second up to which it tells.
        seconds: Seconds of its frames, in order.
        step: Seconds between two frames.
        is_first: Whether it begins with the episode.
        is_last: Whether it ends with the episode.
    """

    start: float
    stop: float
    seconds: tuple[float, ...]
    step: float
    is_first: bool = True
    is_last: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBoundary:
    """A change of what is done, as a model saw it.

    Attributes:
        seconds: When, from the start of the episode.
        text: What is done from then on; "" where nothing is.
        arm: By which arm, "" for the only one.
        confidence: From 0 to 1.
    """

    seconds: float
    text: str
    arm: str
    confidence: float = _CONFIDENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelArm:
    """What a model saw one arm do.

    Attributes:
        arm: Its name, "" for the only one.
        opening: What it does at the start.
        boundaries: Its changes, in order of time.
    """

    arm: str
    opening: str = ""
    boundaries: tuple[ModelBoundary, ...] = ()

    def text_at(self, seconds: float) -> str:
        """What is done at a second."""
        texts = [boundary.text for boundary in self.boundaries if boundary.seconds <= seconds]
        return texts[-1] if texts else self.opening


@dataclass(frozen=True, slots=True)
class ReadWindow:
    """What a model said of a window.

    Attributes:
        window: The window.
        arms: What it says of each arm, by name.
    """

    window: Window
    arms: dict[str, ModelArm] = field(default_factory=dict)


def read_window_reply(text: str, window: Window) -> ReadWindow | str:
    """The changes in a reply about a window; else what is wrong with it, in a few words.

    Times may be wrong by a step: a span that ends a little after the window, or after the start of the next, is cut.

    Args:
        text: The reply.
        window: The window.
    """
    form = read_tolerantly(SpansForm, text)
    if isinstance(form, str):
        return form
    by_arm: dict[str, list[_SpanForm]] = {}
    for span in sorted(form.spans, key=lambda item: (item.start, item.end)):
        by_arm.setdefault(span.arm, []).append(span)
    for spans in by_arm.values():
        problem = _find_problem(spans, window)
        if problem:
            return problem
    return ReadWindow(window, {arm: _read_arm(arm, spans, window) for arm, spans in by_arm.items()})


def read_tolerantly(model: type[AnyReply], text: str) -> AnyReply | str:
    """A reply of a form, also where a model without schemas has written words around it; else what is wrong with it."""
    if len(text) > _MOST_CHARACTERS:
        return "reply is too long"
    read = read_json_reply(model, text)
    body = text[text.find("{") : text.rfind("}") + 1]
    return read_json_reply(model, body) if isinstance(read, str) and body and body != text else read


def _find_problem(spans: Sequence[_SpanForm], window: Window) -> str:
    """What is wrong with the spans of one arm, in order of their starts; "" where nothing is."""
    slack, latest = window.step + 1e-6, -math.inf
    for span in spans:
        if span.end < span.start:
            return "a span ends before it starts"
        if span.start < window.start - slack or span.end > window.stop + slack:
            return "a span lies outside the frames"
        if span.start < latest - slack:
            return "spans of one arm overlap"
        latest = max(latest, span.end)
    return ""


def _read_arm(arm: str, spans: Sequence[_SpanForm], window: Window) -> ModelArm:
    """The starts and ends of spans, in order of time, as changes; the edges of a window are none."""
    first_edge = window.start + (SHORTEST_SECONDS if window.is_first else window.step)
    last_edge = window.stop - (SHORTEST_SECONDS if window.is_last else window.step)
    opening, changes = "", list[ModelBoundary]()
    for position, span in enumerate(spans):
        following = spans[position + 1].start if position + 1 < len(spans) else math.inf
        what = " ".join(span.what.split())
        # An instant, and a span that ends a little before the next one begins, go on up to it.
        steps = [(span.start, what)]
        if span.start < span.end < following - SHORTEST_SECONDS:
            steps.append((span.end, ""))
        for seconds, text in steps:
            if seconds < first_edge:
                opening = text
            elif seconds <= last_edge:
                changes.append(ModelBoundary(seconds=seconds, text=text, arm=arm))
    return ModelArm(arm=arm, opening=opening, boundaries=tuple(changes))


def align_times(
    first: Sequence[float], second: Sequence[float], tolerance: Callable[[int, int], float]
) -> list[tuple[int, int]]:
    """Pairs of positions of two rising lists of times that mean the same events, in order; no pairs cross.

    The cheapest such pairs: each costs its distance as a share of its tolerance, a time without a partner one half.

    Args:
        first: Seconds.
        second: Seconds.
        tolerance: How far two of them, by their positions, may be apart.
    """
    rows, columns = len(first), len(second)
    # cost[i][j]: of the first i and the first j times; 0.5 for each that has no partner.
    cost = [[0.5 * column for column in range(columns + 1)]]
    for row in range(1, rows + 1):
        above, row_costs = cost[-1], [0.5 * row]
        for column in range(1, columns + 1):
            pair = _pair_cost(first[row - 1], second[column - 1], tolerance(row - 1, column - 1))
            row_costs.append(min(above[column] + 0.5, row_costs[-1] + 0.5, above[column - 1] + pair))
        cost.append(row_costs)
    pairs, row, column = list[tuple[int, int]](), rows, columns
    while row and column:
        if cost[row][column] == cost[row - 1][column] + 0.5:
            row -= 1
        elif cost[row][column] == cost[row][column - 1] + 0.5:
            column -= 1
        else:
            row, column = row - 1, column - 1
            pairs.append((row, column))
    return pairs[::-1]


def _pair_cost(first: float, second: float, tolerance: float) -> float:
    distance = abs(first - second)
    # A pair that is just allowed still costs less than two times without a partner.
    return 0.999 * distance / tolerance if distance <= tolerance else math.inf


def stitch_windows(read: Sequence[ReadWindow]) -> list[ModelArm]:
    """One timeline for each arm of what was said of all windows of an episode, in order.

    Where two windows show an event, it is taken from the one that shows more around it. One that only one of them
    tells of is kept, less sure.
    """
    names = sorted({arm for window in read for arm in window.arms}) or [""]
    return [_stitch_arm(name, read) for name in names]


def _stitch_arm(name: str, read: Sequence[ReadWindow]) -> ModelArm:
    joined = read[0].arms.get(name, ModelArm(arm=name))
    for number in range(1, len(read)):
        earlier, later = read[number - 1].window, read[number].window
        added = read[number].arms.get(name, ModelArm(arm=name))
        joined = _join_at_seam(joined, added, earlier, later)
    return joined


def _join_at_seam(first: ModelArm, second: ModelArm, earlier: Window, later: Window) -> ModelArm:
    """The timeline up to a window with what the next window says."""
    old = [boundary for boundary in first.boundaries if boundary.seconds >= later.start]
    new = [boundary for boundary in second.boundaries if boundary.seconds <= earlier.stop]
    kept = [boundary for boundary in first.boundaries if boundary.seconds < later.start]
    pairs = align_times(
        [boundary.seconds for boundary in old],
        [boundary.seconds for boundary in new],
        lambda row, column: _seam_tolerance(old[row], new[column], later.step),
    )
    middle = (later.start + earlier.stop) / 2
    for row, column in pairs:
        kept.append(old[row] if old[row].seconds < middle else new[column])
    paired_old, paired_new = {row for row, _ in pairs}, {column for _, column in pairs}
    kept += [_less_sure(boundary) for row, boundary in enumerate(old) if row not in paired_old]
    kept += [_less_sure(boundary) for column, boundary in enumerate(new) if column not in paired_new]
    kept += [boundary for boundary in second.boundaries if boundary.seconds > earlier.stop]
    if not (old or new) and bool(first.text_at(middle)) != bool(second.opening):
        # One window shows it at work and the other at rest, and neither a change.
        change = ModelBoundary(seconds=middle, text=second.opening, arm=first.arm)
        kept.append(_less_sure(change))
    return replace(first, boundaries=tuple(sorted(kept, key=lambda boundary: boundary.seconds)))


def _seam_tolerance(first: ModelBoundary, second: ModelBoundary, step: float) -> float:
    is_alike = first.text.casefold() == second.text.casefold()
    return step * (_SAME_TEXT_STEPS if is_alike else _SEAM_STEPS)


def _less_sure(boundary: ModelBoundary) -> ModelBoundary:
    return replace(boundary, confidence=boundary.confidence * _UNCONFIRMED)


def name_spans(arms: Sequence[ModelArm], duration_seconds: float) -> list[SegmentSpan]:
    """The spans of a model's timeline with what is done in them; they cover the episode once for each arm."""
    spans: list[SegmentSpan] = []
    for arm in arms:
        boundaries = [Boundary(boundary.seconds, "model", boundary.confidence) for boundary in arm.boundaries]
        joined = ArmBoundaries(arm.arm, join_boundaries(boundaries, duration_seconds))
        spans += [
            replace(span, text=arm.text_at((span.start_seconds + span.stop_seconds) / 2))
            for span in make_spans([joined], duration_seconds)
        ]
    return spans
