"""Fits how parts of success are combined, and reads the parts that robot signals give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from annotators.success.combination import SIGNAL_DISTANCE, Combination, PartWeight, TypicalSuccessValue
from ares.console import count_of
from ares.errors import RequestError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Signal, Trajectory


# Their distance from typical values of successes is the part `signal_distance`, see `Combination`.
SIGNAL_PARTS = ("end_speed", "end_effort", "action_jumps")
_FEWEST_STEPS = 8
# Share of the steps that counts as the end of an episode.
_END_SHARE = 0.2
_LEAST_RANGE = 1e-9


def measure_success_signals(trajectory: Trajectory | None) -> dict[str, float]:
    """Parts without unit, so that robots and rates can be compared; none for an episode without signals.

    - `end_speed`: speed of the state at the end, over its mean.
    - `end_effort`: size of the actions at the end, over its mean.
    - `action_jumps`: mean change of the actions, over their standard deviation.
    """
    if trajectory is None:
        return {}
    state, action = _finite_values(trajectory.state), _finite_values(trajectory.action)
    return {
        **({} if state is None else _state_parts(state)),
        **({} if action is None else _action_parts(action)),
    }


def _finite_values(signal: Signal | None) -> NDArray[np.float64] | None:
    """(T, D) values of the dimensions that vary; None where they are not finite, too short, or all constant."""
    import numpy as np

    if signal is None or len(signal.values) < _FEWEST_STEPS or not np.isfinite(signal.values).all():
        return None
    values = signal.values.astype(np.float64)
    values = values[:, np.ptp(values, axis=0) > _LEAST_RANGE]
    return values if values.shape[1] else None


def _state_parts(state: NDArray[np.float64]) -> dict[str, float]:
    import numpy as np

    scaled = (state - state.min(axis=0)) / np.ptp(state, axis=0)
    speed = np.linalg.norm(np.diff(scaled, axis=0), axis=1)
    end = max(1, round(_END_SHARE * len(speed)))
    return {"end_speed": float(speed[-end:].mean() / speed.mean())}


def _action_parts(action: NDArray[np.float64]) -> dict[str, float]:
    import numpy as np

    size = np.abs(action).mean(axis=1)
    end = max(1, round(_END_SHARE * len(size)))
    jumps = np.abs(np.diff(action, axis=0)).mean(axis=0) / action.std(axis=0)
    return {
        "end_effort": float(size[-end:].mean() / max(size.mean(), _LEAST_RANGE)),
        "action_jumps": float(jumps.mean()),
    }


# Penalty on the squared weights, in units of one episode: a part must earn its weight.
_PENALTY = 3.0
_STEPS = 50
_FOLDS = 5
_LEAST_SCALE = 1e-6
_FEWEST_EXAMPLES = 8
# Of the verdicts "success" at least this share must be right on the labelled episodes, and of "failure" the same.
_PRECISION = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A labelled episode.

    Attributes:
        parts: Values by the name of the part.
        success: Its label.
        group: Episodes of one group, such as a task, are never divided between fitting and judging.
    """

    parts: Mapping[str, float]
    success: bool
    group: str


def fit_combination(examples: Sequence[Example], *, fitted_for: str = "") -> Combination:
    """Weights by logistic regression in which successes and failures count the same.

    Signals enter by their distance from successes alone, so that a failure of a kind that is not among the examples
    counts as one too.

    Args:
        examples: Labelled episodes.
        fitted_for: Name of the model.

    Raises:
        RequestError: There are fewer than eight successes or eight failures.
    """
    successes = sum(example.success for example in examples)
    failures = len(examples) - successes
    if min(successes, failures) < _FEWEST_EXAMPLES:
        raise RequestError(
            "too few labelled episodes to fit a combination",
            f"{count_of(successes, 'success', 'successes')} and {count_of(failures, 'failure')}, where one part of the "
            f"tasks is set aside; at least {_FEWEST_EXAMPLES} of each are needed",
        )
    names = sorted(
        {name for example in examples for name in example.parts} - {*SIGNAL_PARTS, SIGNAL_DISTANCE}
    )
    combination = Combination(
        id="fitted",
        version="1.0.0",
        fitted_for=fitted_for,
        typical=_typical_values(examples),
        parts={name: PartWeight(weight=1.0) for name in [*names, SIGNAL_DISTANCE]},
        failure_below=0.5,
        success_from=0.5,
    )
    rows = [combination.add_distance(example.parts) for example in examples]
    scales = {
        name: scale for name in combination.parts if (scale := _part_scale(rows, examples, name)) is not None
    }
    weights = _fit_weights(_design_matrix(rows, scales), [example.success for example in examples])
    parts = {
        name: scale.model_copy(update={"weight": round(float(weight), 4)})
        for (name, scale), weight in zip(scales.items(), weights[1:], strict=True)
    }
    return combination.model_copy(update={"intercept": round(float(weights[0]), 4), "parts": parts})


def fit_verdict_thresholds(combination: Combination, examples: Sequence[Example]) -> Combination:
    """The combination with the widest verdicts that are right for 95 % of some labelled episodes.

    These should be other episodes than those of the fit. Where no threshold is that good, nothing is decided.

    Args:
        combination: The combination.
        examples: Labelled episodes.
    """
    scored = [(combination.probability(example.parts), example.success) for example in examples]
    return choose_verdict_thresholds(combination, scored)


