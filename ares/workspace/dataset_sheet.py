"""What ARES believes of one dataset, a line for each belief, with the key of a spec that corrects it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, cast

from ares.console import count_of
from ares.contract import (
    PROPERTIES,
    DatasetKey,
    SignalContract,
    StoredContracts,
    correct_contract,
    read_contracts,
)
from ares.errors import RequestError
from ares.store import quote_literal

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.episode import Json
    from ares.store import Stores

# Columns that are counted over all episodes; cameras are read of so many, since each is a separate record.
_COLUMNS = (
    "format", "version", "robot", "rate_hz", "rate_source", "claimed_rate_hz", "frame_pairing", "clock_shift_seconds",
    "instruction", "success", "success_source", "num_steps",
)  # fmt: skip
_CAMERA_EPISODES = 256
# Values of one line that are written out, the most frequent first.
_MOST_VALUES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetLine:
    """One thing that ARES believes of a dataset.

    Attributes:
        what: What it is of, such as "unit of state.arm".
        belief: What is believed.
        origin: What it was told by: values, names, a spec, the source.
        key: The key of a spec that corrects it, with an example of its value; or the option that does.
    """

    what: str
    belief: str
    origin: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSheet:
    """What ARES believes of one dataset.

    Attributes:
        dataset: Its name.
        episodes: Number of its episodes in the workspace.
        lines: One for each belief.
    """

    dataset: str
    episodes: int
    lines: tuple[SheetLine, ...]

    def to_json(self) -> dict[str, Json]:
        """The document of `ares show DATASET --json`."""
        return asdict(self)


def is_dataset(stores: Stores, name: str) -> bool:
    """Whether a workspace has episodes of a dataset of that name."""
    return bool(stores.tables.episodes.read_columns(["format"], _of_dataset(name), limit=1).num_rows)


def _of_dataset(name: str) -> str:
    return f"dataset = {quote_literal(name)}"


def describe_dataset(stores: Stores, name: str) -> DatasetSheet:
    """The sheet of a dataset. Raises RequestError for a name without episodes."""
    columns = stores.tables.episodes.read_columns(list(_COLUMNS), _of_dataset(name))
    if not columns.num_rows:
        raise RequestError(f"the workspace has no dataset {name!r}", "`ares status` lists the datasets")
    keys = sorted(set(zip(columns["format"].to_pylist(), columns["version"].to_pylist(), strict=True)))
    stored = [read_contracts(stores.annotations, DatasetKey(kind, name, version)) for kind, version in keys]
    lines = (
        *_source_lines(columns),
        *_licence_lines(stored),
        *_clock_lines(columns),
        *(line for contracts in stored for line in _signal_lines(contracts)),
        *_camera_lines(stores, name),
        *_label_lines(columns),
        *(line for contracts in stored for line in _lost_lines(contracts)),
    )
    return DatasetSheet(dataset=name, episodes=columns.num_rows, lines=tuple(lines))


def _most_frequent(column: pa.ChunkedArray, unit: str = "") -> str:
    """The values of a column with the number of episodes that have them, the most frequent first."""
    import pyarrow.compute as pc

    counts = Counter[str]()
    for row in pc.value_counts(column).to_pylist():
        value = _plain_value(row["values"])
        counts["none" if value == "none" else f"{value}{unit}"] += int(row["counts"])
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if len(ordered) == 1:
        return ordered[0][0]
    shown = ", ".join(f"{value} in {count}" for value, count in ordered[:_MOST_VALUES])
    return shown + (
        f" and {count_of(len(ordered) - _MOST_VALUES, 'more value')}" if len(ordered) > _MOST_VALUES else ""
    )


def _plain_value(value: Json) -> Json:
    if value is None or value == "":
        return "none"
    return f"{value:g}" if isinstance(value, float) else value


def _source_lines(columns: pa.Table) -> Iterator[SheetLine]:
    import pyarrow.compute as pc

    yield SheetLine(what="format", belief=_most_frequent(columns["format"]), origin="files", key="--format")
    yield SheetLine(what="robot", belief=_most_frequent(columns["robot"]), origin="source", key="robot: NAME")
    steps = columns["num_steps"]
    low, middle, high = (pc.min(steps).as_py(), pc.approximate_median(steps).as_py(), pc.max(steps).as_py())
    belief = f"{low} to {high}, median {middle:g}"
    yield SheetLine(what="steps of an episode", belief=belief, origin="source", key="episode_ends: KEY")


def _licence_lines(stored: Sequence[StoredContracts]) -> Iterator[SheetLine]:
    """What files or a spec state of licence and consent, each value with what states it; unknown is said."""
    for what, name in (("licence", "licences"), ("consent", "consents")):
        stated = [fact for part in stored for fact in cast("list[dict[str, str]]", part.source.get(name, []))]
        values = {fact["value"]: fact["origin"] for fact in stated}
        conflict = " (they differ)" if len(values) > 1 else ""
        belief = ", ".join(values) + conflict if values else "unknown"
        origin = ", ".join(dict.fromkeys(values.values())) or "nothing"
        yield SheetLine(what=what, belief=belief, origin=origin, key=f"{what}: TEXT")


def _clock_lines(columns: pa.Table) -> Iterator[SheetLine]:
    import pyarrow.compute as pc

    origin = _most_frequent(columns["rate_source"])
    rate = _most_frequent(pc.round(columns["rate_hz"], 2), " Hz")
    yield SheetLine(what="rate", belief=rate, origin=origin, key="rate_hz: NUMBER, or --rate")
    claimed = _most_frequent(columns["claimed_rate_hz"], " Hz")
    yield SheetLine(
        what="rate that the source claims", belief=claimed, origin="source", key="rate_hz: NUMBER"
    )
    shift = pc.max(columns["clock_shift_seconds"]).as_py() or 0.0
    even = "even" if shift < 1e-3 else f"uneven by up to {shift:.3f} s"
    yield SheetLine(what="clock", belief=even, origin="stamps", key="timestamps: KEY, time_unit: s|ms|us|ns")
    pairing = _most_frequent(columns["frame_pairing"])
    yield SheetLine(what="frames and steps paired by", belief=pairing, origin="format", key="timestamps: KEY")


def _signal_lines(stored: StoredContracts) -> Iterator[SheetLine]:
    """The names of the dimensions of each layout, and every property of each of their groups."""
    for contract in stored.contracts:
        for signal, names in (("state", contract.state_names), ("action", contract.action_names)):
            belief = f"{count_of(len(names), 'dimension')}: {', '.join(names)}" if names else "none"
            key = f"{signal}: [{{key: KEY, names: [...]}}]"
            yield SheetLine(what=signal, belief=belief, origin="source", key=key)
        for group in correct_contract(contract, stored.stated).signals:
            yield from _group_lines(group)


def _group_lines(group: SignalContract) -> Iterator[SheetLine]:
    for name in PROPERTIES:
        if name in group.estimates:
            estimate = group.estimates[name]
            origin = estimate.origin if estimate.candidates else "nothing"
            key = f"contract: {group.name}: {{{name}: VALUE}}"
            yield SheetLine(what=f"{name} of {group.name}", belief=str(estimate), origin=origin, key=key)
    against = [dim for dim, sign in zip(group.dimensions, group.signs, strict=False) if sign < 0]
    if against:
        what = f"against its state, in {group.name}"
        key = f"--convert '{group.signal}[{', '.join(against)}]: times -1' of ares export"
        yield SheetLine(what=what, belief=", ".join(against), origin="values", key=key)


def _camera_lines(stores: Stores, name: str) -> Iterator[SheetLine]:
    read = list(stores.tables.episodes.read(_of_dataset(name), limit=_CAMERA_EPISODES))
    cameras = Counter(
        (
            camera.name,
            camera.role,
            f"{camera.width}x{camera.height} {camera.codec} {' '.join(camera.flags)}".strip(),
        )
        for episode in read
        for camera in episode.cameras
    )
    for (camera, role, picture), count in sorted(cameras.items()):
        belief = f"{role}, {picture}, in {count} of {count_of(len(read), 'episode')}"
        key = f"cameras: {camera}: ROLE, or bgr, or left_out"
        yield SheetLine(what=f"camera {camera}", belief=belief, origin="source", key=key)
    if not cameras:
        yield SheetLine(
            what="cameras", belief="none", origin="source", key="cameras: NAME: {key: KEY, role: ROLE}"
        )


def _label_lines(columns: pa.Table) -> Iterator[SheetLine]:
    texts = Counter(columns["instruction"].to_pylist())
    without = texts.pop("", 0)
    belief = f"{len(texts)} different" + (f", {count_of(without, 'episode')} have none" if without else "")
    yield SheetLine(what="instructions", belief=belief, origin="source", key="language: [KEY]")
    outcomes = Counter(columns["success"].to_pylist())
    belief = (
        f"{outcomes[True]} successes, {count_of(outcomes[False], 'failure')}, {outcomes[None]} not labelled"
    )
    origin = _most_frequent(columns["success_source"])
    yield SheetLine(
        what="outcomes", belief=belief, origin=origin, key="success: KEY, or outcome_in_path: true"
    )


def _lost_lines(stored: StoredContracts) -> Iterator[SheetLine]:
    """What the ingestion warned of, such as what it left out."""
    for reason, count in stored.warnings.items():
        key = "left_out: [KEY], or the key of what was not read"
        belief = f"{reason} ({count} {'episode' if count == 1 else 'episodes'})"
        yield SheetLine(what="told at ingestion", belief=belief, origin="files", key=key)
