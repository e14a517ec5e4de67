"""The codes of the checks that need one record alone: its clock, its metadata and its text.

Strengths are those of the planted faults, and were committed before the checks were scored.
"""

from __future__ import annotations

from ares.quality.code_definition import CheckCode

CLOCK_BACKWARDS = CheckCode(
    code="A050",
    name="clock-backwards",
    meaning="stamps repeat or run backwards",
    size_unit="steps",
    strength=1,
    strength_unit="steps",
    remedy="sort the steps by their stamps, or number them at the true rate",
    severity="fault",
)
SINGLE_STEP = CheckCode(
    code="A051",
    name="one-step",
    meaning="the episode has one step",
    size_unit="steps",
    strength=1,
    strength_unit="steps that are left",
    remedy="leave the episode out; check why the recording ended",
    severity="fault",
)
FRAME_COUNT = CheckCode(
    code="A052",
    name="frame-count",
    meaning="a camera has not one frame for each step",
    size_unit="frames",
    strength=3,
    strength_unit="frames",
    remedy="check where the recorder drops frames; pair frames and steps by their stamps",
    severity="fault",
)
NO_INSTRUCTION = CheckCode(
    code="A053",
    name="no-instruction",
    meaning="there is no instruction",
    size_unit="characters",
    strength=1,
    strength_unit="text that is lost",
    remedy="give the task in the metadata or in a spec, or caption the episode",
)
EMPTY_INSTRUCTION = CheckCode(
    code="A054",
    name="empty-instruction",
    meaning="the instruction is a placeholder that says nothing",
    size_unit="characters",
    strength=1,
    strength_unit="text that is replaced",
    remedy="give the task in the metadata or in a spec, or caption the episode",
)

RECORD_CODES = (CLOCK_BACKWARDS, SINGLE_STEP, FRAME_COUNT, NO_INSTRUCTION, EMPTY_INSTRUCTION)
