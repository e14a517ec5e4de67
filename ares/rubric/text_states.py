"""What a grade says of the text of a segment: content and span decide, and the outcome is the episode's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ares.rubric.gate_verdicts import (
    VERDICTS_COLUMN,
    GateVerdict,
    decide_grade_from_gates,
    parse_gate_verdicts,
)
from ares.rubric.verdict import REFUTED_COLUMN

if TYPE_CHECKING:
    import pyarrow as pa


TextState = Literal["accepted", "ungraded", "unsure", "refused", "refuted"]
# The gate that says whether a text is of its span, and not of the neighbour's; and the one that is the episode's.
_SPAN_GATE, _OUTCOME_GATE = "SEG", "OUTCOME"


def find_text_states(rows: pa.Table) -> pa.Array:
    """What their grades say of the texts of segments: (N,) `TextState`.

    Args:
        rows: Segments with those columns of their table that grades fill.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if VERDICTS_COLUMN not in rows.column_names:
        return pa.repeat(pa.scalar("ungraded"), len(rows))
    encoded = pc.fill_null(rows[VERDICTS_COLUMN], "").combine_chunks().dictionary_encode()
    states = pa.array([text_state(text) for text in encoded.dictionary.to_pylist()], pa.string())
    by_verdicts = states.take(encoded.indices)
    if REFUTED_COLUMN not in rows.column_names:
        return by_verdicts
    is_refuted = pc.and_(
        pc.equal(by_verdicts, "accepted"), pc.fill_null(rows[REFUTED_COLUMN].combine_chunks(), False)
    )
    return pc.if_else(is_refuted, "refuted", by_verdicts)


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
