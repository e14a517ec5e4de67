"""How the parts that judges measure become one probability of success."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ares.annotation import Cost, short_hash
from ares.episode import Camera, Json
from ares.errors import AresError, RequestError, SourceError
from ares.input import parse_yaml
from ares_annotators.base import PaidFailure, Subject, Work
from ares_annotators.models import FrameJudge


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An episode to judge.

    Attributes:
        work: Its frames and signals; no judge may read `work.episode.success`.
        task: What was to be done: the instruction, or what the caption says where there is none.
    """

    work: Work
    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeParts:
    """What a judge measured of an attempt.

    Attributes:
        parts: Values by the name of the part; a part that could not be measured is left out.
        evidence: Camera and second of the frames that the judge rests on.
        details: What else is stored for people: criteria, observation, replies.
        cost: What it cost, whenever it was paid.
        paid: What was paid for it now.
    """

    parts: Mapping[str, float]
    evidence: Sequence[tuple[str, float]]
    details: Mapping[str, Json] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    paid: Cost = field(default_factory=Cost)


class OutcomeJudge(FrameJudge, Protocol):
    """A model that says how an attempt ended."""

    @property
    def warnings(self) -> Sequence[str]:
        """What it cannot do, for the start of a run."""

    def judge(self, attempts: Sequence[Attempt]) -> Sequence[OutcomeParts | PaidFailure | AresError]:
        """One result per attempt."""

    def estimate(self, subject: Subject) -> Cost:
        """Expected cost of one attempt."""


def choose_judged_cameras(subject: Subject, name: str) -> list[Camera]:
    """Every good camera, or the one of that name."""
    return [camera for camera in subject.episode.good_cameras if not name or camera.name == name]


# A part that lies further from its centre, in scales, counts as this far: no single part decides alone.
_MOST_SCALES = 4.0
_LEAST_PART_PROBABILITY = 0.01
SIGNAL_DISTANCE = "signal_distance"
# Share of the tasks of other scenes that fit the frames worse than the task does. A model that tells them no better
# apart than this knows neither the scene nor how it looks when the task is done; chance reaches it once in 20 times.
TASK_RECOGNISED = "task_recognised"
MIN_TASK_RECOGNISED = 0.95
# A part with one of these beginnings says how the episode ended; without any the verdict is unsure.
OUTCOME_PREFIX, CAPTION_PREFIX = "outcome_", "caption_"

SuccessVerdict = Literal["success", "failure", "unsure"]


class _CombinationModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class PartWeight(_CombinationModel):
    """The weight of one part.

    Attributes:
        centre: Value that says nothing.
        scale: Unit of the part.
        weight: Log-odds of success per scale above the centre.
        form: "linear", or "log_odds" for a part that is a probability.
    """

    centre: float = 0.0
    scale: float = Field(default=1.0, gt=0)
    weight: float
    form: Literal["linear", "log_odds"] = "linear"

    def log_odds(self, value: float) -> float:
        """What a value adds to the log-odds of success."""
        if self.form == "log_odds":
            bounded = min(max(value, _LEAST_PART_PROBABILITY), 1 - _LEAST_PART_PROBABILITY)
            return self.weight * math.log(bounded / (1 - bounded))
        return self.weight * max(-_MOST_SCALES, min(_MOST_SCALES, (value - self.centre) / self.scale))


class TypicalSuccessValue(_CombinationModel):
    """The value of a signal that is typical of successes.

    Attributes:
        centre: Its median.
        scale: Its standard deviation.
    """

    centre: float
    scale: float = Field(gt=0)


