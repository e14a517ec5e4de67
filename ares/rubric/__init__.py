"""Rubrics for captions: criteria, checks in code, verdicts, and their aggregation into grades."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.rubric.caption_parser import CaptionSlots, NounPhrase, parse_caption, parser_hash, split_outcome
    from ares.rubric.contradiction import contradicts
    from ares.rubric.gates import MAX_FALSE_FAILS_OF_CODE, VERDICTS_COLUMN, GateRecord, Gates, measure_gates
    from ares.rubric.hard_checks import CHECKS, CheckInput
    from ares.rubric.lexicon import ATTRIBUTES, VERBS
    from ares.rubric.projection import (
        JUDGE_TRUST,
        GradeProjection,
        read_judge_trust,
        trust_changes,
        trust_documents,
    )
    from ares.rubric.rubric import Criterion, Rubric, read_rubric
    from ares.rubric.slot_match import is_stated, slot_matches, unsupported_claims
    from ares.rubric.trust import (
        CONTROL,
        TRUST_COLUMN,
        ControlCounts,
        JudgeTrust,
        TrustState,
        count_controls,
        decide_trust,
        describe_gates,
        describe_trust,
        judge_controls,
    )
    from ares.rubric.verdict import (
        GATES,
        GRADE_COLUMNS,
        PANEL_COLUMNS,
        Ruling,
        Verdict,
        aggregate,
        correct_grade,
        grade_values,
        is_verdict_column,
    )

__all__ = [
    "ATTRIBUTES",
    "CHECKS",
    "CONTROL",
    "GATES",
    "GRADE_COLUMNS",
    "JUDGE_TRUST",
    "MAX_FALSE_FAILS_OF_CODE",
    "PANEL_COLUMNS",
    "TRUST_COLUMN",
    "VERBS",
    "VERDICTS_COLUMN",
    "CaptionSlots",
    "CheckInput",
    "ControlCounts",
    "Criterion",
    "GateRecord",
    "Gates",
    "GradeProjection",
    "JudgeTrust",
    "NounPhrase",
    "Rubric",
    "Ruling",
    "TrustState",
    "Verdict",
    "aggregate",
    "contradicts",
    "correct_grade",
    "count_controls",
    "decide_trust",
    "describe_gates",
    "describe_trust",
    "grade_values",
    "is_stated",
    "is_verdict_column",
    "judge_controls",
    "measure_gates",
    "parse_caption",
    "parser_hash",
    "read_judge_trust",
    "read_rubric",
    "slot_matches",
    "split_outcome",
    "trust_changes",
    "trust_documents",
    "unsupported_claims",
]

__getattr__ = lazy_exports(__name__)
