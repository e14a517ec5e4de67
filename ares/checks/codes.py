"""What a quality check can report: its codes with meaning and remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# A "fault" sets the exit status of `ares check`. "information" is shown beside it: the check has not passed its bar.
Severity = Literal["fault", "information"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckCode:
    """One kind of finding.

    Attributes:
        code: Stable code, such as "A012".
        name: Stable name, such as "action-lag".
        meaning: What the data do, in one sentence.
        size_unit: Unit of `QualityFinding.size`; "value" is the unit of the signal.
        remedy: What the user can do.
        severity: "fault" where the check passed its bar on planted faults, see benchmarks/RESULTS.md; idle ends are
            "information" although theirs passed, since a recording may well begin at rest.
    """

    code: str
    name: str
    meaning: str
    size_unit: str
    remedy: str
    severity: Severity = "information"


CLOCK_BACKWARDS = CheckCode(
    code="A050",
    name="clock-backwards",
    meaning="stamps repeat or run backwards",
    size_unit="steps",
    remedy="sort the steps by their stamps, or number them at the true rate",
    severity="fault",
)
SINGLE_STEP = CheckCode(
    code="A051",
    name="one-step",
    meaning="the episode has one step, or two",
    size_unit="steps",
    remedy="leave the episode out; check why the recording ended",
    severity="fault",
)
FRAME_COUNT = CheckCode(
    code="A052",
    name="frame-count",
    meaning="a camera has not one frame for each step",
    size_unit="frames",
    remedy="check where the recorder drops frames; pair frames and steps by their stamps",
    severity="fault",
)
NO_INSTRUCTION = CheckCode(
    code="A053",
    name="no-instruction",
    meaning="there is no instruction",
    size_unit="characters",
    remedy="give the task in the metadata or in a spec, or caption the episode",
)
IMPOSSIBLE_LENGTH = CheckCode(
    code="A055",
    name="impossible-length",
    meaning="the episode lasts a day or longer by its stamps",
    size_unit="s",
    remedy="check the clock of the recorder, which changed from one epoch to another; cut the steps before it out",
    severity="fault",
)
MISSING_CAMERA = CheckCode(
    code="A056",
    name="missing-camera",
    meaning="the source names a camera of which the episode has no pictures",
    size_unit="steps",
    remedy="fetch the missing files; or leave the camera out by a spec, or all of them by --media none",
    severity="fault",
)
EMPTY_INSTRUCTION = CheckCode(
    code="A054",
    name="empty-instruction",
    meaning="the instruction is a placeholder that says nothing",
    size_unit="characters",
    remedy="give the task in the metadata or in a spec, or caption the episode",
)

ACTION_IS_STATE = CheckCode(
    code="A057",
    name="action-is-state",
    meaning="the action of each step is the measured state of the same step",
    size_unit="steps",
    remedy="record what is commanded; or take the state of the next step as the action",
    severity="fault",
)

RECORD_CODES = (
    CLOCK_BACKWARDS, SINGLE_STEP, FRAME_COUNT, NO_INSTRUCTION, EMPTY_INSTRUCTION, IMPOSSIBLE_LENGTH,
    MISSING_CAMERA, ACTION_IS_STATE,
)  # fmt: skip


STALE_STATISTICS = CheckCode(
    code="A060",
    name="stale-statistics",
    meaning="stored statistics of a column are not those of its rows",
    size_unit="episodes",
    remedy="compute the statistics again, as after every merge or deletion of episodes",
    severity="fault",
)
MODALITY_KEY = CheckCode(
    code="A061",
    name="modality-key",
    meaning="modality.json names a column that is not there, or dimensions that it does not have",
    size_unit="dimensions",
    remedy="correct the part in modality.json",
    severity="fault",
)
WRONG_TOTAL = CheckCode(
    code="A062",
    name="wrong-total",
    meaning="a total of info.json, or a statistic of row numbers, is not that of the rows, episodes or tasks",
    size_unit="count",
    remedy="count them again; check whether files are missing",
)
INDEX_GAP = CheckCode(
    code="A063",
    name="index-gap",
    meaning="numbers of rows, frames or episodes have gaps or repeats, or a range of rows is another one",
    size_unit="numbers",
    remedy="number the rows again; check whether rows are missing",
    severity="fault",
)
UNKNOWN_TASK = CheckCode(
    code="A064",
    name="unknown-task",
    meaning="rows have a number of a task that the list of tasks does not have",
    size_unit="tasks",
    remedy="add the task to the list of tasks, or correct the number",
    severity="fault",
)
WRONG_SPLIT = CheckCode(
    code="A065",
    name="wrong-split",
    meaning="a split names episodes that are not there, or that another split has",
    size_unit="episodes",
    remedy="correct splits in info.json",
)

TRAINER_CODES = (
    STALE_STATISTICS, MODALITY_KEY, WRONG_TOTAL, INDEX_GAP, UNKNOWN_TASK, WRONG_SPLIT,
)  # fmt: skip


BLUR = CheckCode(
    code="A030",
    name="video-blur",
    meaning="the picture loses its detail for a time, or in one episode",
    size_unit="s",
    remedy="check the focus and the lens; cut the span out",
)
OVEREXPOSED = CheckCode(
    code="A031",
    name="video-overexposed",
    meaning="the picture is much brighter than usual and loses its light parts",
    size_unit="stops",
    remedy="fix the exposure of the camera; cut the span out",
)
UNDEREXPOSED = CheckCode(
    code="A032",
    name="video-underexposed",
    meaning="the picture is much darker than usual",
    size_unit="stops",
    remedy="fix the exposure and the light; cut the span out",
)
BLACK = CheckCode(
    code="A033",
    name="video-black",
    meaning="frames are black",
    size_unit="s",
    remedy="check the camera and its cable; leave the camera or the span out",
    severity="fault",
)
FROZEN = CheckCode(
    code="A034",
    name="video-frozen",
    meaning="the picture stands still for half a second or longer while the robot or the scene moves",
    size_unit="s",
    remedy="check the camera and the load of the recorder; cut the span out",
)
REPEATED_FRAMES = CheckCode(
    code="A035",
    name="repeated-frames",
    meaning="frames are shown again for less than half a second while the robot or the scene moves",
    size_unit="s",
    remedy="check the rate of the camera and the load of the recorder",
)
DROPPED_FRAMES = CheckCode(
    code="A036",
    name="dropped-frames",
    meaning="frames are missing: the stamps of the frames have a gap",
    size_unit="s",
    remedy="split the episode there, by a set of spans (docs/export.md); check the load of the recorder",
)
COLOUR_ORDER = CheckCode(
    code="A037",
    name="colour-order",
    meaning="red and blue are swapped against the other episodes of the camera",
    size_unit="times nearer when swapped",
    remedy="swap the channels back; check the colour order of the recorder (OpenCV has BGR)",
)
SWAPPED_CAMERAS = CheckCode(
    code="A038",
    name="swapped-cameras",
    meaning="a camera shows what another camera shows in the other episodes",
    size_unit="times nearer to the other camera",
    remedy="rename the cameras of the episode; bind cameras to ports or serial numbers",
)
COMPRESSION_DAMAGE = CheckCode(
    code="A039",
    name="compression-damage",
    meaning="the video cannot be decoded in places, or shows blocks",
    size_unit="s",
    remedy="copy the file again from its origin; cut the span out",
    severity="fault",
)
VIDEO_LENGTH = CheckCode(
    code="A040",
    name="video-length",
    meaning="the video is shorter or longer than the signals",
    size_unit="s",
    remedy="check when the recorder starts and stops each stream; trim the longer one",
    severity="fault",
)
VIDEO_LAG = CheckCode(
    code="A041",
    name="video-lag",
    meaning="the video shows the motion of the robot earlier or later than its state says",
    size_unit="s",
    remedy="shift the video by the lag; stamp frames when they are taken",
)
CAMERA_RATE = CheckCode(
    code="A044",
    name="camera-rate",
    meaning="the camera delivers fewer pictures than the video has frames: every second or third frame is a repeat",
    size_unit="share of frames",
    remedy="record at the rate of the camera; check its exposure time and its connection",
)

VIDEO_CODES = (
    BLUR, OVEREXPOSED, UNDEREXPOSED, BLACK, FROZEN, REPEATED_FRAMES, DROPPED_FRAMES, COLOUR_ORDER, SWAPPED_CAMERAS,
    COMPRESSION_DAMAGE, VIDEO_LENGTH, VIDEO_LAG, CAMERA_RATE,
)  # fmt: skip


UNUSED_FRAMES = CheckCode(
    code="A045",
    name="unused-frames",
    meaning="a video that episodes share has frames that belong to none of them",
    size_unit="frames",
    remedy="check whether the spans of the episodes are right; a take may have been discarded and not cut out",
)
LATE_FRAMES = CheckCode(
    code="A046",
    name="late-frames",
    meaning="the first frame is the last one of the episode before",
    size_unit="frames",
    remedy="shift the span of the episode in its video by one frame",
    severity="fault",
)

# Codes of the files that episodes share.
FILE_CODES = (UNUSED_FRAMES, LATE_FRAMES)


__all__ = ["CODES", "CheckCode", "Severity"]

NOT_FINITE = CheckCode(
    code="A001",
    name="not-finite",
    meaning="values are NaN or infinite",
    size_unit="steps",
    remedy="remove the steps, or fill them in the recorder",
    severity="fault",
)
DEAD_CHANNEL = CheckCode(
    code="A002",
    name="dead-channel",
    meaning="a dimension has one value, though it is commanded or moves in other episodes, or the whole signal has",
    size_unit="steps",
    remedy="check the encoder and its name in the recorder; leave the episode out",
    severity="fault",
)
STUCK = CheckCode(
    code="A003",
    name="stuck",
    meaning="a dimension repeats one value for a time while it should move",
    size_unit="s",
    remedy="check the bus and the encoder at that second; cut the span out",
    severity="fault",
)
SPIKE = CheckCode(
    code="A004",
    name="spike",
    meaning="single values lie far from those before and after",
    size_unit="value",
    remedy="filter the value, or remove the step",
    severity="fault",
)
QUANTISED = CheckCode(
    code="A005",
    name="quantised",
    meaning="values lie on a coarse grid",
    size_unit="value",
    remedy="record with more digits",
    severity="fault",
)
SATURATED = CheckCode(
    code="A006",
    name="saturated",
    meaning="a dimension is cut off at a limit while it moves",
    size_unit="share of steps",
    remedy="check the limits of the recorder and of the controller",
)
WRAP_AROUND = CheckCode(
    code="A007",
    name="wrap-around",
    meaning="an angle jumps by a whole turn",
    size_unit="jumps",
    remedy="unwrap the angle before training",
    severity="fault",
)
CHATTER = CheckCode(
    code="A009",
    name="chatter",
    meaning="a dimension jumps to and fro at every step",
    size_unit="value",
    remedy="check the controller and the bus; filter the signal",
    severity="fault",
)
IDLE_START = CheckCode(
    code="A010",
    name="idle-start",
    meaning="nothing moves at the start",
    size_unit="s",
    remedy="cut the start off: ares export SET DEST --options '{trim_idle: 0.5}'",
)
IDLE_END = CheckCode(
    code="A011",
    name="idle-end",
    meaning="nothing moves at the end",
    size_unit="s",
    remedy="cut the end off: ares export SET DEST --options '{trim_idle: 0.5}'",
)
ACTION_LAG = CheckCode(
    code="A012",
    name="action-lag",
    meaning="the state follows the action earlier or later than in other episodes, or than a robot can",
    size_unit="s",
    remedy="shift the actions by the lag; check how the recorder pairs actions and states",
    severity="fault",
)
SIGN_FLIP = CheckCode(
    code="A013",
    name="sign-flip",
    meaning="a dimension moves against its command, or a gripper has the opposite one of its task",
    size_unit="correlation",
    remedy="turn the sign of the dimension in the action or in the state",
    severity="fault",
)
GAIN = CheckCode(
    code="A014",
    name="gain",
    meaning="a dimension moves by another factor of its command than in other episodes",
    size_unit="factor",
    remedy="check the scale of the action; convert the episodes to one scale",
)
UNIT_CLASH = CheckCode(
    code="A015",
    name="unit-clash",
    meaning="an episode has degrees where the others have radians, or the other way round",
    size_unit="factor",
    remedy="convert the episodes to one unit",
    severity="fault",
)
DROPPED_STEPS = CheckCode(
    code="A016",
    name="dropped-steps",
    meaning="steps are missing: all dimensions jump ahead at once, or the stamps have a gap",
    size_unit="s",
    remedy="split the episode there, by a set of spans (docs/export.md); check the load of the recorder",
)
REPEATED_STEPS = CheckCode(
    code="A017",
    name="repeated-steps",
    meaning="whole steps are repeated without any noise while the robot moves",
    size_unit="s",
    remedy="remove the repeated steps; check the rate of the source",
    severity="fault",
)
CLOCK_RATE = CheckCode(
    code="A018",
    name="clock-rate",
    meaning="the stamps have another rate than the dataset claims",
    size_unit="Hz",
    remedy="give the true rate with --rate, or correct the metadata",
    severity="fault",
)
OFFSET = CheckCode(
    code="A019",
    name="offset",
    meaning="a dimension is off by a constant, against its command, the other episodes or the steps before",
    size_unit="value",
    remedy="calibrate the joint; take the offset away, or leave the episode out",
    severity="fault",
)
STALE_VALUES = CheckCode(
    code="A020",
    name="held-samples",
    meaning="readings are stale: a value is held for several steps while the robot moves",
    size_unit="steps for each value",
    remedy="check the rate at which the recorder reads the robot; keep the steps with new values",
    severity="fault",
)
CLOCK_JITTER = CheckCode(
    code="A021",
    name="clock-jitter",
    meaning="the periods between stamps spread more than in other episodes, or by a seventh of the period",
    size_unit="share of the period",
    remedy="stamp values when they are read, and not when they are written; or number the steps at the true rate",
    severity="fault",
)
TURNED = CheckCode(
    code="A022",
    name="turned-convention",
    meaning="a sign, or the open end of a gripper, is the other way round than in the other episodes",
    size_unit="share of the episodes that differ",
    remedy="find out which convention is right; turn the dimension in state and action of the others",
    severity="fault",
)
TURNED_MOTION = CheckCode(
    code="A023",
    name="turned-motion",
    meaning="a dimension moves to the other side than in the other episodes of its task, from a start between them",
    size_unit="share of the episodes that differ",
    remedy="look whether these episodes are of another place; else turn the sign in state and action",
)

CODES = {
    code.code: code
    for code in (
        NOT_FINITE, DEAD_CHANNEL, STUCK, SPIKE, QUANTISED, SATURATED, WRAP_AROUND, CHATTER, IDLE_START,
        IDLE_END, ACTION_LAG, SIGN_FLIP, GAIN, UNIT_CLASH, DROPPED_STEPS, REPEATED_STEPS, CLOCK_RATE,
        OFFSET, STALE_VALUES, CLOCK_JITTER, TURNED, TURNED_MOTION,
        *VIDEO_CODES, *FILE_CODES, *RECORD_CODES, *TRAINER_CODES,
    )
}  # fmt: skip
