"""A judge that finds coloured things in frames and follows them: it has no weights, and needs the pixels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.annotators.judge_replies import NOT_VISIBLE, OBSERVES, is_asked, judge, observation, part, ruling
from tests.simulated_world.drawing import COLOURS, GRAINS, SHAPES, TABLE
from tests.simulated_world.events import Claim
from tests.simulated_world.requests import request_caption, request_images
from tests.simulated_world.wordings import plain

_LEAST_PIXELS, _COLOUR_DISTANCE = 20, 70
_HOLLOW = {"bin": 0.5, "ball": 0.78, "bowl": 0.78}
_BOX_WITH_LID = 16.0


@dataclass(frozen=True, slots=True)
class Blob:
    """The pixels of one colour in a frame: its extent, and the share of it that they fill."""

    left: float
    right: float
    top: float
    bottom: float
    fill: float

    @property
    def x(self) -> float:
        """Column of its middle."""
        return (self.left + self.right) / 2

    @property
    def kind(self) -> str:
        """The kind of thing whose shape it has most."""
        width, height = self.right - self.left, self.bottom - self.top

        def distance(kind: str) -> float:
            wide, high = SHAPES[kind]
            high = int(_BOX_WITH_LID) if kind == "box" else high
            return abs(width - wide) + abs(height - high) + 15 * abs(self.fill - _HOLLOW.get(kind, 1.0))

        return min(SHAPES, key=distance)


def pixel_judge() -> Callable[[Mapping[str, Any]], list[dict[str, Any]]]:
    """Answers every question of a judge by the frames of the request, for `ModelServer.replies`."""

    def answer(request: Mapping[str, Any]) -> list[dict[str, Any]]:
        seen = ""
        if is_asked(request, OBSERVES):
            seen = _observation(watch(request_images(request)))
        return judge(seen, follows="neutral", rules=_rule)(request)

    return answer


def _rule(request: Mapping[str, Any]) -> str:
    """A caption with a word that is not in the judge's own is false; frames in which nothing is done say nothing."""
    claim = watch(request_images(request))
    if claim is None:
        return ruling("UNSURE")
    is_other = set(re.findall(r"\w+", request_caption(request).lower())) - set(plain(claim).split())
    return ruling("UNMET" if is_other else "MET")


def _observation(claim: Claim | None) -> str:
    if claim is None:
        return observation(action=dict(NOT_VISIBLE), objects=[], outcome=dict(NOT_VISIBLE))
    thing = {**part(claim.kind, [1]), "attributes": [claim.colour]}
    place = {"where_to": part(f"in the {claim.target}")} if claim.target else {}
    return observation(plain(claim), objects=[thing], **place)


def watch(frames: Sequence[NDArray[np.uint8]]) -> Claim | None:
    """What is done in frames, or None where no thing moves as one does in this world."""
    first, last = _blobs(frames[0]), _blobs(frames[-1])
    moves = {
        colour: abs(last[colour].x - blob.x) + abs(last[colour].top - blob.top)
        for colour, blob in first.items()
        if colour in last
    }
    if not moves or max(moves.values()) < 6:
        return None
    colour = max(moves, key=lambda name: moves[name])
    start, end = first[colour], last[colour]
    claim = _name_action(colour, start, end, _grains(frames[-1]))
    if claim and claim.verb in ("place", "pour"):
        under = {name: blob for name, blob in first.items() if blob.kind in ("bin", "bowl")}
        below = [f"{name} {blob.kind}" for name, blob in under.items() if abs(blob.x - end.x) < 9]
        return _with_target(claim, below)
    return claim


def _with_target(claim: Claim, below: Sequence[str]) -> Claim | None:
    if len(below) != 1:
        return None
    return Claim(verb=claim.verb, colour=claim.colour, kind=claim.kind, target=below[0])


def _name_action(colour: str, start: Blob, end: Blob, grains: int) -> Claim | None:
    shift, rise = end.x - start.x, start.bottom - end.bottom
    if grains > _LEAST_PIXELS:
        return Claim(verb="pour", colour=colour, kind=start.kind)
    if start.kind == "box":
        return Claim(verb="open", colour=colour, kind="box") if start.top - end.top > 6 else None
    if rise > 20:
        return Claim(verb="lift", colour=colour, kind=start.kind)
    if abs(end.bottom - TABLE) > 3 or abs(shift) < 9:
        return None
    if 18 <= abs(shift) <= 26:
        return Claim(verb="push", colour=colour, kind=start.kind, direction="right" if shift > 0 else "left")
    return Claim(verb="place", colour=colour, kind=start.kind)


def _blobs(frame: NDArray[np.uint8]) -> dict[str, Blob]:
    found = {name: _mask(frame, rgb) for name, rgb in COLOURS.items()}
    return {name: _blob(mask) for name, mask in found.items() if mask.sum() >= _LEAST_PIXELS}


def _mask(frame: NDArray[np.uint8], rgb: tuple[int, int, int]) -> NDArray[np.bool_]:
    return np.asarray(abs(frame.astype(int) - rgb).sum(axis=2) < _COLOUR_DISTANCE)


def _blob(mask: NDArray[np.bool_]) -> Blob:
    rows, columns = np.nonzero(mask)
    left, right, top, bottom = columns.min(), columns.max() + 1, rows.min(), rows.max() + 1
    fill = len(rows) / ((right - left) * (bottom - top))
    return Blob(float(left), float(right), float(top), float(bottom), float(fill))


def _grains(frame: NDArray[np.uint8]) -> int:
    return int(_mask(frame, GRAINS).sum())
