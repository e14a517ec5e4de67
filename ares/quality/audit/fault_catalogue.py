"""The catalogue of faults that audits plant: each with its strength, and the code that is to find it, if there is one.

The strengths are in physical units, and were committed before the checks were scored on them. The faults of videos are
planted by their own audit, since they need pictures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ares.quality.audit import signal_faults as signal
from ares.quality.audit.metadata_faults import METADATA_PLANTERS, MetadataPlanter
from ares.quality.audit.planted_faults import ANGLES, PLANTERS, Planter
from ares.quality.catalogue import CODES
from ares.quality.record import RECORD_CODES
from ares.quality.video import VIDEO_CODES

FaultGroup = Literal["signals", "time", "meaning", "metadata", "video"]
_TIME = frozenset(("A010", "A011", "A012", "A016", "A017", "A018"))
_MEANING = frozenset(("A013", "A014", "A015"))
# Faults that are there or not: half of a changed sign is none.
_UNSCALED = frozenset(("A001", "A002", "A007", "A013", "A014", "A015"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CataloguedFault:
    """One fault of the catalogue.

    Attributes:
        name: Stable name.
        group: What it concerns.
        code: Code of the check that is to find it; "" for a fault that no check is made to find.
        strength: Its size, in `unit`.
        unit: Unit of the strength.
        is_angle: Whether the strength is an angle, which is converted to the unit of the signal.
        scales: Whether it is planted at other strengths too.
        is_in_all_dimensions: Whether it is in every dimension of the state, so that a finding in any of them counts.
        plant: Plants it into signals; None for a fault of metadata or of video.
        plant_metadata: Plants it into metadata; None for any other.
    """

    name: str
    group: FaultGroup
    code: str
    strength: float
    unit: str
    is_angle: bool = False
    scales: bool = True
    is_in_all_dimensions: bool = False
    plant: Planter | None = None
    plant_metadata: MetadataPlanter | None = None


def _of_code(code: str, planter: Planter) -> CataloguedFault:
    check = CODES[code]
    group: FaultGroup = "time" if code in _TIME else "meaning" if code in _MEANING else "signals"
    return CataloguedFault(
        name=check.name,
        group=group,
        code=code,
        strength=float(check.strength),
        unit=check.strength_unit,
        is_angle=code in ANGLES,
        scales=code not in _UNSCALED,
        plant=planter,
    )


def _further(
    name: str,
    group: FaultGroup,
    code: str,
    strength: float,
    unit: str,
    planter: Planter,
    *,
    is_angle: bool = False,
    scales: bool = False,
    is_in_all_dimensions: bool = False,
) -> CataloguedFault:
    return CataloguedFault(
        name=name,
        group=group,
        code=code,
        strength=strength,
        unit=unit,
        plant=planter,
        is_angle=is_angle,
        scales=scales,
        is_in_all_dimensions=is_in_all_dimensions,
    )


_FURTHER = (
    _further(
        "not-finite-row",
        "signals",
        "A001",
        1,
        "steps in all dimensions",
        signal.not_finite_row,
        is_in_all_dimensions=True,
    ),
    _further("not-finite-action", "signals", "A001", 1, "steps", signal.not_finite_action),
    _further("dead-state", "signals", "A002", 1, "signal", signal.dead_state),
    _further("dead-action", "signals", "A002", 1, "signal", signal.dead_action),
    _further("spike-action", "signals", "", 0.2, "rad", signal.spike_action, is_angle=True, scales=True),
    _further("offset", "signals", "", 0.3, "rad", signal.offset, is_angle=True, scales=True),
    _further("noise", "signals", "", 0.05, "rad, deviation", signal.noise, is_angle=True, scales=True),
    _further("copied-dimension", "signals", "", 1, "dimension", signal.copied_dimension),
    _further("held-samples", "time", "", 3, "steps for each value", signal.slow_samples, scales=True),
    _further("late-state", "time", "A012", 0.2, "s", signal.late_state, scales=True),
    _further("clock-gap", "time", "A016", 0.5, "s", signal.clock_gap, scales=True),
    _further("clock-backwards", "time", "A050", 1, "steps", signal.clock_backwards),
    _further("clock-jitter", "time", "", 0.5, "of the period", signal.clock_jitter, scales=True),
    _further("halved-rate", "time", "", 2, "times too few steps", signal.halved_rate),
    _further("cut-short", "time", "", 0.5, "of the steps lost", signal.cut_short),
    _further("sign-of-state", "meaning", "A013", 1, "sign", signal.sign_of_state),
    _further("joint-in-degrees", "meaning", "A014", 57.2958, "times", signal.joint_in_degrees),
    _further("exchanged-dimensions", "meaning", "", 2, "dimensions", signal.exchanged_dimensions),
    _further("delta-among-absolute", "meaning", "", 1, "signal", signal.delta_action),
    _further("action-is-state", "meaning", "", 1, "signal", signal.action_is_state),
)
_METADATA = tuple(
    CataloguedFault(
        name=check.name,
        group="metadata",
        code=check.code,
        strength=check.strength,
        unit=check.strength_unit,
        scales=False,
        plant_metadata=METADATA_PLANTERS[check.code],
    )
    for check in RECORD_CODES
    if check.code in METADATA_PLANTERS
)
_VIDEO = tuple(
    CataloguedFault(
        name=check.name, group="video", code=check.code, strength=check.strength, unit=check.strength_unit
    )
    for check in VIDEO_CODES
)

FAULTS: Mapping[str, CataloguedFault] = {
    fault.name: fault
    for fault in (
        *(_of_code(code, planter) for code, planter in PLANTERS.items()),
        *_FURTHER,
        *_METADATA,
        *_VIDEO,
    )
}
