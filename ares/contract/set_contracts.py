"""Which contract the episodes of a set have for each layout of dimensions, and how one is converted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, cast

from ares.console import count_of
from ares.contract.comparison import COMPARED_EPISODES
from ares.contract.contracts import (
    NO_ESTIMATE,
    UNKNOWN,
    DatasetKey,
    MeaningContract,
    PropertyName,
    SignalContract,
    SignalName,
    StoredContracts,
    correct_contract,
    read_contracts,
)
from ares.contract.conversions import (
    GRIPPER_CONVENTIONS,
    GRIPPER_RANGES,
    GripperConvention,
    absolute_to_delta,
    convert_gripper,
    delta_to_absolute,
    gripper_convention,
    unit_factor,
)
from ares.contract.evidence import CONTRACT_EPISODES, pair_dimensions
from ares.contract.infer import infer_contracts
from ares.contract.rotations import WIDTHS, convert_rotation
from ares.contract.statements import CHANGE, PERMUTATION, SAME_AS, NamedConversion
from ares.episode import Episode, Signal, Trajectory
from ares.errors import RequestError, SourceError
from ares.store import TempDatabase, batched, ids_filter

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.store import Stores


_COLUMNS = ("episode_id", "format", "dataset", "version", "state_names", "action_names")
# Up to so many members their rows are read by id; more are selected in a scan of the table.
_READ_BY_ID = 5_000
_ID_ROWS = 100_000
# Episode ids are hashes: those of the lowest ids are a sample that nothing but chance selects.
_LAYOUTS = f"""
SELECT format, dataset, version, state_names, action_names, count(*) AS episodes,
       min(episode_id, {CONTRACT_EPISODES}) AS sample
