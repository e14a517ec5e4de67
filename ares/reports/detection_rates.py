"""Measures which faults the checks find, by planting catalogued faults into the user's own data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from ares.checks import (
    ACTION_LAG,
    ANGLES,
    CODES,
    DRIFT,
    GAIN,
    PLANTERS,
    RECORD_CODES,
    SIGN_FLIP,
    VIDEO_CODES,
    EpisodeCheck,
    FaultSite,
    Planter,
    check_metadata,
    check_signals,
    plant_action_spike,
    plant_clock_backwards,
    plant_clock_gap,
    plant_clock_jitter,
    plant_clock_of_two_epochs,
    plant_copied_dimension,
    plant_cut_short,
    plant_dead_action,
    plant_dead_state,
    plant_delta_action,
    plant_exchanged_dimensions,
    plant_halved_rate,
    plant_joint_in_degrees,
    plant_late_state,
    plant_noise,
    plant_not_finite_action,
    plant_not_finite_row,
    plant_offset,
    plant_stale_values,
    plant_state_as_action,
    plant_state_sign_flip,
)
from ares.episode import MISSING_CAMERAS
from ares.signals import DatasetStatistics, EpisodeSignals, EpisodeSignalSummary, summarise_signals
from ares.statistics import wilson_interval

if TYPE_CHECKING:
    import numpy as np

    from ares.episode import Episode, Json


MetadataPlanter = Callable[["Episode", "np.random.Generator"], "Episode | None"]
_PLACEHOLDERS = ("none", "null", "N/A", "unknown", "test", "123", "...", "todo")
_LOST_FRAMES = 3


def _plant_single_step(episode: Episode, rng: np.random.Generator) -> Episode:
    return replace(episode, num_steps=1)


def _plant_lost_frames(episode: Episode, rng: np.random.Generator) -> Episode | None:
    """Three frames fewer in a random camera that has a frame for each step."""
    if not episode.cameras:
        return None
    number = int(rng.integers(len(episode.cameras)))
    camera = episode.cameras[number]
    media = replace(camera.media, num_frames=max(1, camera.media.num_frames - _LOST_FRAMES))
    cameras = [*episode.cameras]
    cameras[number] = replace(camera, media=media)
    return replace(episode, cameras=tuple(cameras))


def _plant_no_instruction(episode: Episode, rng: np.random.Generator) -> Episode:
    return replace(episode, instruction="")


def _plant_placeholder_instruction(episode: Episode, rng: np.random.Generator) -> Episode:
    return replace(episode, instruction=str(rng.choice(_PLACEHOLDERS)))


def _plant_missing_camera(episode: Episode, rng: np.random.Generator) -> Episode | None:
    """A random camera is named, and has no pictures."""
    if not episode.cameras:
        return None
    lost = episode.cameras[int(rng.integers(len(episode.cameras)))]
    kept = tuple(camera for camera in episode.cameras if camera is not lost)
    return replace(episode, cameras=kept, metadata={**episode.metadata, MISSING_CAMERAS: [lost.name]})


METADATA_PLANTERS: Mapping[str, MetadataPlanter] = {
    "A051": _plant_single_step,
    "A052": _plant_lost_frames,
    "A053": _plant_no_instruction,
    "A054": _plant_placeholder_instruction,
    "A056": _plant_missing_camera,
}


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


def _make_further_fault(
    name: str,
    group: FaultGroup,
    code: str,
    size: tuple[float, str],
    planter: Planter,
    *,
    is_angle: bool = False,
    scales: bool = False,
) -> CataloguedFault:
    """A fault of a strength and its unit."""
    strength, unit = size
    return CataloguedFault(
        name=name,
        group=group,
        code=code,
        strength=strength,
        unit=unit,
        plant=planter,
        is_angle=is_angle,
        scales=scales,
    )


_FURTHER = (
    replace(
        _make_further_fault(
            "not-finite-row", "signals", "A001", (1, "steps in all dimensions"), plant_not_finite_row
        ),
        is_in_all_dimensions=True,
    ),
    _make_further_fault("not-finite-action", "signals", "A001", (1, "steps"), plant_not_finite_action),
    _make_further_fault("dead-state", "signals", "A002", (1, "signal"), plant_dead_state),
    _make_further_fault("dead-action", "signals", "A002", (1, "signal"), plant_dead_action),
    _make_further_fault(
        "spike-action", "signals", "A004", (0.2, "rad"), plant_action_spike, is_angle=True, scales=True
    ),
    _make_further_fault("offset", "signals", "A019", (0.3, "rad"), plant_offset, is_angle=True, scales=True),
    _make_further_fault(
        "noise", "signals", "", (0.05, "rad, deviation"), plant_noise, is_angle=True, scales=True
    ),
    _make_further_fault("copied-dimension", "signals", "", (1, "dimension"), plant_copied_dimension),
    _make_further_fault(
        "held-samples", "time", "A020", (3, "steps for each value"), plant_stale_values, scales=True
    ),
    _make_further_fault("late-state", "time", "A012", (0.2, "s"), plant_late_state, scales=True),
    _make_further_fault("clock-gap", "time", "A016", (0.5, "s"), plant_clock_gap, scales=True),
    _make_further_fault("clock-backwards", "time", "A050", (1, "steps"), plant_clock_backwards),
    _make_further_fault("clock-of-two-epochs", "time", "A055", (86_400, "s"), plant_clock_of_two_epochs),
    _make_further_fault(
        "clock-jitter", "time", "A021", (0.5, "of the period"), plant_clock_jitter, scales=True
    ),
    _make_further_fault("halved-rate", "time", "", (2, "times too few steps"), plant_halved_rate),
    _make_further_fault("cut-short", "time", "", (0.5, "of the steps lost"), plant_cut_short),
    _make_further_fault("sign-of-state", "meaning", "A013", (1, "sign"), plant_state_sign_flip),
    _make_further_fault("joint-in-degrees", "meaning", "A014", (57.2958, "times"), plant_joint_in_degrees),
    _make_further_fault("exchanged-dimensions", "meaning", "", (2, "dimensions"), plant_exchanged_dimensions),
    _make_further_fault("delta-among-absolute", "meaning", "", (1, "signal"), plant_delta_action),
    _make_further_fault("action-is-state", "meaning", "", (1, "signal"), plant_state_as_action),
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


# Multiples of the strength of a fault: 1 is that of the catalogue, at which a check must pass its bar.
MULTIPLES = (0.25, 0.5, 1.0, 2.0)
LOWEST_RECALL = 0.95
# Found by its code, and by any check; "unknown" where the data do not say the lag; None where there is no room.
Outcome = tuple[bool, bool] | Literal["unknown"] | None
PLANTINGS, _OTHER_PLANTINGS = 20, 5
# Checks that need a known lag.
NEED_LAG = frozenset(code.code for code in (DRIFT, ACTION_LAG, SIGN_FLIP, GAIN))
# Ranges of an arm joint beyond this are no radians.
_MOST_RADIANS = 7.0
_DEGREES = 180 / 3.141592653589793
_LEAST_MOTION = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRecall:
    """How often one fault was found.

    Attributes:
        fault: Name of the fault.
        group: What it concerns.
        code: Code that is to find it; "" for a fault that no check is made to find.
        strength: Strength and unit.
        planted: Faults planted at each multiple of the strength.
        hits: Those that the code found, in their dimension.
        seen: Those in which any check found something that it does not find without the fault.
        unknown: Further faults of the commands, planted where the data do not say the lag: no part of `planted`.
    """

    fault: str
    group: str
    code: str
    strength: str
    planted: dict[float, int] = field(default_factory=dict)
    hits: dict[float, int] = field(default_factory=dict)
    seen: dict[float, int] = field(default_factory=dict)
    unknown: dict[float, int] = field(default_factory=dict)

    @property
    def is_missed(self) -> bool:
        """Whether its check finds less than 95 % at the strength of the catalogue."""
        planted = self.planted.get(1.0, 0)
        return bool(self.code and planted and self.hits.get(1.0, 0) < LOWEST_RECALL * planted)

    def to_json(self) -> dict[str, Json]:
        """The counts as JSON, with the 95 % Wilson interval at the strength of the catalogue."""
        return {
            "fault": self.fault,
            "group": self.group,
            "code": self.code,
            "strength": self.strength,
            "interval": list(wilson_interval(self.hits.get(1.0, 0), self.planted.get(1.0, 0))),
            "curve": [
                {
                    "strength": m,
                    "planted": self.planted[m],
                    "hits": self.hits[m],
                    "seen": self.seen[m],
                    "unknown": self.unknown[m],
                }
                for m in sorted(self.planted)
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionRates:
    """What an audit says of one dataset.

    Attributes:
        seed: Seed of the random choices.
        num_episodes: Episodes that faults were planted into.
        unit: Unit that angles were taken to have.
        without_fault: Episodes with a finding before anything was planted, by code: false alarms, or true faults.
        recalls: One for each fault of the catalogue that could be planted.
        not_planted: Faults that the data have no room for, or that need pictures.
    """

    seed: int
    num_episodes: int
    unit: str
    without_fault: dict[str, int]
    recalls: tuple[FaultRecall, ...]
    not_planted: tuple[str, ...]

    @property
    def missed_codes(self) -> frozenset[str]:
        """Codes that miss their bar on the fault that they are named after."""
        return frozenset(
            recall.code
            for recall in self.recalls
            if recall.is_missed and recall.fault == CODES[recall.code].name
        )

    def to_json(self) -> dict[str, Json]:
        """The audit as JSON."""
        return {
            "seed": self.seed,
            "episodes": self.num_episodes,
            "unit": self.unit,
            "findings_without_fault": dict(self.without_fault),
            "faults": [recall.to_json() for recall in self.recalls],
            "not_planted": list(self.not_planted),
        }


@dataclass(slots=True, kw_only=True)
class _Auditor:
    """The episodes of one layout and their summaries, into which faults are planted one after the other."""

    episodes: Sequence[tuple[Episode, EpisodeSignals]]
    summaries: list[EpisodeSignalSummary | None]
    rng: np.random.Generator
    unit_scale: float
    cached: dict[int, frozenset[tuple[str, str]]] = field(default_factory=dict)

    def check(self, number: int, signals: EpisodeSignals) -> EpisodeCheck:
        """The check of a changed episode in place of the one of that number."""
        statistics = DatasetStatistics(state_names=signals.state_names, action_names=signals.action_names)
        for other, summary in enumerate(self.summaries):
            if other != number:
                statistics.add_summary(summary, signals.rate_hz)
        statistics.add(signals)
        return check_signals(signals, statistics.typical())

    def before(self, number: int) -> frozenset[tuple[str, str]]:
        """Code and dimension of what the checks find in an episode as it is."""
        if number not in self.cached:
            findings = self.check(number, self.episodes[number][1]).findings
            self.cached[number] = frozenset((finding.code, finding.dimension) for finding in findings)
        return self.cached[number]

    def plant(self, fault: CataloguedFault, multiple: float) -> Outcome:
        """Whether a random fault is found by its code, and by any check; None where there is no room for it."""
        number = int(self.rng.integers(len(self.episodes)))
        episode, signals = self.episodes[number]
        if fault.plant_metadata is not None:
            changed = fault.plant_metadata(episode, self.rng)
            if changed is None:
                return None
            codes = {finding.code for finding in check_metadata(changed)}
            return fault.code in codes, bool(codes - {finding.code for finding in check_metadata(episode)})
        return self._plant_signal(fault, multiple, number, signals)

    def _plant_signal(
        self, fault: CataloguedFault, multiple: float, number: int, signals: EpisodeSignals
    ) -> Outcome:
        dims = _moving_joints(signals, self.unit_scale)
        if fault.plant is None or not dims:
            return None
        dim = int(self.rng.choice(dims))
        name = signals.state_names[dim]
        strength = fault.strength * multiple * (self.unit_scale if fault.is_angle else 1.0)
        site = FaultSite(
            dim=dim,
            action_dim=signals.action_names.index(name),
            strength=strength,
            unit_scale=self.unit_scale,
        )
        changed = fault.plant(signals, site, self.rng)
        if changed is None or len(changed.state) < 10:
            return None
        # A dimension of the action may carry the finding of a fault of the state with its name.
        also = signals.state_names if fault.is_in_all_dimensions else ()
        expected = {(fault.code, at) for at in ("", name, *also)}
        before = self.before(number)
        if before & expected:  # finding it again would say nothing
            return None
        check = self.check(number, changed)
        if fault.code in NEED_LAG and check.lag.steps is None:
            return "unknown"
        after = {(f.code, f.dimension) for f in check.findings}
        return bool(after & expected), bool(after - before)


def _moving_joints(signals: EpisodeSignals, unit_scale: float) -> list[int]:
    """Arm joints that move by 0.3 rad and have a command of their name."""
    import numpy as np

    from ares.signals import classify_by_name

    kinds = classify_by_name(signals.state_names)
    return [
        int(dim)
        for dim in np.flatnonzero(np.ptp(signals.state, axis=0) > _LEAST_MOTION * unit_scale)
        if kinds[dim] == "arm" and signals.state_names[dim] in signals.action_names
    ]


def measure_detection_rates(episodes: Sequence[tuple[Episode, EpisodeSignals]], seed: int) -> DetectionRates:
    """Plant every fault of the catalogue into episodes of one dataset with the same dimensions.

    Args:
        episodes: At least two; episodes whose values are not finite are left out.
        seed: Seed of the random choices.
    """
    import numpy as np

    finite = [
        pair for pair in episodes if np.isfinite(pair[1].state).all() and np.isfinite(pair[1].action).all()
    ]
    unit_scale = _unit_scale([signals for _, signals in finite])
    auditor = _Auditor(
        episodes=finite,
        summaries=[summarise_signals(signals) for _, signals in finite],
        rng=np.random.default_rng(seed),
        unit_scale=unit_scale,
    )
    without_fault: Counter[str] = Counter()
    for number, (episode, _) in enumerate(finite):
        metadata = {finding.code for finding in check_metadata(episode)}
        without_fault.update({code for code, _ in auditor.before(number)} | metadata)
    recalls = [
        recall for fault in FAULTS.values() if (recall := _measure_fault_recall(auditor, fault)) is not None
    ]
    planted = {recall.fault for recall in recalls}
    return DetectionRates(
        seed=seed,
        num_episodes=len(finite),
        unit="degrees" if unit_scale != 1.0 else "radians",
        without_fault=dict(sorted(without_fault.items())),
        recalls=tuple(recalls),
        not_planted=tuple(name for name in FAULTS if name not in planted),
    )


def _unit_scale(episodes: Sequence[EpisodeSignals]) -> float:
    """Units of the signals per radian: ranges of several units are degrees."""
    import numpy as np

    ranges = [float(np.ptp(signals.state, axis=0).max(initial=0)) for signals in episodes]
    return _DEGREES if ranges and float(np.median(ranges)) > _MOST_RADIANS else 1.0


def _measure_fault_recall(auditor: _Auditor, fault: CataloguedFault) -> FaultRecall | None:
    """Counts at each multiple of the strength; None where the fault cannot be planted."""
    recall = FaultRecall(
        fault=fault.name,
        group=fault.group,
        code=fault.code,
        strength=f"{fault.strength:g} {fault.unit}",
    )
    for multiple in MULTIPLES if fault.scales else (1.0,):
        plantings = PLANTINGS if multiple == 1.0 else _OTHER_PLANTINGS
        every = list(_planting_outcomes(auditor, fault, multiple, plantings))
        outcomes = [outcome for outcome in every if outcome != "unknown"]
        if every:
            recall.unknown[multiple] = len(every) - len(outcomes)
            recall.planted[multiple] = len(outcomes)
            recall.hits[multiple] = sum(hit for hit, _ in outcomes)
            recall.seen[multiple] = sum(seen for _, seen in outcomes)
    return recall if recall.planted else None


def _planting_outcomes(
    auditor: _Auditor, fault: CataloguedFault, multiple: float, plantings: int
) -> Iterator[tuple[bool, bool] | Literal["unknown"]]:
    for _ in range(plantings):
        outcome = auditor.plant(fault, multiple)
        if outcome is not None:
            yield outcome


def format_share(hits: int, total: int) -> str:
    """A share with its 95 % Wilson interval."""
    low, high = wilson_interval(hits, total)
    return f"{hits}/{total} ({low:.2f}-{high:.2f})" if total else "none planted"