def choose_verdict_thresholds(combination: Combination, scored: Sequence[tuple[float, bool]]) -> Combination:
    """As `fit_verdict_thresholds`, from probabilities with labels."""
    success_from = _lowest_precise_score(scored)
    failure_from = _lowest_precise_score([(1 - probability, not success) for probability, success in scored])
    failure_below = min(1 - failure_from, success_from)
    return combination.model_copy(
        update={"success_from": round(success_from, 4), "failure_below": round(failure_below, 4)}
    )


def fit_with_cross_validation(
    examples: Sequence[Example], fitted_for: str = ""
) -> tuple[Combination, list[Combination]]:
    """A combination of all examples, and for each example one that saw no episode of its group.

    The groups are divided in five parts; thresholds come from a fifth that the weights did not see.

    Args:
        examples: Labelled episodes of at least two groups.
        fitted_for: Name of the model.

    Raises:
        RequestError: There are too few examples of either outcome.
    """
    groups = sorted({example.group for example in examples})
    folds = min(_FOLDS, len(groups))
    fold_of = {group: index % folds for index, group in enumerate(groups)}

    def fit_without(fold: int) -> Combination:
        rest = [example for example in examples if fold_of[example.group] != fold]
        return _fit_with_thresholds(rest, fitted_for)

    by_fold = [fit_without(fold) for fold in range(folds)]
    return _fit_with_thresholds(examples, fitted_for), [by_fold[fold_of[e.group]] for e in examples]


def _fit_with_thresholds(examples: Sequence[Example], fitted_for: str) -> Combination:
    """Weights of all examples, and thresholds of probabilities by weights that did not see the example's group."""
    groups = sorted({example.group for example in examples})
    folds = min(_FOLDS, max(len(groups), 1))
    fold_of = {group: index % folds for index, group in enumerate(groups)}
    combination = fit_combination(examples, fitted_for=fitted_for)
    scored: list[tuple[float, bool]] = []
    for fold in range(folds):
        rest = [example for example in examples if fold_of[example.group] != fold or folds == 1]
        apart = fit_combination(rest, fitted_for=fitted_for)
        scored += [
            (apart.probability(example.parts), example.success)
            for example in examples
            if fold_of[example.group] == fold
        ]
    return choose_verdict_thresholds(combination, scored)


def _lowest_precise_score(scored: Sequence[tuple[float, bool]]) -> float:
    """The lowest score from which on enough of all that score as high, weighted to equal classes, are right."""
    right_total = max(sum(is_right for _, is_right in scored), 1)
    wrong_total = max(len(scored) - right_total, 1)
    right = wrong = 0.0
    best = 1.0
    ordered = sorted(scored, reverse=True)
    for (score, is_right), (next_score, _) in zip(ordered, [*ordered[1:], (-1.0, False)], strict=True):
        right += is_right / right_total
        wrong += (not is_right) / wrong_total
        # Equal scores have one verdict.
        if score > next_score and right >= _PRECISION * (right + wrong):
            best = score
    return best


def _typical_values(examples: Sequence[Example]) -> dict[str, TypicalSuccessValue]:
    """Median and standard deviation of each signal over the successes."""
    import numpy as np

    typical = {}
    for name in SIGNAL_PARTS:
        values = [example.parts[name] for example in examples if example.success and name in example.parts]
        if values:
            typical[name] = TypicalSuccessValue(
                centre=round(float(np.median(values)), 5),
                scale=max(round(float(np.std(values)), 5), _LEAST_SCALE),
            )
    return typical


def _part_scale(
    rows: Sequence[Mapping[str, float]], examples: Sequence[Example], name: str
) -> PartWeight | None:
    """Centre and scale of a part with a weight of 1, or None where not both outcomes have the part.

    The centre is half-way between the means of successes and failures, so that a missing part favours neither.
    """
    import numpy as np

    pairs = [(row[name], example.success) for row, example in zip(rows, examples, strict=True) if name in row]
    means = [
        np.mean([value for value, success in pairs if success is outcome])
        for outcome in (True, False)
        if any(success is outcome for _, success in pairs)
    ]
    if len(means) < 2:
        return None
    return PartWeight(
        centre=round(float(np.mean(means)), 5),
        scale=max(round(float(np.std([value for value, _ in pairs])), 5), _LEAST_SCALE),
        weight=1.0,
    )


def _design_matrix(
    rows: Sequence[Mapping[str, float]], scales: Mapping[str, PartWeight]
) -> NDArray[np.float64]:
    """(N, 1 + P) a one, then P parts of N episodes in scales from their centres; 0 for a missing one."""
    import numpy as np

    return np.asarray(
        [
            [1.0, *(scale.log_odds(row[name]) if name in row else 0.0 for name, scale in scales.items())]
            for row in rows
        ],
        np.float64,
    )


def _fit_weights(design: NDArray[np.float64], labels: Sequence[bool]) -> NDArray[np.float64]:
    """(1 + P,) intercept and weights that minimise the penalised log loss, by Newton's method."""
    import numpy as np

    truth = np.asarray(labels, np.float64)
    balance = np.where(truth > 0, 0.5 / truth.mean(), 0.5 / (1 - truth.mean()))
    penalty = np.diag([1e-6] + [_PENALTY] * (design.shape[1] - 1))
    weights = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        probability = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
        gradient = design.T @ (balance * (probability - truth)) + penalty @ weights
        curvature = (design * (balance * probability * (1 - probability))[:, None]).T @ design + penalty
        step = np.linalg.solve(curvature, gradient)
        weights = weights - step
        if float(np.abs(step).max()) < 1e-8:
            break
    return weights