FROM new_rows WHERE {{condition}} GROUP BY ALL
"""
_ORDERED = "SELECT * FROM layouts ORDER BY format, dataset, version, state_names, action_names"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutContract:
    """The contract of those members of a set that have one dataset and the same dimensions.

    Attributes:
        key: Their dataset.
        state_names: Names of the state's dimensions.
        action_names: Names of the action's dimensions.
        num_episodes: Number of the members.
        contract: What their signals mean; None where they have no signals that say anything.
        sample: Some of the members with their signals, where they were read.
    """

    key: DatasetKey
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    num_episodes: int
    contract: MeaningContract | None
    sample: Sequence[tuple[Episode, Trajectory]] = field(default=(), compare=False)


def find_contracts_of_episodes(
    stores: Stores, ids: Iterable[str], with_samples: bool = False
) -> list[LayoutContract]:
    """The contracts of some episodes, one for each dataset and combination of dimensions.

    Args:
        stores: Stores of the workspace.
        ids: Different ids of the episodes, streamed; those that the workspace does not have are ignored.
        with_samples: Whether some episodes of each are read, for a comparison of several.
    """
    stored: dict[DatasetKey, StoredContracts] = {}
    contracts: list[LayoutContract] = []
    rows = _layout_rows(stores, ids).to_pylist()
    for row in rows:
        key = DatasetKey(row["format"], row["dataset"], row["version"])
        if key not in stored:
            stored[key] = read_contracts(stores.annotations, key)
        layout = (tuple(row["state_names"] or ()), tuple(row["action_names"] or ()))
        contracts.append(
            LayoutContract(
                key=key,
                state_names=layout[0],
                action_names=layout[1],
                num_episodes=row["episodes"],
                contract=_find_or_infer_contract(stores, stored[key], key, layout, row["sample"]),
                sample=_read_sample(stores, row["sample"]) if with_samples and len(rows) > 1 else (),
            )
        )
    return contracts


def _find_or_infer_contract(
    stores: Stores,
    stored: StoredContracts,
    key: DatasetKey,
    layout: tuple[tuple[str, ...], tuple[str, ...]],
    sample: Sequence[str],
) -> MeaningContract | None:
    if not any(layout):
        return None
    known = stored.of_layout(*layout)
    if known is not None:
        return known
    inferred = infer_contracts(stores, key.dataset, sample)
    contract = next((c for c in inferred if (c.state_names, c.action_names) == layout), None)
    return None if contract is None else correct_contract(contract, stored.stated)


def _read_sample(stores: Stores, ids: Sequence[str]) -> list[tuple[Episode, Trajectory]]:
    trajectories = dict(stores.tables.trajectories.read(ids[:COMPARED_EPISODES]))
    episodes = stores.tables.episodes.get([id for id in ids if id in trajectories])
    return [(episode, trajectories[episode.episode_id]) for episode in episodes]


def _layout_rows(stores: Stores, ids: Iterable[str]) -> pa.Table:
    """Dataset and dimensions of the episodes, with their number and a sample of their ids; no row is kept."""
    rows, all_ids = stores.tables.episodes.snapshot(), iter(ids)
    first = list(islice(all_ids, _READ_BY_ID + 1))
    batches, condition = stores.tables.episodes.scan(_COLUMNS, ids_filter(first)), "true"
    with TempDatabase() as database:
        if len(first) > _READ_BY_ID:
            database.insert("ids", _id_schema(), _id_batches(chain(first, all_ids)))
            batches, condition = rows.reader(_COLUMNS), "episode_id IN (SELECT id FROM ids)"
        query = _LAYOUTS.format(condition=condition)
        database.insert_query("layouts", query, rows.schema(_COLUMNS), batches)
        return database.query(_ORDERED)


def _id_batches(ids: Iterable[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    return (pa.record_batch({"id": list(part)}, _id_schema()) for part in batched(ids, _ID_ROWS))


def _id_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema([("id", pa.string())])


if TYPE_CHECKING:
    Array = NDArray[np.float64]

# Values of an arm in radians that are so large, and so much larger than those of its dataset, are degrees.
_LARGEST_RADIANS, _LARGER = 30.0, 10.0
# Units first: the others are computed in the unit that is exported.
_ORDER = (CHANGE, PERMUTATION, "unit", "gripper", "rotation", "mode", "order", SAME_AS)


@dataclass(frozen=True, slots=True)
class ConversionStep:
    """One change of some dimensions of a signal.

    Attributes:
        signal: "state" or "action".
        numbers: Numbers of the dimensions.
        convert: Gives their new values (T, D), from the old ones and the first row (D,) of the paired state.
        starts: Numbers of the state's dimensions that are paired with them; () where they are not needed.
        reason: What is changed, in words.
    """

    signal: str
    numbers: tuple[int, ...]
    convert: Callable[[Array, Array], Array]
    starts: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class LayoutConversion:
    """What an export does with the episodes of one dataset and combination of dimensions.

    Attributes:
        layout: Their contract after the conversions.
        steps: The changes, in order.
        orders: New order of the names, by signal.
    """

    layout: LayoutContract
    steps: tuple[ConversionStep, ...] = ()
    orders: Mapping[str, tuple[str, ...]] | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """What is changed, in words."""
        names = (
            f"{signal} of {self.layout.key.dataset}: other order of the dimensions"
            for signal in self.orders or {}
        )
        return (*(step.reason for step in self.steps), *names)

    def apply(self, episode: Episode, trajectory: Trajectory) -> tuple[Episode, Trajectory]:
        """The episode as it is exported. Raises SourceError for one that is in another unit than its dataset."""
        _check_size(self.layout, episode, trajectory)
        signals = {"state": trajectory.state, "action": trajectory.action}
        for step in self.steps:
            signals[step.signal] = _apply_step(step, signals[step.signal], signals["state"])
        for name, order in (self.orders or {}).items():
            signals[name] = _reorder_signal(signals[name], order)
        state, action = signals["state"], signals["action"]
        converted = replace(
            episode,
            state_names=state.names if state else (),
            action_names=action.names if action else (),
        )
        return converted, replace(trajectory, state=state, action=action)

    def try_apply(self, episode: Episode, trajectory: Trajectory) -> tuple[Episode, Trajectory] | None:
        """The same; None for an episode that fails."""
        try:
            return self.apply(episode, trajectory)
        except SourceError:
            return None


def _apply_step(step: ConversionStep, signal: Signal | None, state: Signal | None) -> Signal | None:
    import numpy as np

    if signal is None or not len(signal.values):
        return signal
    start = state.values[0, list(step.starts)] if state is not None else np.zeros(0)
    values, numbers = signal.values.copy(), list(step.numbers)
    converted = step.convert(values[:, numbers].astype(np.float64), start.astype(np.float64))
    values[:, numbers] = converted.astype(np.float32)
    return Signal(values, signal.names)


def _reorder_signal(signal: Signal | None, names: tuple[str, ...]) -> Signal | None:
    if signal is None:
        return None
    return Signal(signal.values[:, [signal.names.index(name) for name in names]], names)


def _check_size(layout: LayoutContract, episode: Episode, trajectory: Trajectory) -> None:
    """One episode in degrees within a dataset in radians is no part of an export, nor is an odd one."""
    import numpy as np

    if layout.contract is not None and episode.episode_id in layout.contract.outlier_episodes:
        raise SourceError(
            "the episode has another unit than its dataset",
            "values far beyond those of all others; see `ares check`",
        )
    for group in layout.contract.signals if layout.contract is not None else ():
        signal = trajectory.state if group.signal == "state" else trajectory.action
        if (
            group.kind != "arm"
            or group.estimate("unit").value != "rad"
            or signal is None
            or not len(signal.values)
        ):
            continue
        size = float(np.abs(signal.values[:, list(group.numbers)]).max())
        usual = max(abs(group.low), abs(group.high))
        if size > max(_LARGEST_RADIANS, _LARGER * usual):
            detail = f"{group.name}: up to {size:.4g}, in its dataset up to {usual:.4g} rad; `ares check` shows A015"
            raise SourceError("the episode has another unit than its dataset", detail)


def plan_layout_conversion(
    layout: LayoutContract,
    conversions: Sequence[NamedConversion],
    orders: Mapping[str, tuple[str, ...]],
) -> LayoutConversion:
    """What some named conversions do to the episodes of a layout.

    Args:
        layout: Dataset, dimensions and contract.
        conversions: The conversions; those of signals that it lacks do nothing.
        orders: New order of the names by signal, where it is not the present one.

    Raises:
        RequestError: A value to convert is not known, or cannot be converted.
    """
    contract, steps = layout.contract, list[ConversionStep]()
    for conversion in sorted(conversions, key=lambda conversion: _ORDER.index(conversion.aspect)):
        if contract is not None and conversion.aspect != "order" and applies(conversion, layout):
            contract, step = _convert_contract(contract, conversion)
            steps += [step] if step is not None else []
    converted = replace(
        layout,
        contract=contract,
        state_names=orders.get("state", layout.state_names),
        action_names=orders.get("action", layout.action_names),
    )
    planned = LayoutConversion(converted, tuple(steps), orders)
    if not (steps or orders):
        return planned
    sample = [pair for part in layout.sample if (pair := planned.try_apply(*part))]
    return replace(planned, layout=replace(converted, sample=sample))


def applies(conversion: NamedConversion, layout: LayoutContract) -> bool:
    """Whether a conversion is for the episodes of a layout.

    One that states the value before is for the datasets that have it or may have it; a person who names the dataset
    decides.
    """
    if conversion.dataset:
        return conversion.dataset == layout.key.dataset
    group = layout.contract.signal(conversion.signal) if layout.contract is not None else None
    if not conversion.source or group is None:
        return True
    source = GRIPPER_CONVENTIONS.get(conversion.source)
    stated: Mapping[PropertyName, str] = (
        {"unit": source[0], "gripper": _open_end(source[1])}
        if source
        else {cast("PropertyName", conversion.aspect): conversion.source}
    )
    candidates = ((group.estimate(name).candidates, value) for name, value in stated.items())
    return all(not values or value in values for values, value in candidates)


def _open_end(is_high_open: bool) -> str:
    return "high is open" if is_high_open else "high is closed"


def _convert_contract(
    contract: MeaningContract, conversion: NamedConversion
) -> tuple[MeaningContract, ConversionStep | None]:
    """The contract of a layout after one conversion, and the step; None where nothing changes."""
    if conversion.dimensions:
        return _convert_dimensions(contract, conversion)
    group = contract.signal(conversion.signal)
    if group is None:
        return contract, None
    if conversion.aspect == CHANGE:
        return _convert_dimensions(
            contract, replace(conversion, signal=group.signal, dimensions=group.dimensions)
        )
    if conversion.aspect == SAME_AS:
        return _with_group(contract, group, group.with_values({"same_as": conversion.target})), None
    if conversion.source:
        group = group.with_values(_stated_values(conversion))
    changed, step = _convert_group(contract, group, conversion)
    return _with_group(contract, group, changed), step


def _stated_values(conversion: NamedConversion) -> dict[PropertyName, str]:
    """What a person states that a group is before its conversion."""
    convention = GRIPPER_CONVENTIONS.get(conversion.source)
    if convention is not None:
        return {"unit": convention[0], "gripper": _open_end(convention[1])}
    return {cast("PropertyName", conversion.aspect): conversion.source}


def _with_group(contract: MeaningContract, old: SignalContract, new: SignalContract) -> MeaningContract:
    """The contract with another group in place of the one of this name."""
    signals = tuple(new if signal.name == old.name else signal for signal in contract.signals)
    return replace(contract, signals=signals)


def _convert_dimensions(
    contract: MeaningContract, conversion: NamedConversion
) -> tuple[MeaningContract, ConversionStep | None]:
    """Dimensions that get a factor and an offset, or the values of others."""
    names = contract.state_names if conversion.signal == "state" else contract.action_names
    present = [name for name in conversion.dimensions if name in names]
    if len(present) < len(conversion.dimensions):
        return contract, None
    signal = cast("SignalName", conversion.signal)
    numbers = tuple(names.index(name) for name in present)
    if conversion.aspect == PERMUTATION:
        order = list(range(len(names)))
        for number, source in zip(numbers, conversion.sources, strict=True):
            order[number] = names.index(source)
        permutation = [numbers.index(order[number]) for number in numbers]
        convert, words = (lambda values, start: values[:, permutation]), "values of each other"
    else:
        factor, offset = conversion.factor, conversion.offset
        convert, words = (
            (lambda values, start: values * factor + offset),
            f"times {factor:.6g} plus {offset:.6g}",
        )
    reason = f"{signal} of {contract.dataset}: {', '.join(present)}: {words}"
    signals = tuple(_after_change(part, signal, numbers, conversion) for part in contract.signals)
    contract = replace(contract, signals=signals)
    return contract, ConversionStep(signal, numbers, convert, (), reason)


def _after_change(
    group: SignalContract, signal: SignalName, numbers: Sequence[int], conversion: NamedConversion
) -> SignalContract:
    """A group whose unit is not known any more after a factor, and whose open end is the other after a turn."""
    if group.signal != signal or not set(group.numbers) & set(numbers) or conversion.aspect == PERMUTATION:
        return group
    estimates = dict(group.estimates)
    if abs(conversion.factor) != 1:
        estimates["unit"] = NO_ESTIMATE
    if conversion.factor < 0 and "gripper" in estimates:
        turned = {"high is open": "high is closed", "high is closed": "high is open"}
        candidates = tuple(turned[value] for value in estimates["gripper"].candidates)
        estimates["gripper"] = replace(estimates["gripper"], candidates=candidates)
    return replace(group, estimates=estimates, mixed_units=())


def _convert_group(
    contract: MeaningContract, group: SignalContract, conversion: NamedConversion
) -> tuple[SignalContract, ConversionStep | None]:
    """The contract of a group afterwards, and the step; None where it has the target already."""
    builders = {"unit": _unit_step, "gripper": _gripper_step, "rotation": _rotation_step, "mode": _mode_step}
    values, convert, source = builders[conversion.aspect](contract, group, conversion.target)
    if all(group.estimate(name).value == value for name, value in values.items()):
        return group, None
    starts = _paired_state(contract, group) if conversion.aspect == "mode" else ()
    stated = ", ".join(values.values())
    reason = f"{group.name} of {contract.dataset}: {stated}, from {source}"
    step = ConversionStep(group.signal, group.numbers, convert, starts, reason)
    return group.with_values(values), step


_Step = tuple[dict[PropertyName, str], "Callable[[Array, Array], Array]", str]


def _require_known_value(contract: MeaningContract, group: SignalContract, name: PropertyName) -> str:
    value = group.estimate(name).value
    if value == UNKNOWN or (name == "unit" and group.mixed_units):
        estimate = " and ".join(group.mixed_units) if group.mixed_units else str(group.estimate(name))
        raise RequestError(
            f"the {name} of {group.name} in {contract.dataset} is not known, so that it cannot be converted",
            f"it is {estimate}; state it under `contract:` in the spec of the dataset, and ingest it again",
        )
    return value


def _unit_step(contract: MeaningContract, group: SignalContract, target: str) -> _Step:
    source = _require_known_value(contract, group, "unit")
    factor = unit_factor(source, target)
    return {"unit": target}, lambda values, start: values * factor, source


def _gripper_step(contract: MeaningContract, group: SignalContract, target: str) -> _Step:
    unit, is_open = GRIPPER_CONVENTIONS[target]
    source_unit, end = (
        _require_known_value(contract, group, "unit"),
        _require_known_value(contract, group, "gripper"),
    )
    if source_unit in ("m", "mm"):  # the widest opening of the sample is open
        source = GripperConvention(0.0, group.high, is_high_open=True)
    elif source_unit in GRIPPER_RANGES:
        source = GripperConvention(*GRIPPER_RANGES[source_unit], end == "high is open")
    else:
        raise RequestError(
            f"{group.name} of {contract.dataset} is the angle of a motor, {source_unit}",
            "its open and closed angle are not known, so that it has no gripper convention",
        )
    goal = gripper_convention(target)
    values: dict[PropertyName, str] = {
        "unit": unit,
        "gripper": "high is open" if is_open else "high is closed",
    }
    return values, lambda part, start: convert_gripper(part, source, goal), f"{source_unit}, {end}"


def _rotation_step(contract: MeaningContract, group: SignalContract, target: str) -> _Step:
    source = _require_known_value(contract, group, "rotation")
    width = WIDTHS[source]
    if WIDTHS[target] != width:
        raise RequestError(
            f"{group.name} of {contract.dataset} is {source} with {count_of(width, 'number')}, "
            f"{target} has {WIDTHS[target]}",
            "an export keeps the number of dimensions",
        )
    if width == 3 and _require_known_value(contract, group, "unit") != "rad":
        raise RequestError(
            f"{group.name} of {contract.dataset} is not in radians", f"name --convert {group.name}=rad too"
        )

    def convert(values: Array, start: Array) -> Array:
        parts = values.reshape(len(values), -1, width)
        return convert_rotation(parts, source, target).reshape(values.shape)

    return {"rotation": target}, convert, source


def _mode_step(contract: MeaningContract, group: SignalContract, target: str) -> _Step:
    source, kind = _require_known_value(contract, group, "mode"), group.kind
    if source == target:
        return {"mode": target}, lambda values, start: values, source
    state = contract.signal(f"state.{kind}")
    if (
        kind not in ("arm", "position", "hand")
        or group.signal != "action"
        or state is None
        or source == "velocity"
    ):
        raise RequestError(
            f"{group.name} of {contract.dataset} cannot be converted from {source} to {target}",
            "actions of arms, hands and positions can, between absolute and delta",
        )
    factor = unit_factor(
        _require_known_value(contract, state, "unit"), _require_known_value(contract, group, "unit")
    )
    function = absolute_to_delta if target == "delta" else delta_to_absolute
    return {"mode": target}, lambda values, start: function(values, start * factor), source


def _paired_state(contract: MeaningContract, group: SignalContract) -> tuple[int, ...]:
    """Numbers of the state's dimensions that belong to those of an action. Raises RequestError where one has none."""
    states = {action: state for state, action in pair_dimensions(contract.state_names, contract.action_names)}
    if not all(number in states for number in group.numbers):
        raise RequestError(
            f"{group.name} of {contract.dataset} has dimensions without a state",
            "a change counts from the state at the start",
        )
    return tuple(states[number] for number in group.numbers)
