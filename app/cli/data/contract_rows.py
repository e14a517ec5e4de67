"""The meaning contract of a dataset as a table: a row for each group of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.cli.output import OutputTable

if TYPE_CHECKING:
    from ares.quality.contract import MeaningContract, SignalContract

_HEADER = ("signal", "dimensions", "mode", "unit", "convention", "range", "role", "against its command")
# Combinations of dimensions and names that are listed; the JSON has all.
_LISTED_CONTRACTS, _NAMED_DIMENSIONS = 8, 3


def contract_table(contracts: Sequence[MeaningContract]) -> OutputTable | None:
    """The contracts of one dataset; None where it has no signals."""
    rows = [_row(signal) for contract in contracts[:_LISTED_CONTRACTS] for signal in contract.signals]
    return OutputTable(rows, _HEADER) if rows else None


def _row(signal: SignalContract) -> tuple[object, ...]:
    convention = signal.estimate("rotation" if signal.kind == "rotation" else "gripper")
    reversed_names = [name for name, sign in zip(signal.dimensions, signal.signs, strict=False) if sign < 0]
    return (
        signal.name,
        len(signal.dimensions),
        signal.estimates.get("mode", ""),
        signal.estimates.get("unit", ""),
        convention if signal.kind in ("rotation", "gripper") else "",
        f"{signal.low:.4g} to {signal.high:.4g}",
        "" if signal.estimate("role").value == "unknown" else signal.estimate("role"),
        ", ".join(reversed_names[:_NAMED_DIMENSIONS]),
    )
