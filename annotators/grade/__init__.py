"""The annotator `grade`, its judges, the attack on them, and the rubrics that come with ARES."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from annotators.grade.annotator import (
        GradeAnnotator as GradeAnnotator,
        list_shipped_rubrics as list_shipped_rubrics,
        load_rubric as load_rubric,
    )
    from annotators.grade.attack import (
        AttackedDataset as AttackedDataset,
        AttackQuote as AttackQuote,
        AttackRequest as AttackRequest,
        AttackRun as AttackRun,
        quote_attack as quote_attack,
        run_attack as run_attack,
    )
    from annotators.grade.clip_judge import (
        ClipJudge as ClipJudge,
        read_candidate_phrases as read_candidate_phrases,
    )
    from annotators.grade.observation import Observation as Observation

__getattr__ = lazy_exports(__name__)