class Combination(_CombinationModel):
    """A combination of parts.

    Attributes:
        id: Its name.
        version: Its version.
        notes: Where the numbers come from; not part of the hash.
        fitted_for: Start of the name of the model whose parts it was fitted to, or "" where it was fitted to no labels.
        intercept: Log-odds of success where every part says nothing.
        typical: Values of signals that are typical of successes. How far an episode is from them, in scales (root mean
            square), is the part "signal_distance": failures of every kind are unusual, each in another way.
        parts: Weights by the name of the part; a part without weight is stored, and counts nothing.
        failure_below: A probability below this is a failure.
        success_from: A probability from this on is a success; between the two nothing is decided.
    """

    id: str
    version: str
    notes: str = ""
    fitted_for: str = ""
    intercept: float = 0.0
    typical: dict[str, TypicalSuccessValue] = {}
    parts: dict[str, PartWeight] = Field(min_length=1)
    failure_below: float = Field(ge=0, le=1)
    success_from: float = Field(ge=0, le=1)

    @model_validator(mode="after")
    def _check_order(self) -> Combination:
        if self.failure_below > self.success_from:
            raise ValueError(f"failure_below {self.failure_below} is above success_from {self.success_from}")
        return self

    @property
    def hash(self) -> str:
        """16 hex digits over everything but the notes."""
        return short_hash(self.model_dump(mode="json", exclude={"notes"}))

    def add_distance(self, parts: Mapping[str, float]) -> dict[str, float]:
        """The parts with "signal_distance", where there is a signal of which a typical value is known."""
        squares = [
            min(_MOST_SCALES, abs(parts[name] - usual.centre) / usual.scale) ** 2
            for name, usual in self.typical.items()
            if name in parts
        ]
        return {
            **parts,
            **({SIGNAL_DISTANCE: math.sqrt(sum(squares) / len(squares))} if squares else {}),
        }

    def contributions(self, parts: Mapping[str, float]) -> dict[str, float]:
        """What each part adds to the log-odds of success; a part that is missing adds nothing."""
        values = self.add_distance(parts)
        return {name: weight.log_odds(values[name]) for name, weight in self.parts.items() if name in values}

    def probability(self, parts: Mapping[str, float]) -> float:
        """Probability of success."""
        return 1.0 / (1.0 + math.exp(-self.intercept - sum(self.contributions(parts).values())))

    def verdict(self, parts: Mapping[str, float]) -> SuccessVerdict:
        """The verdict; "unsure" too where no part says how the episode ended, or the judge does not know the task."""
        if parts.get(TASK_RECOGNISED, 1.0) < MIN_TASK_RECOGNISED:
            return "unsure"
        prefixes = (OUTCOME_PREFIX, CAPTION_PREFIX)
        if not any(name.startswith(prefixes) for name in self.contributions(parts)):
            return "unsure"
        return choose_success_verdict(self.probability(parts), self.failure_below, self.success_from)


def choose_success_verdict(probability: float, failure_below: float, success_from: float) -> SuccessVerdict:
    """The verdict on a probability of success; "unsure" between the two thresholds."""
    if probability >= success_from:
        return "success"
    return "failure" if probability < failure_below else "unsure"


def load_success_combination(name: str) -> Combination:
    """A shipped combination ("clip", "model"), or one in a YAML file. Raises RequestError for anything else."""
    folder = files("ares_annotators.success").joinpath("combinations")
    names = sorted(file.name[:-5] for file in folder.iterdir() if file.name.endswith(".yaml"))
    if name in names:
        return _parse_combination(folder.joinpath(f"{name}.yaml").read_text(encoding="utf-8"), name)
    if not name.endswith((".yaml", ".yml")):
        raise RequestError(f"no combination {name!r}", f"there are: {', '.join(names)}; or give a YAML file")
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError("combination cannot be read", f"{name}: {error}") from None
    return _parse_combination(text, name)


def _parse_combination(text: str, name: str) -> Combination:
    try:
        return Combination.model_validate(parse_yaml(text, name))
    except SourceError as error:
        raise RequestError("combination is no YAML", str(error)) from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the file"
        raise RequestError("combination is wrong", f"{name}: {field}: {first['msg']}") from None
