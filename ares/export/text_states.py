"""What a grade says of the text of a segment: content and span decide, and the outcome is the episode's."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from ares.rubric import (
    REFUTED_COLUMN,
    VERDICTS_COLUMN,
    GateVerdict,
    decide_grade_from_gates,
    parse_gate_verdicts,
)

if TYPE_CHECKING:
    import pyarrow as pa


TextState = Literal["accepted", "ungraded", "unsure", "refused", "refuted"]
_COLUMNS = ("annotation_id", VERDICTS_COLUMN, REFUTED_COLUMN)
# The gate that says whether a text is of its span, and not of the neighbour's; and the one that is the episode's.
_SPAN_GATE, _OUTCOME_GATE = "SEG", "OUTCOME"


def find_text_states(rows: pa.Table) -> dict[str, TextState]:
    """What their grades say of the texts of segments, by annotation_id.

    Args:
        rows: Segments with those columns of their table that grades fill.
    """
    graded = rows.select([name for name in _COLUMNS if name in rows.column_names]).to_pylist()
    states: dict[str, TextState] = {}
    for row in graded:
        state = text_state(row.get(VERDICTS_COLUMN) or "")
        states[row["annotation_id"]] = "refuted" if row.get(REFUTED_COLUMN) and state == "accepted" else state
    return states


@lru_cache(maxsize=20_000)
def text_state(verdicts: str) -> TextState:
    """What a grade says of the text of a segment, if its judge is not refuted.

    Args:
        verdicts: The verdicts on its gates, see `format_gate_verdicts`; "" where it is not graded.
    """
    gates: list[GateVerdict] = [item for item in parse_gate_verdicts(verdicts) if item.gate != _OUTCOME_GATE]
    grade = decide_grade_from_gates(item.verdict for item in gates)
    if grade == "not_acceptable":
        return "refused"
    # Without a neighbour nothing has to be distinguished: the gate is there, and does not apply.
    if not any(item.gate == _SPAN_GATE for item in gates):
        return "ungraded"
    return "accepted" if grade == "acceptable" else "unsure"
