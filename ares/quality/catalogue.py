"""The codes of the quality checks: name, meaning, remedy, and the strength of the fault that each must find."""

from __future__ import annotations

from ares.errors import RequestError
from ares.quality.code_definition import CheckCode, Severity
from ares.quality.record import RECORD_CODES
from ares.quality.video import VIDEO_CODES

__all__ = ["CODES", "CheckCode", "Severity", "check_code"]

NOT_FINITE = CheckCode(
    code="A001",
    name="not-finite",
    meaning="values are NaN or infinite",
    size_unit="steps",
    strength=1,
    strength_unit="steps",
    remedy="remove the steps, or fill them in the recorder",
    severity="fault",
)
DEAD_CHANNEL = CheckCode(
    code="A002",
    name="dead-channel",
    meaning="a dimension has one value, though it is commanded to move or moves in other episodes",
    size_unit="steps",
    strength=0.2,
    strength_unit="rad of motion that is lost",
    remedy="check the encoder and its name in the recorder; leave the episode out",
    severity="fault",
)
STUCK = CheckCode(
    code="A003",
    name="stuck",
    meaning="a dimension repeats one value for a time while it should move",
    size_unit="s",
    strength=0.05,
    strength_unit="of the steps, 0.05 rad of motion lost",
    remedy="check the bus and the encoder at that second; cut the span out",
    severity="fault",
)
SPIKE = CheckCode(
    code="A004",
    name="spike",
    meaning="single values lie far from those before and after",
    size_unit="value",
    strength=0.2,
    strength_unit="rad at one step",
    remedy="filter the value, or remove the step",
    severity="fault",
)
QUANTISED = CheckCode(
    code="A005",
    name="quantised",
    meaning="values lie on a coarse grid",
    size_unit="value",
    strength=0.02,
    strength_unit="rad between neighbouring values",
    remedy="record with more digits",
    severity="fault",
)
SATURATED = CheckCode(
    code="A006",
    name="saturated",
    meaning="a dimension is cut off at a limit while it moves",
    size_unit="share of steps",
    strength=0.05,
    strength_unit="of the steps cut off",
    remedy="check the limits of the recorder and of the controller",
)
WRAP_AROUND = CheckCode(
    code="A007",
    name="wrap-around",
    meaning="an angle jumps by a whole turn",
    size_unit="jumps",
    strength=1,
    strength_unit="jumps by 2 pi",
    remedy="unwrap the angle before training",
    severity="fault",
)
DRIFT = CheckCode(
    code="A008",
    name="drift",
    meaning="the difference of state and action grows over the episode",
    size_unit="value",
    strength=0.15,
    strength_unit="rad over the episode",
    remedy="calibrate the encoder; check for a slipping joint",
)
CHATTER = CheckCode(
    code="A009",
    name="chatter",
    meaning="a dimension jumps to and fro at every step",
    size_unit="value",
    strength=0.03,
    strength_unit="rad for 0.5 s",
    remedy="check the controller and the bus; filter the signal",
    severity="fault",
)
IDLE_START = CheckCode(
    code="A010",
    name="idle-start",
    meaning="nothing moves at the start",
    size_unit="s",
    strength=3,
    strength_unit="s",
    remedy="cut the start off",
)
IDLE_END = CheckCode(
    code="A011",
    name="idle-end",
    meaning="nothing moves at the end",
    size_unit="s",
    strength=3,
    strength_unit="s",
    remedy="cut the end off",
)
ACTION_LAG = CheckCode(
    code="A012",
    name="action-lag",
    meaning="the state follows the action earlier or later than in other episodes, or than a robot can",
    size_unit="s",
    strength=0.2,
    strength_unit="s",
    remedy="shift the actions by the lag; check how the recorder pairs actions and states",
    severity="fault",
)
SIGN_FLIP = CheckCode(
    code="A013",
    name="sign-flip",
    meaning="a dimension moves against its command",
    size_unit="correlation",
    strength=1,
    strength_unit="sign",
    remedy="turn the sign of the dimension in the action or in the state",
    severity="fault",
)
GAIN = CheckCode(
    code="A014",
    name="gain",
    meaning="a dimension moves by another factor of its command than in other episodes",
    size_unit="factor",
    strength=2,
    strength_unit="times",
    remedy="check the scale of the action; convert the episodes to one scale",
)
UNIT_CLASH = CheckCode(
    code="A015",
    name="unit-clash",
    meaning="an episode has degrees where the others have radians, or the other way round",
    size_unit="factor",
    strength=57.2958,
    strength_unit="times: degrees among radians",
    remedy="convert the episodes to one unit",
    severity="fault",
)
DROPPED_STEPS = CheckCode(
    code="A016",
    name="dropped-steps",
    meaning="steps are missing: all dimensions jump ahead at once, or the stamps have a gap",
    size_unit="s",
    strength=0.3,
    strength_unit="s missing during motion, stamps numbered through",
    remedy="split the episode there; check the load of the recorder",
)
REPEATED_STEPS = CheckCode(
    code="A017",
    name="repeated-steps",
    meaning="whole steps are repeated without any noise while the robot moves",
    size_unit="s",
    strength=0.2,
    strength_unit="s during motion",
    remedy="remove the repeated steps; check the rate of the source",
    severity="fault",
)
CLOCK_RATE = CheckCode(
    code="A018",
    name="clock-rate",
    meaning="the stamps have another rate than the dataset claims",
    size_unit="Hz",
    strength=0.1,
    strength_unit="of the rate",
    remedy="give the true rate with --rate, or correct the metadata",
    severity="fault",
)

CODES = {
    code.code: code
    for code in (
        NOT_FINITE, DEAD_CHANNEL, STUCK, SPIKE, QUANTISED, SATURATED, WRAP_AROUND, DRIFT, CHATTER, IDLE_START,
        IDLE_END, ACTION_LAG, SIGN_FLIP, GAIN, UNIT_CLASH, DROPPED_STEPS, REPEATED_STEPS, CLOCK_RATE,
        *VIDEO_CODES, *RECORD_CODES,
    )
}  # fmt: skip


def check_code(code: str) -> CheckCode:
    """The check of a code. Raises RequestError that lists the codes."""
    if code not in CODES:
        raise RequestError(f"no check {code!r}", f"there are: {', '.join(CODES)}")
    return CODES[code]
