"""Rubrics for captions: criteria, checks in code, verdicts, and their aggregation into grades."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.rubric.caption_parser import (
        VERBS as VERBS,
        find_verb_base_form as find_verb_base_form,
        normalize_caption as normalize_caption,
        read_action_and_outcome as read_action_and_outcome,
    )
    from ares.rubric.control_texts import (
        KnownText as KnownText,
        choose_foreign_text as choose_foreign_text,
        invent_note as invent_note,
        make_near_miss as make_near_miss,
        parse_known_text as parse_known_text,
        shipped_names as shipped_names,
        states_value as states_value,
        swap_value as swap_value,
    )
    from ares.rubric.gate_verdicts import (
        PEOPLE_SAY_SO as PEOPLE_SAY_SO,
        SOURCE_SAYS_SO as SOURCE_SAYS_SO,
        VERDICTS_COLUMN as VERDICTS_COLUMN,
        GateVerdict as GateVerdict,
        decide_grade_from_gates as decide_grade_from_gates,
        names_people as names_people,
        parse_gate_verdicts as parse_gate_verdicts,
    )
    from ares.rubric.grade_projection import (
        JUDGE_TRIPWIRE as JUDGE_TRIPWIRE,
        GradeProjection as GradeProjection,
        find_outdated_grades as find_outdated_grades,
        read_tripwires as read_tripwires,
        tripwire_documents as tripwire_documents,
    )
    from ares.rubric.hard_checks import CHECKS as CHECKS, CheckInput as CheckInput
    from ares.rubric.rubric import Criterion as Criterion, Rubric as Rubric, read_rubric as read_rubric
    from ares.rubric.slots import (
        COMPLETED as COMPLETED,
        NOT_COMPLETED as NOT_COMPLETED,
        NOT_VISIBLE as NOT_VISIBLE,
        OTHER as OTHER,
        OUTCOMES as OUTCOMES,
        SLOT_COLUMNS as SLOT_COLUMNS,
        SLOT_LIST_COLUMNS as SLOT_LIST_COLUMNS,
        SLOTS as SLOTS,
        SlotName as SlotName,
        SlotValues as SlotValues,
        is_same_value as is_same_value,
        is_short_value as is_short_value,
        join_attributes as join_attributes,
        make_slot_columns as make_slot_columns,
        normalize_value as normalize_value,
        order_slots as order_slots,
        read_verbs as read_verbs,
        shipped_verbs as shipped_verbs,
        slots_from_json as slots_from_json,
        slots_to_json as slots_to_json,
    )
    from ares.rubric.tripwire import (
        BATTERY as BATTERY,
        CAPTIONS_PER_CONTROL as CAPTIONS_PER_CONTROL,
        CONTROL as CONTROL,
        CONTROL_KINDS as CONTROL_KINDS,
        KIND_WORDS as KIND_WORDS,
        ControlKind as ControlKind,
        describe_tripwire as describe_tripwire,
        read_controls as read_controls,
    )
    from ares.rubric.verdict import (
        GATES as GATES,
        GRADE_COLUMNS as GRADE_COLUMNS,
        GRADE_TIME_COLUMN as GRADE_TIME_COLUMN,
        OLDER_GRADE as OLDER_GRADE,
        REFUTED_COLUMN as REFUTED_COLUMN,
        RESERVED_CRITERIA as RESERVED_CRITERIA,
        WHOLE as WHOLE,
        Ruling as Ruling,
        Verdict as Verdict,
        make_grade_value as make_grade_value,
    )

__getattr__ = lazy_exports(__name__)
