"""Which codes are corrected, and why the findings of every other code are left as they are."""

from __future__ import annotations

from collections.abc import Mapping

from ares.quality import catalogue as c
from ares.quality.record import RECORD_CODES

# What becomes of the findings of a code that can be corrected.
CORRECTED: Mapping[str, str] = {
    c.NOT_FINITE.code: "gaps of one or two steps are interpolated",
    c.SPIKE.code: "single spikes become what their neighbours say",
    c.WRAP_AROUND.code: "angles count on beyond a turn",
}
_LOST = "the values that were lost cannot be computed"
_WHICH = "the data do not tell whether the state or the action is wrong"
_STEPS = "steps are not removed: the frames of all cameras would have to be encoded anew"
_LEFT: Mapping[str, str] = {
    c.DEAD_CHANNEL.code: _LOST,
    c.STUCK.code: _LOST,
    c.QUANTISED.code: _LOST,
    c.SATURATED.code: _LOST,
    c.DRIFT.code: _WHICH,
    c.CHATTER.code: "a filter would change what the robot did beside it",
    c.IDLE_START.code: _STEPS,
    c.IDLE_END.code: _STEPS,
    c.ACTION_LAG.code: "shifted actions would be missing at one end of the episode",
    c.SIGN_FLIP.code: _WHICH,
    c.GAIN.code: _WHICH,
    c.UNIT_CLASH.code: "convert the episode in its source, or leave it out",
    c.DROPPED_STEPS.code: _LOST,
    c.REPEATED_STEPS.code: _STEPS,
    c.CLOCK_RATE.code: "only you know the true rate: give it with --rate",
    **dict.fromkeys((code.code for code in RECORD_CODES), "it is no value of a signal"),
}
_VIDEO = "videos are copied as they are"


def why_left(code: str) -> str:
    """Why findings of a code are left; "" for one that can be corrected."""
    return "" if code in CORRECTED else _LEFT.get(code, _VIDEO)
